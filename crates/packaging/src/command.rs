//! The command line of the generator.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use crate::image::by_digest;
use crate::template::write_files;
use crate::{Error, Generator, Project, Release};

/// Generate files from the types of the manager.
#[derive(Debug, Parser)]
struct Arguments {
    /// What to write.
    what: What,
    #[command(flatten)]
    release: Release,
    /// Output directory.
    #[arg(long)]
    output: PathBuf,
}

#[derive(Debug, Clone, ValueEnum)]
enum What {
    /// Every generated file of the repository.
    Manifests,
    /// The bundle, and its Dockerfile next to it.
    Bundle,
    /// The file-based catalog, and its Dockerfile next to it.
    Catalog,
    /// The directory of this version for a community catalog. The output is a clone of its repository.
    Community,
    /// install.yaml, which installs everything, and the list of images.
    Installer,
    /// The Helm chart.
    Chart,
}

/// Writes the files that the arguments of the process name.
pub fn run(project: &Project) -> ExitCode {
    match write(project, Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn write(project: &Project, arguments: Arguments) -> Result<(), Error> {
    let changelog = project.text("CHANGELOG.md")?;
    let mut release = arguments.release.complete(project, &changelog)?;
    if release.use_image_digests && matches!(arguments.what, What::Catalog) {
        release.bundle_image = by_digest(&release.bundle_image)?;
    }
    let generator = Generator::new(project, &release)?;
    let folder = arguments.output.to_string_lossy();
    let files = match arguments.what {
        What::Manifests => generator.files()?,
        What::Bundle => generator.bundle(&folder)?,
        What::Catalog => generator.catalog(&folder)?,
        What::Community => generator.community()?,
        What::Installer => generator.installer()?,
        What::Chart => generator.chart()?,
    };
    let root = match arguments.what {
        // Their paths begin with the folder.
        What::Bundle | What::Catalog => Path::new("."),
        _ => &arguments.output,
    };
    write_files(root, &files)
}
