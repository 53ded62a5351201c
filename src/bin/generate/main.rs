//! Writes the generated files. `generate manifests [--root .] [--check]` writes all files that
//! are committed; with `--check` it writes nothing and fails if a file differs, with the names of
//! these files. The other commands write some of the files for other versions, images and
//! directories.

mod digests;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use quartet_operator::packaging::{self, Manifest, ManifestError, Release, ReleaseError, release};

const CHANGELOG: &str = include_str!("../../../CHANGELOG.md");

/// Generate the committed files from the types of the manager.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Write every generated file of the repository.
    Manifests {
        /// Root directory of the repository.
        #[arg(long, default_value = ".")]
        root: PathBuf,
        /// Compare instead of writing; exit with 1 if a file is stale.
        #[arg(long)]
        check: bool,
    },
    /// Write the bundle, and its Dockerfile next to it.
    #[command(mut_arg("output", |output| output.required(false).default_value("bundle")))]
    Bundle(ReleaseFlags),
    /// Write the file-based catalog, and its Dockerfile next to it.
    #[command(mut_arg("output", |output| output.required(false).default_value("catalog")))]
    Catalog(ReleaseFlags),
    /// Write the directory of this version for a community catalog.
    #[command(mut_arg("output", |output| output.help("Clone of the catalog's repository")))]
    Community(ReleaseFlags),
    /// Write install.yaml, which installs everything, and the list of images next to it.
    #[command(mut_arg("output", |output| output.required(false).default_value("dist")))]
    Installer(ReleaseFlags),
    /// Write the Helm chart.
    #[command(mut_arg("output", |output| output.required(false).default_value("dist/chart")))]
    Chart(ReleaseFlags),
    /// Write a kustomization of an overlay with this image, for `kubectl apply -k`.
    #[command(mut_arg("output", |output| output.required(false).default_value("target/deploy")))]
    Deployment {
        #[command(flatten)]
        flags: ReleaseFlags,
        /// The overlay, relative to the output directory, as kustomize requires.
        #[arg(long, default_value = "../../config/default")]
        overlay: String,
    },
}

/// The release to package. An empty value counts as absent, since make passes empty variables.
#[derive(Debug, Args)]
struct ReleaseFlags {
    /// Version without a leading v. Its date is that of its heading in CHANGELOG.md, or else
    /// SOURCE_DATE_EPOCH.
    #[arg(long, default_value = env!("CARGO_PKG_VERSION"))]
    version: String,
    /// Image of the manager.
    #[arg(long, default_value = "")]
    image: String,
    /// Image of the bundle.
    #[arg(long, default_value = "")]
    bundle_image: String,
    /// Channels, separated by commas.
    #[arg(long, default_value = "")]
    channels: String,
    /// Default channel; must be one of the channels.
    #[arg(long, default_value = "")]
    default_channel: String,
    /// Use image digests, which skopeo reads from the registries.
    #[arg(long)]
    use_image_digests: bool,
    /// Platforms, e.g. linux/amd64,linux/arm64.
    #[arg(long, default_value = "")]
    platforms: String,
    /// Output directory.
    #[arg(long)]
    output: PathBuf,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error(transparent)]
    Release(#[from] ReleaseError),
    #[error("SOURCE_DATE_EPOCH is {0:?}: give seconds since 1970")]
    Epoch(String),
    #[error(transparent)]
    Digest(#[from] digests::DigestError),
    #[error("{0}\nrun `make manifests` and commit what changes")]
    Stale(String),
}

fn main() -> ExitCode {
    match run(Arguments::parse().what) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(what: What) -> Result<(), Failure> {
    let here = Path::new(".");
    match what {
        What::Manifests { root, check } => {
            let files = packaging::files(&Release::of_sources(CHANGELOG)?)?;
            match check {
                true => compare(&files, &root),
                false => write(&files, &root),
            }
        }
        What::Bundle(flags) => write(&packaging::bundle(&flags.read()?, &flags.output)?, here),
        What::Catalog(flags) => {
            let mut release = flags.read()?;
            if flags.use_image_digests {
                release.bundle_image = digests::by_digest(&release.bundle_image)?;
            }
            write(&packaging::catalog(&release, &flags.output)?, here)
        }
        What::Community(flags) => write(&packaging::community(&flags.read()?)?, &flags.output),
        What::Installer(flags) => write(&packaging::installer(&flags.read()?)?, &flags.output),
        What::Chart(flags) => write(&packaging::chart(&flags.read()?)?, &flags.output),
        What::Deployment { flags, overlay } => {
            let file = packaging::manager::deployed(&overlay, &flags.read()?.image)?;
            write(&[file], &flags.output)
        }
    }
}

impl ReleaseFlags {
    fn read(&self) -> Result<Release, Failure> {
        let mut release = Release::new(&self.version, CHANGELOG, epoch()?)?;
        if !self.channels.is_empty() {
            let channels = self.channels.split(',').map(|it| it.trim().to_owned());
            release.channels = channels.collect();
            release.default_channel = release.channels.first().cloned().unwrap_or_default();
        }
        for (given, setting) in [
            (&self.image, &mut release.image),
            (&self.bundle_image, &mut release.bundle_image),
            (&self.default_channel, &mut release.default_channel),
        ] {
            if !given.is_empty() {
                setting.clone_from(given);
            }
        }
        if !release.channels.contains(&release.default_channel) {
            let (default, channels) = (release.default_channel, release.channels.join(", "));
            return Err(ReleaseError::DefaultChannel(default, channels).into());
        }
        if !self.platforms.is_empty() {
            release.architectures = release::architectures(&self.platforms)?;
        }
        if self.use_image_digests {
            digests::resolve(&mut release)?;
        }
        Ok(release)
    }
}

fn epoch() -> Result<Option<i64>, Failure> {
    match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) if !text.is_empty() => match text.parse() {
            Ok(seconds) => Ok(Some(seconds)),
            Err(_) => Err(Failure::Epoch(text)),
        },
        _ => Ok(None),
    }
}

fn write(files: &[Manifest], root: &Path) -> Result<(), Failure> {
    Ok(files.iter().try_for_each(|file| file.write(root))?)
}

fn compare(files: &[Manifest], root: &Path) -> Result<(), Failure> {
    let stale = files.iter().filter(|file| file.is_stale(root));
    let stale = stale.map(|file| format!("stale: {}", root.join(&file.path).display()));
    let names: Vec<_> = stale.collect();
    match names.is_empty() {
        true => Ok(()),
        false => Err(Failure::Stale(names.join("\n"))),
    }
}
