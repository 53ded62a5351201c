//! The command: parses the arguments, calls the subcommand, and converts its result to an exit
//! code.

mod background;
mod run;
mod webhooks;

use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Parser, Subcommand};
use devcluster::{Binaries, Cluster, Nodes, Options};

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
    Up(StayingArguments),
    /// Stop the clusters that `up` left running
    Down,
    /// Run a command with a cluster of its own (KUBECONFIG, PATH, DEVCLUSTER_AUDIT_LOG)
    Run {
        #[command(flatten)]
        cluster: ClusterArguments,
        /// One real node instead, which runs containers; needs root, and a registry, runc and other
        /// packages; missing ones are listed
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
    /// The process behind `up`
    #[command(hide = true)]
    Hold(StayingArguments),
    /// The process behind `run`: executes the command, and exits when its parent does
    #[command(hide = true)]
    RunBound {
        parent: i32,
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
}

/// A cluster that stays.
#[derive(clap::Args)]
struct StayingArguments {
    #[command(flatten)]
    cluster: ClusterArguments,
    /// A command that runs in it until `down`, and its arguments
    #[arg(last = true)]
    command: Vec<String>,
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

impl ClusterArguments {
    /// Starts it with simulated nodes, or with the one real one if `is_node_real`.
    fn start(
        &self,
        is_node_real: bool,
        interrupted: Arc<AtomicBool>,
    ) -> devcluster::Result<Cluster> {
        let cluster = Cluster::start_api_server(Options {
            nodes: match is_node_real {
                true => Nodes::Real,
                false => Nodes::Simulated(self.nodes),
            },
            interrupted,
        })?;
        if let Some(folder) = &self.definitions {
            cluster.install_definitions(folder)?;
        }
        cluster.start_controllers()?;
        Ok(cluster)
    }
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("devcluster: {error}");
            let is_interrupt = matches!(error.downcast_ref(), Some(devcluster::Error::Interrupted));
            if is_interrupt {
                ExitCode::from(devcluster::INTERRUPTED)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

fn run(command: Command) -> Result<ExitCode, Box<dyn Error>> {
    match command {
        Command::Up(_) => background::up(),
        Command::Down => background::down(),
        Command::Run { node: true, .. } if !devcluster::is_inside() => {
            let arguments = std::env::args_os().skip(1);
            enter(&std::env::current_exe()?, arguments)
        }
        Command::Enter { command } => match command.split_first() {
            Some((program, arguments)) => enter(Path::new(program), arguments.iter().cloned()),
            None => Ok(ExitCode::SUCCESS),
        },
        Command::Run {
            cluster,
            node,
            command,
        } => run::run(&cluster, node, &command),
        Command::Webhooks(arguments) => webhooks::run(&arguments),
        Command::Hold(arguments) => background::hold(&arguments),
        Command::RunBound { parent, command } => match run::run_bound(parent, &command)? {},
    }
}

/// Runs `program` where a cluster with a real node can be started.
fn enter(
    program: &Path,
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<ExitCode, Box<dyn Error>> {
    // Inside there is no network to fetch modules from.
    Binaries::find_or_build()?.with_containerd()?;
    let interrupted = devcluster::interrupt_flag()?;
    let status = devcluster::enter(program, arguments, &interrupted)?;
    Ok(run::exit_code(status))
}
