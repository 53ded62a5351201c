//! Runs a program in new namespaces, and cleans up after it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{self, Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::cgroup;
use super::inside::{OUTSIDE, name};
use crate::error::{Doing, Result};
use crate::folder::StateFolder;
use crate::process::{POLL, WATCHER};

/// The first process inside: it adopts and reaps orphaned processes, and exits with the command.
const FIRST: &str = r#""$@"; exit $?"#;

/// The grace period of the program inside.
const STOP_GRACE: Duration = Duration::from_secs(30);

/// Runs `command` as root of new network, mount and process namespaces, in
/// which [`super::is_inside`] holds; returns when it has exited and everything is removed. When
/// `interrupted` is set, it is told to stop, and killed after 30 s.
///
/// # Errors
/// `unshare` cannot be run; `hack/e2e/missing.sh` names the packages that are missing.
pub fn enter(command: &[OsString], interrupted: &AtomicBool) -> Result<ExitStatus> {
    cgroup::sweep();
    let mut child = process::Command::new("/bin/sh")
        // The watcher kills the process group, which is `unshare` and the inner devcluster, when the process
        // outside exits. Then the first process inside has ended, so the kernel ends the other ones.
        .args(["-c", WATCHER, "sh", "unshare"])
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child"])
        .args(["--mount-proc", "--propagation", "private", "--"])
        .args(["/bin/sh", "-c", FIRST, "sh"])
        .args(command)
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
