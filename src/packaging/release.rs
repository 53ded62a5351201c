//! The release to package: version, date, images and channels. Pure; the generator reads the
//! options of the user.

use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::names::PROJECT;
use super::project::project;
use crate::operators::OPERATORS;

/// One version of the product.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// Semantic version, without a `v`.
    pub version: String,
    /// Release time, as an RFC 3339 time in UTC.
    pub created: String,
    /// The previous version, without a `v`; `None` for the first.
    pub replaces: Option<String>,
    /// The manager's image.
    pub image: String,
    /// The bundle's image.
    pub bundle_image: String,
    /// The catalog's image.
    pub catalog_image: String,
    /// The tag of the catalog that moves with every patch release of this minor version. A
    /// CatalogSource uses it.
    pub catalog_following: String,
    /// The channels that contain the release.
    pub channels: Vec<String>,
    /// The default channel.
    pub default_channel: String,
    /// The platforms of the manager's image, e.g. `linux/amd64`.
    pub platforms: Vec<Platform>,
    /// The operand images, in the order of the list of operators.
    pub operands: Vec<Operand>,
    /// Every earlier version, oldest first.
    pub earlier: Vec<String>,
}

/// An operating system and a processor architecture, with Go's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Platform {
    /// E.g. `linux`.
    pub os: String,
    /// E.g. `amd64`.
    pub architecture: String,
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
    /// Not `os/architecture`.
    #[error("{0:?} is not a platform: give os/architecture, e.g. linux/amd64")]
    Platform(String),
    /// The default channel is not one of the channels.
    #[error("the default channel {default:?} is none of the channels {channels}")]
    DefaultChannel {
        /// The default.
        default: String,
        /// The channels.
        channels: String,
    },
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
        let operands = OPERATORS.iter().filter_map(|operator| operator.image());
        let image = |suffix: &str| format!("{}{suffix}:v{version}", project().images);
        let (major, minor, _) = this;
        // A channel tells how stable its releases are.
        let channels: &[&str] = match major {
            0 => &["candidate"],
            _ => &["stable", "candidate"],
        };
        let channels: Vec<String> = channels.iter().map(ToString::to_string).collect();
        Ok(Self {
            version: version.to_owned(),
            created: created.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            replaces: earlier.last().cloned(),
            image: image(""),
            bundle_image: image("-bundle"),
            catalog_image: image("-catalog"),
            catalog_following: format!("{}-catalog:v{major}.{minor}", project().images),
            default_channel: channels.first().cloned().unwrap_or_default(),
            channels,
            platforms: vec![Platform::linux("amd64"), Platform::linux("arm64")],
            operands: operands
                .map(|image| Operand {
                    variable: image.variable,
                    image: image.default.to_owned(),
                })
                .collect(),
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

    /// Checks that the default channel is one of the channels.
    ///
    /// # Errors
    /// [`ReleaseError::DefaultChannel`]: it is not.
    pub fn check_channels(&self) -> Result<(), ReleaseError> {
        match self.channels.contains(&self.default_channel) {
            true => Ok(()),
            false => Err(ReleaseError::DefaultChannel {
                default: self.default_channel.clone(),
                channels: self.channels.join(", "),
            }),
        }
    }

    /// Its maturity in the terms of a ClusterServiceVersion, derived from the version number.
    pub fn maturity(&self) -> &'static str {
        match number(&self.version) {
            Some((1.., _, _)) => "stable",
            _ => "alpha",
        }
    }

    /// Name of its ClusterServiceVersion.
    pub fn csv_name(&self) -> String {
        csv_name(&self.version)
    }

    /// The processor architectures of its platforms, without duplicates.
    pub fn architectures(&self) -> Vec<&str> {
        without_duplicates(self.platforms.iter().map(|it| it.architecture.as_str()))
    }

    /// The operating systems of its platforms, without duplicates.
    pub fn systems(&self) -> Vec<&str> {
        without_duplicates(self.platforms.iter().map(|it| it.os.as_str()))
    }

    /// Every image that a mirror needs, with its purpose.
    pub fn related_images(&self) -> Vec<(String, &str)> {
        let mut images = vec![("manager".to_owned(), self.image.as_str())];
        for operand in &self.operands {
            images.push((operand.name(), operand.image.as_str()));
        }
        images
    }

    /// The list of images for a mirror, including bundle and catalog: one per line, without
    /// duplicates.
    pub fn list_of_images(&self) -> String {
        let related = self.related_images().into_iter().map(|(_, image)| image);
        let of_olm = [&self.bundle_image, &self.catalog_following].map(String::as_str);
        let images = without_duplicates(related.chain(of_olm)).into_iter();
        images.map(|image| format!("{image}\n")).collect()
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

fn without_duplicates<'a>(words: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut unique = Vec::new();
    for word in words {
        if !unique.contains(&word) {
            unique.push(word);
        }
    }
    unique
}

impl Operand {
    /// Its name in lists of images: its variable in lower case, without `_IMAGE`.
    pub fn name(&self) -> String {
        self.variable
            .trim_end_matches("_IMAGE")
            .to_ascii_lowercase()
    }
}

impl Platform {
    /// Linux on this architecture.
    fn linux(architecture: &str) -> Self {
        Self {
            os: "linux".to_owned(),
            architecture: architecture.to_owned(),
        }
    }
}

impl std::str::FromStr for Platform {
    type Err = ReleaseError;

    fn from_str(text: &str) -> Result<Self, ReleaseError> {
        let word =
            |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
        match text.split_once('/') {
            Some((os, architecture)) if word(os) && word(architecture) => Ok(Self {
                os: os.to_owned(),
                architecture: architecture.to_owned(),
            }),
            _ => Err(ReleaseError::Platform(text.to_owned())),
        }
    }
}

/// The three numbers of a version, for comparison. Pre-releases are not published.
fn number(version: &str) -> Option<(u32, u32, u32)> {
    let mut parts = version.split('.').map(|part| {
        let digits = part.bytes().all(|byte| byte.is_ascii_digit());
        let canonical = part == "0" || !part.starts_with('0');
        part.parse().ok().filter(|_: &u32| digits && canonical)
    });
    let mut next = || parts.next().flatten();
    let number = (next()?, next()?, next()?);
    parts.next().is_none().then_some(number)
}

/// The versions and dates in headings such as `## 0.1.0 – 2026-11-21` of a changelog.
fn dated_versions(changelog: &str) -> Vec<(String, Date)> {
    let headings = changelog
        .lines()
        .filter_map(|line| line.strip_prefix("## "));
    headings
        .filter_map(|heading| {
            let (version, date) = heading.split_once([' ', '–', '-'])?;
            let date = date.trim_start_matches([' ', '–', '-']).trim();
            number(version)?;
            Some((version.to_owned(), date.parse().ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGELOG: &str = "# Changelog\n\n## 0.10.0 – unreleased\n\n## 0.2.0 – 2027-01-05\n\n\
                             ## 0.1.0 – 2026-11-21\n### Added\n## Other – 2026-01-01\n";

    #[test]
    fn a_release_has_the_date_of_its_heading_and_follows_the_one_before() {
        let release = Release::new("0.2.0", CHANGELOG, Some(0)).unwrap();
        assert_eq!(release.created, "2027-01-05T00:00:00Z");
        assert_eq!(release.replaces.as_deref(), Some("0.1.0"));
        assert_eq!(
            release.bundle_image,
            "ghcr.io/quartet-operator/quartet-operator-bundle:v0.2.0"
        );
        let first = Release::new("0.1.0", CHANGELOG, None).unwrap();
        assert_eq!(first.replaces, None);
    }

    #[test]
    fn one_without_a_dated_heading_needs_the_build_systems_date() {
        let missing = Err(ReleaseError::Date("0.10.0".to_owned()));
        assert_eq!(Release::new("0.10.0", CHANGELOG, None), missing);
        let release = Release::new("0.10.0", CHANGELOG, Some(86_399)).unwrap();
        assert_eq!(release.created, "1970-01-01T23:59:59Z");
        // Ordered by number: 0.10 comes after 0.2.
        assert_eq!(release.earlier, ["0.1.0", "0.2.0"]);
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for version in [
            "v0.1.0",
            "0.1",
            "0.1.0.0",
            "0.01.0",
            "0.1.x",
            "",
            "0.1.0-rc1",
            "+1.0.0",
        ] {
            let refused = Err(ReleaseError::Version(version.to_owned()));
            assert_eq!(Release::new(version, CHANGELOG, Some(0)), refused);
        }
    }

    #[test]
    fn a_platform_is_a_system_and_a_processor() {
        assert_eq!("linux/amd64".parse(), Ok(Platform::linux("amd64")));
        for platform in ["linux", "linux/", "/amd64", "linux/arm/v7", "linux amd64"] {
            let refused = Err(ReleaseError::Platform(platform.to_owned()));
            assert_eq!(platform.parse::<Platform>(), refused);
        }
    }

    #[test]
    fn the_default_channel_is_one_of_the_channels() {
        let mut release = Release::new("0.1.0", CHANGELOG, None).unwrap();
        assert_eq!(release.check_channels(), Ok(()));
        release.default_channel = "fast".to_owned();
        let refused = release.check_channels().unwrap_err().to_string();
        assert_eq!(
            refused,
            "the default channel \"fast\" is none of the channels candidate"
        );
    }

    #[test]
    fn a_version_below_1_is_alpha_and_in_no_channel_called_stable() {
        let early = Release::new("0.2.0", CHANGELOG, None).unwrap();
        assert_eq!(early.maturity(), "alpha");
        assert_eq!(early.channels, ["candidate"]);
        assert_eq!(early.default_channel, "candidate");
        let first = Release::new("1.0.0", CHANGELOG, Some(0)).unwrap();
        assert_eq!(first.maturity(), "stable");
        assert_eq!(first.channels, ["stable", "candidate"]);
        assert_eq!(first.default_channel, "stable");
    }

    #[test]
    fn every_patch_release_of_a_minor_version_moves_the_same_tag_of_the_catalog() {
        for version in ["0.2.0", "0.2.7"] {
            let release = Release::new(version, CHANGELOG, Some(0)).unwrap();
            assert_eq!(
                release.catalog_following,
                "ghcr.io/quartet-operator/quartet-operator-catalog:v0.2"
            );
        }
    }

    #[test]
    fn the_version_of_the_sources_has_a_date() {
        let changelog = include_str!("../../CHANGELOG.md");
        Release::of_sources(changelog).unwrap();
    }
}
