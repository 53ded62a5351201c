//! `devcluster run -- CMD`: a cluster that runs as long as a command.

use std::convert::Infallible;
use std::error::Error;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs, process};

use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};
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
    // Ctrl-C also reaches the command, which is in the terminal's foreground group; a signal that
    // was sent to this process only must be forwarded.
    let asked_to_end = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP] {
        flag::register(signal, Arc::clone(&asked_to_end))?;
    }

    let began = Instant::now();
    let cluster = arguments.start(is_node_real, interrupted)?;
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
    let mut child = bound(command)?.envs(environment.variables()).spawn()?;
    let mut is_healthy = true;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(exit_code(status));
        }
        if asked_to_end.swap(false, Ordering::Relaxed) {
            kill_process(Pid::from_child(&child), Signal::TERM)?;
        }
        if is_healthy && let Err(error) = cluster.check() {
            eprintln!("devcluster: {error}");
            is_healthy = false;
        }
        thread::sleep(POLL);
    }
}

/// Returns `command`, to be started by the main thread: it is stopped when this process exits.
pub(crate) fn bound(command: &[OsString]) -> io::Result<Command> {
    let mut bound = Command::new(env::current_exe()?);
    bound
        .arg("run-bound")
        .arg(process::id().to_string())
        .arg("--")
        .args(command);
    Ok(bound)
}

/// Executes `command`; the kernel sends it SIGTERM when `parent` exits. (The kernel does that when
/// the parent's spawning *thread* exits; `run` spawns from the main thread.)
pub(crate) fn run_bound(parent: i32, command: &[OsString]) -> io::Result<Infallible> {
    set_parent_process_death_signal(Some(Signal::TERM))?;
    if getppid().map(Pid::as_raw_nonzero).map(i32::from) != Some(parent) {
        return Err(io::Error::other("its parent is gone already"));
    }
    let [program, arguments @ ..] = command else {
        return Err(io::Error::other("no command"));
    };
    let error = Command::new(program).args(arguments).exec();
    Err(io::Error::new(
        error.kind(),
        format!("running {}: {error}", program.display()),
    ))
}

pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}
