//! The release to package: version, date, images and channels.

use clap::Args;
use serde_json::{Value, json};

use crate::template::with;
use crate::{Error, Fields, Project, image};

/// One version of the product. An empty value counts as absent, since make passes empty variables.
#[derive(Debug, Clone, Default, Args)]
pub struct Release {
    /// Version without a leading v. Its date is that of its heading in CHANGELOG.md, or else
    /// SOURCE_DATE_EPOCH.
    #[arg(long, default_value = "")]
    pub version: String,
    /// Image of the manager.
    #[arg(long, default_value = "")]
    pub image: String,
    /// Image of the bundle.
    #[arg(long, default_value = "")]
    pub bundle_image: String,
    /// Channels, separated by commas.
    #[arg(long, value_delimiter = ',')]
    pub channels: Vec<String>,
    /// Default channel; must be one of the channels.
    #[arg(long, default_value = "")]
    pub default_channel: String,
    /// Use image digests, which skopeo reads from the registries.
    #[arg(long)]
    pub use_image_digests: bool,
    /// Platforms of the manager's image, e.g. linux/amd64,linux/arm64.
    #[arg(long, value_delimiter = ',')]
    pub platforms: Vec<String>,
    /// Release time of a version without a heading, in seconds since 1970.
    #[arg(long, env = "SOURCE_DATE_EPOCH", hide = true)]
    pub epoch: Option<i64>,
    /// Release time, as an RFC 3339 time in UTC.
    #[arg(skip)]
    pub created: String,
    /// The tag of the catalog that moves with every patch release of this minor version. A
    /// CatalogSource uses it.
    #[arg(skip)]
    pub catalog_following: String,
    /// The image of each operator with one, by its variable.
    #[arg(skip)]
    pub operands: Vec<(&'static str, String)>,
    /// Every earlier version, oldest first.
    #[arg(skip)]
    pub earlier: Vec<String>,
}

impl Release {
    /// Sets what is absent. Dates and earlier versions are those of the headings in `changelog`.
    ///
    /// # Errors
    /// The version is invalid, its date is unknown, or the default channel is not a channel; the
    /// digest of an image cannot be read.
    pub fn complete(mut self, project: &Project, changelog: &str) -> Result<Self, Error> {
        or(&mut self.version, project.version);
        let version = self.version.clone();
        let Some((major, minor, patch)) = numbers(&version) else {
            return Err(Error(format!(
                "{version:?} is not a version: give MAJOR.MINOR.PATCH, e.g. 0.1.0, without a v"
            )));
        };
        let mut dated: Vec<_> = changelog.lines().filter_map(dated_version).collect();
        dated.sort_by_key(|(name, _)| numbers(name));
        let heading = dated.iter().find(|(name, _)| *name == version);
        self.created = match (heading, self.epoch.map(jiff::Timestamp::from_second)) {
            (Some((_, date)), _) => format!("{date}T00:00:00Z"),
            (None, Some(Ok(time))) => time.to_string(),
            (None, _) => {
                return Err(Error(format!(
                    "the release date of {version} is unknown: add a heading `## {version} – YYYY-MM-DD` to \
                     CHANGELOG.md, or set SOURCE_DATE_EPOCH"
                )));
            }
        };
        dated.retain(|(name, _)| numbers(name) < Some((major, minor, patch)));
        self.earlier = dated.iter().map(|(name, _)| (*name).to_owned()).collect();

        let settings = project.settings()?;
        let images = settings.get("IMAGES").and_then(Value::as_str);
        let images = images.unwrap_or_default();
        or(&mut self.image, &format!("{images}:v{version}"));
        or(
            &mut self.bundle_image,
            &format!("{images}-bundle:v{version}"),
        );
        self.catalog_following = format!("{images}-catalog:v{major}.{minor}");
        let operands = project.operators.iter().filter_map(|it| it.image);
        self.operands = operands
            .map(|(variable, image)| (variable, image.to_owned()))
            .collect();
        if self.use_image_digests {
            let operands = self.operands.iter_mut().map(|(_, image)| image);
            for image in [&mut self.image].into_iter().chain(operands) {
                *image = image::by_digest(image)?;
            }
        }

        or_list(&mut self.platforms, &["linux/amd64", "linux/arm64"]);
        // A channel tells how stable its releases are.
        let stable: &[&str] = if major == 0 { &[] } else { &["stable"] };
        or_list(&mut self.channels, &[stable, &["candidate"]].concat());
        or(&mut self.default_channel, &self.channels[0]);
        if !self.channels.contains(&self.default_channel) {
            let (default, channels) = (self.default_channel, self.channels.join(", "));
            return Err(Error(format!(
                "the default channel {default:?} is none of the channels {channels}"
            )));
        }
        Ok(self)
    }

