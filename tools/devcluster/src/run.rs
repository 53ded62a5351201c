//! `devcluster run -- CMD`: a cluster that runs as long as a command.

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use devcluster::{Cluster, Nodes, Options};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGTERM};
use signal_hook::flag;

use crate::ClusterArguments;

const POLL: Duration = Duration::from_millis(20);

/// Runs `command` with the cluster in its environment; returns its exit code.
pub(crate) fn run(
    arguments: &ClusterArguments,
    is_node_real: bool,
    command: &[OsString],
) -> Result<ExitCode, Box<dyn Error>> {
    let interrupted = devcluster::interrupt_flag()?;
    let to_forward = to_forward()?;
    let began = Instant::now();
    let nodes = if is_node_real {
        Nodes::Real
    } else {
        Nodes::Simulated(arguments.nodes)
    };
    let cluster = Cluster::start_api_server(Options { nodes, interrupted })?;
    if let Some(folder) = &arguments.definitions {
        cluster.install_definitions(folder)?;
    }
    cluster.start_controllers()?;
    eprintln!(
        "devcluster: {} ready after {:.1} s, state in {}",
        cluster.server_url(),
        began.elapsed().as_secs_f32(),
        cluster.dir().display(),
    );
    let mut environment = cluster.environment();
    let audit_logs = cluster.dir().join("audit-logs");
    fs::create_dir(&audit_logs)?;
    environment.audit_logs = Some(audit_logs);
    let mut child = bound(command).envs(environment.variables()).spawn()?;
    let mut is_healthy = true;
    let status = wait(&mut child, &to_forward, || {
        if is_healthy && let Err(error) = cluster.check() {
            // `up` closes standard error when it ends.
            let _ = writeln!(io::stderr(), "devcluster: {error}");
            is_healthy = false;
        }
        Ok(())
    })?;
    Ok(exit_code(status))
}

/// Returns the flag of the signals that must be forwarded to a command. Ctrl-C is not one of them: it also
/// reaches the command, which is in the terminal's foreground group.
pub(crate) fn to_forward() -> io::Result<Arc<AtomicBool>> {
    let asked = Arc::default();
    for signal in [SIGTERM, SIGHUP] {
        flag::register(signal, Arc::clone(&asked))?;
    }
    Ok(asked)
}

/// Returns `command`, to be started by the main thread: it is stopped when that ends.
pub(crate) fn bound(command: &[OsString]) -> Command {
    let mut bound = Command::new("setpriv");
    bound.args(["--pdeathsig=TERM", "--"]).args(command);
    bound
}

/// Waits for the command, calls `meanwhile` again and again, and forwards signals as SIGTERM.
pub(crate) fn wait(
    child: &mut Child,
    to_forward: &AtomicBool,
    mut meanwhile: impl FnMut() -> Result<(), Box<dyn Error>>,
) -> Result<ExitStatus, Box<dyn Error>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let is_asked = to_forward.swap(false, Ordering::Relaxed);
        let done = meanwhile();
        if is_asked {
            kill_process(Pid::from_child(child), Signal::TERM)?;
        }
        done?;
        thread::sleep(POLL);
    }
}

pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}
