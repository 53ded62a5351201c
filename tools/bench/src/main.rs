//! `bench`: what the manager costs, on a real control plane, beside what is promised. Starts
//! its own cluster and its own manager, and prints tables in Markdown.
//!
//! Counts (requests, CPU seconds, bytes) are the manager's alone, and so hold on a busy
//! machine; times do not, since the control plane shares the machine and needs most of it.

mod audit;
mod bursts;
mod figures;
mod fleet;
mod manager;
mod peer;
mod plot;
mod promises;
mod run;
mod table;
mod usage;
mod webhook;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser as _;

use crate::promises::Promises;

/// Why there are no figures, or a promise is missed.
type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

/// Measure the manager on a real control plane.
#[derive(clap::Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    other: Option<Other>,
    #[command(flatten)]
    bursts: bursts::Arguments,
    /// What is promised
    #[arg(long, global = true, default_value = "tools/bench/promises.yaml")]
    promises: PathBuf,
}

/// What else can be done.
#[derive(clap::Subcommand)]
enum Other {
    /// Measure the webhooks, beside those on controller-runtime; needs no cluster
    Webhook(webhook::Arguments),
    /// Measure the manager beside one on controller-runtime and one on kube-rs
    Peer(peer::Arguments),
    /// Draw the figures that were recorded, beside what is promised
    Plot(plot::Arguments),
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => match error.downcast_ref() {
            Some(devcluster::Error::Interrupted) => ExitCode::from(devcluster::INTERRUPTED),
            _ => {
                eprintln!("bench: {error}");
                ExitCode::FAILURE
            }
        },
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let mut promises = Promises::read(&arguments.promises)?;
    if let Some(Other::Plot(plot)) = &arguments.other {
        return plot::perform(plot, &promises);
    }
    // The clients of the cluster and of the webhooks both use ring.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let interrupted = devcluster::interrupt_flag()?;
    match &arguments.other {
        Some(Other::Webhook(webhook)) => webhook::perform(webhook, &mut promises, &interrupted)?,
        Some(Other::Peer(peer)) => peer::perform(peer, &mut promises, &interrupted)?,
        _ => bursts::perform(&arguments.bursts, &mut promises, &interrupted)?,
    }
    promises.verdict()
}

/// Reads a text file; an error names its path.
fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path)
        .map_err(|error| format!("reading {}: {error}", path.display()).into())
}