    /// The fields of the templates.
    pub(crate) fn fields(&self, project: &Project) -> Result<Fields, Error> {
        let csv_name = |version: &str| format!("{}.v{version}", project.name);
        let skip_range = |version: &str| format!(">=0.0.0 <{version}");
        let mut previous = None;
        let mut entries = Vec::new();
        // Every version replaces the previous one, and can be installed directly over each earlier one.
        for version in self.earlier.iter().chain([&self.version]) {
            let range = skip_range(version);
            let name = csv_name(version);
            entries.push(json!({ "name": name, "replaces": previous, "skipRange": range }));
            previous = Some(name);
        }
        let (mut operands, mut images) = (Vec::new(), vec![&self.image]);
        for (variable, image) in &self.operands {
            let name = variable.trim_end_matches("_IMAGE").to_ascii_lowercase();
            operands.push(json!({ "OPERAND": name, "VARIABLE": variable, "IMAGE": image }));
            images.push(image);
        }
        // Mirroring for an air-gapped cluster requires digests.
        let disconnected = images.iter().all(|image| image.contains("@sha256:"));
        images.extend([&self.bundle_image, &self.catalog_following]);
        images.dedup();
        let mut architectures = Vec::new();
        for platform in &self.platforms {
            match platform.split_once('/') {
                Some(("linux", it)) if !it.contains('/') => architectures.push(it),
                _ => {
                    return Err(Error(format!(
                        "{platform:?} is not a platform: give linux/architecture, e.g. linux/amd64"
                    )));
                }
            }
        }
        let fields = json!({
            "VERSION": self.version,
            "CREATED": self.created,
            "CSV_NAME": csv_name(&self.version),
            "ENTRIES": entries,
            "REPLACES": self.earlier.last().map(|it| csv_name(it)),
            "SKIP_RANGE": skip_range(&self.version),
            "MATURITY": if self.version.starts_with("0.") { "alpha" } else { "stable" },
            "IMAGE": self.image,
            "BUNDLE_IMAGE": self.bundle_image,
            "CATALOG_FOLLOWING": self.catalog_following,
            "CHANNELS": self.channels,
            "CHANNEL_LIST": self.channels.join(","),
            "DEFAULT_CHANNEL": self.default_channel,
            "ARCHITECTURES": architectures,
            "OPERANDS": operands,
            "IMAGE_LIST": images.iter().map(|image| format!("{image}\n")).collect::<String>(),
            "DISCONNECTED": disconnected.to_string(),
        });
        Ok(with(&project.settings()?, &fields))
    }
}

fn or(value: &mut String, default: &str) {
    if value.is_empty() {
        default.clone_into(value);
    }
}

fn or_list(values: &mut Vec<String>, default: &[&str]) {
    values.retain(|value| !value.is_empty());
    if values.is_empty() {
        *values = default.iter().map(ToString::to_string).collect();
    }
}

/// The three numbers of a version, for comparison. Pre-releases are not published.
fn numbers(version: &str) -> Option<(u32, u32, u32)> {
    let part = |part: &str| part.parse().ok().filter(|it: &u32| it.to_string() == part);
    let parts: Option<Vec<u32>> = version.split('.').map(part).collect();
    match parts?[..] {
        [major, minor, patch] => Some((major, minor, patch)),
        _ => None,
    }
}

/// Version and date in a heading such as `## 0.1.0 – 2026-11-21` of a changelog.
fn dated_version(line: &str) -> Option<(&str, jiff::civil::Date)> {
    let (version, date) = line.strip_prefix("## ")?.split_once(" – ")?;
    numbers(version)?;
    Some((version, date.parse().ok()?))
}
