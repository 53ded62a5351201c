//! The command: parses the arguments, calls the subcommand, and converts its result to an exit
//! code.

mod background;
mod run;
mod webhooks;

use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A local Kubernetes control plane with kwok nodes, built from source.
#[derive(Parser)]
#[command(name = "devcluster", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start a cluster that stays, and print the line that selects it
    Up {
        #[command(flatten)]
        cluster: ClusterArguments,
        /// A command that runs in it until `down`, and its arguments
        #[arg(last = true)]
        command: Vec<OsString>,
    },
    /// Stop the clusters that `up` left running
    Down,
    /// Run a command with a cluster of its own (KUBECONFIG, PATH, DEVCLUSTER_AUDIT_LOG)
    Run {
        #[command(flatten)]
        cluster: ClusterArguments,
        /// One real node instead, which runs containers; needs root, and the packages that
        /// hack/e2e/missing.sh names
        #[arg(long, conflicts_with = "nodes")]
        node: bool,
        /// The command and its arguments; its exit code is that of `run`
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Run a command, as root, in namespaces in which it may start a cluster with a real node
    Enter {
        /// The command and its arguments; its exit code is that of `enter`
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Make the API server of KUBECONFIG call webhooks on this machine while a command serves them
    Webhooks(webhooks::Arguments),
}

/// The kind of cluster to start.
#[derive(clap::Args)]
struct ClusterArguments {
    /// Number of kwok nodes
    #[arg(long, default_value_t = 2)]
    nodes: usize,
    /// A kustomize folder of CustomResourceDefinitions to install before the controllers
    /// start (the garbage collector finds later ones within 30 s only)
    #[arg(long, value_name = "FOLDER")]
    definitions: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("devcluster: {error}");
            match error.downcast_ref() {
                Some(devcluster::Error::Interrupted) => ExitCode::from(devcluster::INTERRUPTED),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn run(command: Command) -> Result<ExitCode, Box<dyn Error>> {
    match command {
        Command::Up { cluster, command } => background::up(&cluster, &command),
        Command::Down => background::down(),
        Command::Run { node: true, .. } if !devcluster::is_inside() => {
            let mut command = vec![std::env::current_exe()?.into()];
            command.extend(std::env::args_os().skip(1));
            enter(&command)
        }
        Command::Enter { command } => enter(&command),
        Command::Run {
            cluster,
            node,
            command,
        } => run::run(&cluster, node, &command),
        Command::Webhooks(arguments) => webhooks::run(&arguments),
    }
}

/// Runs `command` where a cluster with a real node can be started.
fn enter(command: &[OsString]) -> Result<ExitCode, Box<dyn Error>> {
    // Inside there is no network to fetch modules from.
    devcluster::binaries()?;
    devcluster::containerd()?;
    let interrupted = devcluster::interrupt_flag()?;
    Ok(run::exit_code(devcluster::enter(command, &interrupted)?))
}
