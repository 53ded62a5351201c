//! Plots of measured figures, beside what is promised, as SVG: the same figures give the same bytes.
//! Measures nothing.

mod axis;
mod chart;
mod pictures;

use std::path::PathBuf;

use crate::error::Error;
use crate::figures::{Key, Records};
use crate::promises::Promises;

const BURSTS: &str = "bursts.csv";
const FLEET: &str = "fleet.csv";
const WEBHOOKS: &str = "webhooks.csv";

/// What is to be drawn.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The folder of bursts.csv, fleet.csv and webhooks.csv, which --record writes
    #[arg(long, default_value = "docs/figures")]
    figures: PathBuf,
    /// Where the plots go [default: beside the figures]
    #[arg(long)]
    output: Option<PathBuf>,
}

/// Draws all plots.
///
/// # Errors
/// A file cannot be read or written, or has no figures.
pub(crate) fn perform(arguments: &Arguments, promises: &Promises) -> Result<(), Error> {
    let output = arguments.output.as_ref().unwrap_or(&arguments.figures);
    let bursts = arguments.read(BURSTS)?;
    let fleet = arguments.read(FLEET)?;
    let webhooks = arguments.read(WEBHOOKS)?;
    let mut plots = Vec::new();
    for plot in &pictures::BURSTS {
        plots.push((
            BURSTS,
            plot.file,
            pictures::of_bursts(plot, &bursts, promises),
        ));
    }
    plots.push((
        FLEET,
        "fleet-memory.svg",
        pictures::of_fleet(&fleet, promises),
    ));
    plots.push((
        WEBHOOKS,
        "webhook-conversion.svg",
        pictures::of_conversions(&webhooks, promises),
    ));
    plots.push((
        WEBHOOKS,
        "webhook-latency.svg",
        pictures::of_latencies(&webhooks, promises),
    ));
    std::fs::create_dir_all(output)?;
    for (source, file, picture) in plots {
        if picture.is_empty() {
            return Err(Error::NoFigures {
                path: arguments.figures.join(source),
                what: picture.title,
            });
        }
        std::fs::write(output.join(file), chart::svg(&picture)?)?;
    }
    Ok(())
}

impl Arguments {
    fn read<K: Key>(&self, file: &str) -> Result<Records<K>, Error> {
        Records::read(&self.figures.join(file))
    }
}

#[cfg(test)]
mod tests;
