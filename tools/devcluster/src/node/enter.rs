//! Runs a program in new namespaces, and cleans up after it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::inside::{OUTSIDE, name};
use super::{cgroup, machine};
use crate::error::{Doing, Result};
use crate::folder::StateFolder;
use crate::process::POLL;

/// The first process inside: it adopts and reaps orphaned processes, and exits with the command.
const FIRST: &str = r#""$@"; exit $?"#;

/// Kills its process group, which is `unshare` and the inner devcluster, when the pipe on its
/// standard input closes: when the process outside exits, however it exits. Then the first process
/// inside has ended, so the kernel ends the other ones.
const BOUND: &str = r#"exec 3<&0; (cat <&3 >/dev/null; kill -KILL 0) & exec "$@" 3<&- </dev/null"#;

/// The grace period of the program inside.
const STOP_GRACE: Duration = Duration::from_secs(30);

/// Runs `program` with `arguments` again, as root of new network, mount and process namespaces, in
/// which [`super::is_inside`] holds; returns when it has exited and everything is removed. When
/// `interrupted` is set, it is told to stop, and killed after 30 s.
///
/// # Errors
/// [`crate::Error::Machine`] names what this machine lacks.
pub fn enter(
    program: &Path,
    arguments: impl IntoIterator<Item = OsString>,
    interrupted: &AtomicBool,
) -> Result<ExitStatus> {
    machine::check()?;
    cgroup::sweep();
    let mut child = process::Command::new("/bin/sh")
        .args(["-c", BOUND, "sh", "unshare"])
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child"])
        .args(["--mount-proc", "--propagation", "private", "--"])
        .args(["/bin/sh", "-c", FIRST, "sh"])
        .arg(program)
        .args(arguments)
        .env(OUTSIDE, process::id().to_string())
        .stdin(Stdio::piped())
        .process_group(0)
        .spawn()
        .doing(|| "running unshare".to_owned())?;
    let status = wait(&mut child, interrupted);
    cgroup::remove(&name());
    StateFolder::sweep();
    status
}

/// Waits with the pipe open: `Child::wait` closes it first.
fn wait(child: &mut Child, interrupted: &AtomicBool) -> Result<ExitStatus> {
    let group = Pid::from_child(child);
    let mut asked: Option<Instant> = None;
    loop {
        let ended = child
            .try_wait()
            .doing(|| "waiting for unshare".to_owned())?;
        if let Some(status) = ended {
            return Ok(status);
        }
        match asked {
            None if interrupted.load(Ordering::Relaxed) => {
                let _ = kill_process_group(group, Signal::TERM);
                asked = Some(Instant::now());
            }
            Some(since) if since.elapsed() > STOP_GRACE => {
                let _ = kill_process_group(group, Signal::KILL);
            }
            _ => {}
        }
        thread::sleep(POLL);
    }
}
