//! `bench`: what the manager costs, on a real control plane, beside what is promised. Starts
//! its own cluster and its own manager, and prints tables in Markdown.
//!
//! Counts (requests, CPU seconds, bytes) are the manager's alone, and so hold on a busy
//! machine; times do not, since the control plane shares the machine and needs most of it.

mod audit;
mod error;
mod figures;
mod fleet;
mod manager;
mod peer;
mod plot;
mod promises;
mod report;
mod run;
mod usage;
mod webhook;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;

use crate::error::Error;
use crate::manager::Subject;
use crate::promises::{Load, Promises};
use crate::run::Plan;

/// A burst that the Deployment controller keeps up with. It is measured before a larger one.
const SMALL: Load = Load {
    resources: 100,
    pods: 0,
};

/// Measure the manager on a real control plane.
#[derive(clap::Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    other: Option<Other>,
    /// How many resources to create, a quarter of each kind
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(4..=10_800))]
    resources: u32,
    /// Pods of each resource; one run each; with commas between [default: 0 and 1, or 0 for more than 2000]
    #[arg(long, value_delimiter = ',')]
    pods: Vec<u32>,
    /// Seconds of rest to observe
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    rest: u64,
    /// The manager's binary
    #[arg(long, default_value = "target/release/manager")]
    manager: PathBuf,
    /// The folder that holds config/
    #[arg(long, default_value = ".")]
    root: PathBuf,
    /// What is promised
    #[arg(long, global = true, default_value = "tools/bench/promises.yaml")]
    promises: PathBuf,
}

/// What else can be done.
#[derive(clap::Subcommand)]
enum Other {
    /// Measure the webhooks, beside those on controller-runtime; needs no cluster
    Webhook(webhook::Plan),
    /// Measure the manager beside one on controller-runtime and one on kube-rs
    Peer(peer::Arguments),
    /// Draw the figures that were recorded, beside what is promised
    Plot(plot::Arguments),
}

impl Arguments {
    /// More than 2000 pods are more than a small machine's control plane starts in a
    /// reasonable time.
    fn pods(&self) -> Vec<u32> {
        match (self.pods.as_slice(), self.resources) {
            ([], ..=2000) => vec![0, 1],
            ([], _) => vec![0],
            (chosen, _) => chosen.to_vec(),
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Error::Cluster(devcluster::Error::Interrupted)) => {
            ExitCode::from(devcluster::INTERRUPTED)
        }
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Error> {
    let mut promises = Promises::read(&arguments.promises)?;
    if let Some(Other::Plot(plot)) = &arguments.other {
        return plot::perform(plot, &promises);
    }
    let interrupted = devcluster::interrupt_flag()?;
    match &arguments.other {
        Some(Other::Webhook(plan)) => return webhook::perform(plan, promises, &interrupted),
        Some(Other::Peer(plan)) => return peer::perform(plan, promises, &interrupted),
        _ => {}
    }
    let subject = Subject::ours(&arguments.manager);
    println!("{}\n", report::machine());
    println!("{}", report::binary(&subject, &mut promises)?);
    let plan = |load, rest| Plan {
        load,
        rest: Duration::from_secs(rest),
        root: arguments.root.clone(),
    };
    if arguments.resources > SMALL.resources {
        let plan = plan(SMALL, 1);
        let burst = run::burst(&plan, &subject, &interrupted)?;
        println!("{}", report::small(&plan, &burst, &mut promises));
    }
    for pods in arguments.pods() {
        let resources = arguments.resources;
        let plan = plan(Load { resources, pods }, arguments.rest);
        let figures = run::perform(&plan, &subject, &interrupted)?;
        println!("{}", report::table(&plan, &figures, &mut promises));
    }
    promises.verdict()
}
