//! Writes the generated files. `generate manifests [--root .] [--check]` writes all files that
//! are committed; with `--check` it writes nothing and fails if a file differs, with the names of
//! these files. The other commands write some of the files for other versions, images and
//! directories.

mod digests;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use quartet_operator::packaging::{self, Manifest, ManifestError, Release, ReleaseError};

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
    Bundle {
        #[command(flatten)]
        release: ReleaseFlags,
        /// Output directory.
        #[arg(long, default_value = "bundle")]
        output: PathBuf,
    },
    /// Write the file-based catalog, and its Dockerfile next to it.
    Catalog {
        #[command(flatten)]
        release: ReleaseFlags,
        /// Output directory.
        #[arg(long, default_value = "catalog")]
        output: PathBuf,
    },
    /// Write the directory of this version for a community catalog.
    Community {
        #[command(flatten)]
        release: ReleaseFlags,
        /// Clone of the catalog's repository.
        #[arg(long)]
        output: PathBuf,
    },
    /// Write install.yaml, which installs everything, and the list of images next to it.
    Installer {
        #[command(flatten)]
        release: ReleaseFlags,
        /// Output directory.
        #[arg(long, default_value = "dist")]
        output: PathBuf,
    },
    /// Write the Helm chart.
    Chart {
        #[command(flatten)]
        release: ReleaseFlags,
        /// Output directory.
        #[arg(long, default_value = "dist/chart")]
        output: PathBuf,
    },
    /// Write a kustomization of an overlay with this image, for `kubectl apply -k`.
    Deployment {
        #[command(flatten)]
        release: ReleaseFlags,
        /// The overlay, relative to the output directory, as kustomize requires.
        #[arg(long, default_value = "../../config/default")]
        overlay: String,
        /// Output directory.
        #[arg(long, default_value = "target/deploy")]
        output: PathBuf,
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
    /// Image of the catalog.
    #[arg(long, default_value = "")]
    catalog_image: String,
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
    match what {
        What::Manifests { root, check } => {
            let files = packaging::files(&Release::of_sources(CHANGELOG)?)?;
            match check {
                true => compare(&files, &root),
                false => write(&files, &root),
            }
        }
        What::Bundle { release, output } => {
            let release = release.read()?;
            write(&packaging::bundle(&release, &output)?, Path::new("."))
        }
        What::Catalog { release, output } => {
            let is_by_digest = release.use_image_digests;
            let mut release = release.read()?;
            if is_by_digest {
                release.bundle_image = digests::by_digest(&release.bundle_image)?;
            }
            write(&packaging::catalog(&release, &output)?, Path::new("."))
        }
        What::Community { release, output } => {
            write(&packaging::community(&release.read()?)?, &output)
        }
        What::Installer { release, output } => {
            write(&packaging::installer(&release.read()?)?, &output)
        }
        What::Chart { release, output } => write(&packaging::chart(&release.read()?)?, &output),
        What::Deployment {
            release,
            overlay,
            output,
        } => {
            let file = packaging::manager::deployed(&overlay, &release.read()?.image)?;
            write(&[file], &output)
        }
    }
}

impl ReleaseFlags {
    fn read(self) -> Result<Release, Failure> {
        let mut release = Release::new(&self.version, CHANGELOG, epoch()?)?;
        for (given, image) in [
            (self.image, &mut release.image),
            (self.bundle_image, &mut release.bundle_image),
            (self.catalog_image, &mut release.catalog_image),
        ] {
            if !given.is_empty() {
                *image = given;
            }
        }
        if !self.channels.is_empty() {
            let channels = self.channels.split(',').map(|it| it.trim().to_owned());
            release.channels = channels.collect();
        }
        if !self.default_channel.is_empty() {
            release.default_channel = self.default_channel;
        } else if !self.channels.is_empty() {
            release.default_channel = release.channels.first().cloned().unwrap_or_default();
        }
        release.check_channels()?;
        if !self.platforms.is_empty() {
            let platforms = self.platforms.split(',').map(str::parse);
            release.platforms = platforms.collect::<Result<_, _>>()?;
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
    for file in files {
        file.write(root)?;
    }
    Ok(())
}

fn compare(files: &[Manifest], root: &Path) -> Result<(), Failure> {
    let stale = files.iter().filter(|file| file.is_stale(root));
    let names: Vec<_> = stale
        .map(|file| format!("stale: {}", root.join(&file.path).display()))
        .collect();
    match names.is_empty() {
        true => Ok(()),
        false => Err(Failure::Stale(names.join("\n"))),
    }
}
