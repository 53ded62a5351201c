//! One child process that cannot outlive its parent and can be stopped, killed, paused and resumed
//! as a group.
//!
//! Independent of the program, except for whether it exits by itself when its standard input
//! closes.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::error::{Doing, Error, Result};

/// An option of the multi-call binary of `hack/kube`.
const EXIT_WITH_STDIN: &str = "KUBE_EXIT_WITH_STDIN";

/// Their heaps are small and short-lived: Go's default of a collection whenever the heap has
/// doubled takes a seventh of the API server's time. Up to the limit, memory is cheaper. With 1 GiB, the API
/// server spends 60 % of its time on collections when it has 10 000 resources and their children.
const GARBAGE_COLLECTION: [(&str, &str); 2] = [("GOGC", "400"), ("GOMEMLIMIT", "3GiB")];

/// For programs that do not watch their standard input: a background shell does, and kills the
/// process group when the pipe closes. The group exists as long as that shell runs, so its id
/// cannot be reused.
pub(crate) const WATCHER: &str =
    r#"exec 3<&0; (cat <&3 >/dev/null; kill -KILL 0) & exec "$@" 3<&- </dev/null"#;

/// The poll interval of waiting loops.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// Returns a command for a part of the multi-call binary, which exits when its standard input closes.
pub(crate) fn component(path: &Path) -> Command {
    let mut command = Command::new(path);
    command.env(EXIT_WITH_STDIN, "1").envs(GARBAGE_COLLECTION);
    command
}

/// Returns a command for any other program, which a watcher in its process group ends.
pub fn watched(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", WATCHER, "sh"]).arg(program);
    command
}

/// A running or exited child. Dropping it kills its group.
#[derive(Debug)]
pub struct Process {
    name: String,
    /// With the write end of the pipe that is its standard input; nothing is written to it. Closed when
    /// this is dropped, or by the kernel when this process exits.
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts the command of [`watched`] in a process group of its own; its output is appended to `log`.
    ///
    /// # Errors
    /// The log file cannot be opened, or the program cannot be started.
    pub fn spawn(name: &str, command: &mut Command, log: &Path) -> Result<Self> {
        let mut start = || {
            let output = OpenOptions::new().create(true).append(true).open(log)?;
            command
                .stdin(Stdio::piped())
                .stdout(output.try_clone()?)
                .stderr(output)
                .process_group(0)
                .spawn()
        };
        let child = start().doing(|| format!("starting {name} with the log {}", log.display()))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            log: log.to_owned(),
        })
    }

    /// Returns the process id, which is also that of its group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns its exit status, or `None` while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Returns an error with its exit status, if it has exited.
    ///
    /// # Errors
    /// [`Error::Ended`], with the end of the log.
    pub fn check(&mut self) -> Result<()> {
        match self.ended() {
            None => Ok(()),
            Some(status) => Err(Error::Ended {
                name: self.name.clone(),
                status,
                log: tail(&self.log, 15),
            }),
        }
    }

    /// Sends SIGTERM and, if it has not exited within `grace`, kills it.
    pub fn stop(&mut self, grace: Duration) {
        if self.ended().is_some() {
            return;
        }
        self.resume();
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let deadline = Instant::now() + grace;
        while self.ended().is_none() && Instant::now() < deadline {
            thread::sleep(POLL);
        }
        self.kill();
    }

    /// Kills it (SIGKILL) and waits until it has exited.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }

    /// Suspends it (SIGSTOP), as an overloaded machine would.
    pub fn pause(&mut self) {
        self.signal(Signal::STOP);
    }

    /// Resumes it (SIGCONT).
    pub fn resume(&mut self) {
        self.signal(Signal::CONT);
    }

    /// Signals the group, but only until the child is reaped, because its id can be reused
    /// afterwards. An error is ignored: the group is gone, or `ended` shows its state.
    fn signal(&mut self, signal: Signal) {
        if self.ended().is_none() {
            let _ = kill_process_group(Pid::from_child(&self.child), signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the last `lines` lines of a log.
pub fn tail(path: &Path, lines: usize) -> String {
    match std::fs::read(path) {
        Ok(text) => {
            let text = String::from_utf8_lossy(&text);
            let all: Vec<&str> = text.lines().collect();
            all[all.len().saturating_sub(lines)..].join("\n")
        }
        Err(error) => format!("(cannot read {}: {error})", path.display()),
    }
}
