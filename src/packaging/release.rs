//! The release to package: version, date, images and channels. Pure; the generator reads the
//! options of the user.

use std::collections::BTreeSet;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::project::project;
use crate::kinds::OPERATORS;
use crate::names::{OLDEST_KUBERNETES, OLDEST_OPENSHIFT, PROJECT};
use quartet_workload::OperandImage;

/// One version of the product.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// Semantic version, without a `v`.
    pub version: String,
    /// Release time, as an RFC 3339 time in UTC.
    pub created: String,
    /// The manager's image.
    pub image: String,
    /// The bundle's image.
    pub bundle_image: String,
    /// The tag of the catalog that moves with every patch release of this minor version. A
    /// CatalogSource uses it.
    pub catalog_following: String,
    /// The channels that contain the release.
    pub channels: Vec<String>,
    /// The default channel.
    pub default_channel: String,
    /// The processor architectures of the manager's image, with Go's names, e.g. `amd64`. Its operating
    /// system is Linux.
    pub architectures: Vec<String>,
    /// The operand images, in the order of the list of operators.
    pub operands: Vec<Operand>,
    /// Every earlier version, oldest first.
    pub earlier: Vec<String>,
}

/// A default image of the pods of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operand {
    /// The environment variable of the manager that sets it, e.g. `MEMCACHED_IMAGE`.
    pub variable: &'static str,
    /// The image.
    pub image: String,
}

/// The options do not describe a release.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// Not `MAJOR.MINOR.PATCH`.
    #[error("{0:?} is not a version: give MAJOR.MINOR.PATCH, e.g. 0.1.0, without a v")]
    Version(String),
    /// The release date is unknown.
    #[error(
        "the release date of {0} is unknown: add a heading `## {0} – YYYY-MM-DD` to CHANGELOG.md, \
         or set SOURCE_DATE_EPOCH"
    )]
    Date(String),
    /// Not `linux/architecture`.
    #[error("{0:?} is not a platform: give linux/architecture, e.g. linux/amd64")]
    Platform(String),
    /// The default channel is not one of the channels.
    #[error("the default channel {0:?} is none of the channels {1}")]
    DefaultChannel(String, String),
}

impl Release {
    /// The release `version` with defaults for everything else. Its date is that of its heading
    /// in `changelog`, or else `epoch` (Unix seconds).
    ///
    /// # Errors
    /// [`ReleaseError`]: the version is invalid, or its date is unknown.
    pub fn new(version: &str, changelog: &str, epoch: Option<i64>) -> Result<Self, ReleaseError> {
        let this = number(version).ok_or_else(|| ReleaseError::Version(version.to_owned()))?;
        let dated = dated_versions(changelog);
        let date = dated.iter().find(|(name, _)| name == version);
        let created = date
            .and_then(|(_, date)| date.to_zoned(TimeZone::UTC).ok())
            .map(|midnight| midnight.timestamp())
            .or_else(|| jiff::Timestamp::from_second(epoch?).ok())
            .ok_or_else(|| ReleaseError::Date(version.to_owned()))?;
        let mut earlier: Vec<String> = dated.into_iter().map(|(name, _)| name).collect();
        earlier.retain(|name| number(name) < Some(this));
        earlier.sort_by_key(|name| number(name));
        let image = |suffix: &str| format!("{}{suffix}:v{version}", project().images);
        let (major, minor, _) = this;
        // A channel tells how stable its releases are.
        let channels = match major {
            0 => vec!["candidate".to_owned()],
            _ => vec!["stable".to_owned(), "candidate".to_owned()],
        };
        let images = OPERATORS.iter().filter_map(|operator| operator.image());
        let operand = |image: &OperandImage| Operand {
            variable: image.variable,
            image: image.default.to_owned(),
        };
        Ok(Self {
            version: version.to_owned(),
            created: created.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            image: image(""),
            bundle_image: image("-bundle"),
            catalog_following: format!("{}-catalog:v{major}.{minor}", project().images),
            default_channel: channels.first().cloned().unwrap_or_default(),
            channels,
            architectures: ["amd64", "arm64"].map(str::to_owned).to_vec(),
            operands: images.map(operand).collect(),
            earlier,
        })
    }

    /// The release of the sources.
    ///
    /// # Errors
    /// [`ReleaseError`]: `changelog` has no date for it.
    pub fn of_sources(changelog: &str) -> Result<Self, ReleaseError> {
        Self::new(env!("CARGO_PKG_VERSION"), changelog, None)
    }

    /// Name of its ClusterServiceVersion.
    pub fn csv_name(&self) -> String {
        csv_name(&self.version)
    }

    /// The images that its pods run, with their purposes.
    fn related_images(&self) -> Vec<(String, &str)> {
        let manager = ("manager".to_owned(), self.image.as_str());
        let operands = self.operands.iter();
        let operands = operands.map(|operand| (operand.name(), operand.image.as_str()));
        [manager].into_iter().chain(operands).collect()
    }

    /// The list of images for a mirror, including bundle and catalog: one per line, without
    /// duplicates.
    pub fn list_of_images(&self) -> String {
        let related = self.related_images().into_iter().map(|(_, image)| image);
        let of_olm = [&self.bundle_image, &self.catalog_following].map(String::as_str);
        let images = without_duplicates(related.chain(of_olm)).into_iter();
        images.map(|image| format!("{image}\n")).collect()
    }

    /// The fields of the templates.
    pub(super) fn fields(&self) -> Value {
        let project = project();
        let related = || self.related_images().into_iter();
        // Mirroring for an air-gapped cluster requires digests.
        let disconnected = related().all(|(_, it)| it.contains("@sha256:"));
        let related = related().map(|(name, image)| json!({ "name": name, "image": image }));
        let variables = self.operands.iter();
        let variables = variables.map(|it| json!({ "name": it.variable, "value": it.image }));
        json!({
            "VERSION": self.version,
            "CREATED": self.created,
            "CSV_NAME": self.csv_name(),
            "REPLACES": self.earlier.last().map(|it| csv_name(it)),
            "SKIP_RANGE": skip_range(&self.version),
            "MATURITY": if self.version.starts_with("0.") { "alpha" } else { "stable" },
            "IMAGE": self.image,
            "BUNDLE_IMAGE": self.bundle_image,
            "CATALOG_FOLLOWING": self.catalog_following,
            "CHANNELS": self.channels,
            "CHANNEL_LIST": self.channels.join(","),
            "DEFAULT_CHANNEL": self.default_channel,
            "ARCHITECTURES": self.architectures,
            "OPERAND_VARIABLES": variables.collect::<Vec<_>>(),
            "RELATED_IMAGES": related.collect::<Vec<_>>(),
            "DISCONNECTED": disconnected.to_string(),
            "OLDEST_KUBERNETES": OLDEST_KUBERNETES,
            "OLDEST_OPENSHIFT": OLDEST_OPENSHIFT,
            "REPOSITORY": project.repository,
            "MAINTAINER": project.maintainer,
            "EMAIL": project.email,
            "REVIEWERS": project.reviewers(),
        })
    }
}

/// Name of the ClusterServiceVersion of `version`.
pub(super) fn csv_name(version: &str) -> String {
    format!("{PROJECT}.v{version}")
}

/// The versions that `version` can be installed over directly: all earlier ones.
pub(super) fn skip_range(version: &str) -> String {
    format!(">=0.0.0 <{version}")
}

/// Repository, tag and digest of an image; absent parts are empty.
pub fn image_parts(image: &str) -> (&str, &str, &str) {
    let (named, digest) = image.split_once('@').unwrap_or((image, ""));
    match named.rsplit_once(':') {
        // A colon before a slash separates the port of the registry.
        Some((repository, tag)) if !tag.contains('/') => (repository, tag, digest),
        _ => (named, "", digest),
    }
}

fn without_duplicates<'a>(words: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    words.filter(|word| seen.insert(*word)).collect()
}

impl Operand {
    /// Its name in lists of images: its variable in lower case, without `_IMAGE`.
    pub fn name(&self) -> String {
        self.variable
            .trim_end_matches("_IMAGE")
            .to_ascii_lowercase()
    }
}

/// The architectures in a list of platforms such as `linux/amd64,linux/arm64`.
///
/// # Errors
/// [`ReleaseError::Platform`]: one is not `linux/architecture`.
pub fn architectures(platforms: &str) -> Result<Vec<String>, ReleaseError> {
    let is_word = |it: &&str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_alphanumeric());
    let architecture = |platform: &str| {
        let architecture = platform.strip_prefix("linux/").filter(is_word);
        let architecture = architecture.map(str::to_owned);
        architecture.ok_or_else(|| ReleaseError::Platform(platform.to_owned()))
    };
    platforms.split(',').map(architecture).collect()
}

/// The three numbers of a version, for comparison. Pre-releases are not published.
fn number(version: &str) -> Option<(u32, u32, u32)> {
    let part = |part: &str| part.parse().ok().filter(|it: &u32| it.to_string() == part);
    let parts: Option<Vec<u32>> = version.split('.').map(part).collect();
    match parts?[..] {
        [major, minor, patch] => Some((major, minor, patch)),
        _ => None,
    }
}

/// The versions and dates in headings such as `## 0.1.0 – 2026-11-21` of a changelog.
fn dated_versions(changelog: &str) -> Vec<(String, Date)> {
    let dated = |line: &str| {
        let (version, date) = line.strip_prefix("## ")?.split_once([' ', '–', '-'])?;
        number(version)?;
        let date = date.trim_start_matches([' ', '–', '-']).trim();
        Some((version.to_owned(), date.parse().ok()?))
    };
    changelog.lines().filter_map(dated).collect()
}

#[cfg(test)]
mod tests;
