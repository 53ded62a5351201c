//! One child process that cannot outlive its parent and can be stopped, killed, paused and resumed
//! as a group.
//!
//! Independent of the program, except for whether it exits by itself when its standard input
//! closes.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
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
const WATCHER: &str =
    r#"exec 3<&0; (cat <&3 >/dev/null; kill -KILL 0) & exec "$@" 3<&- </dev/null"#;

/// The poll interval of waiting loops.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// A program, and how it is ended with its parent.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    ends_with_stdin: bool,
}

impl Program {
    /// A part of the multi-call binary, which exits when its standard input closes.
    pub fn of_ours(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            ends_with_stdin: true,
        }
    }

    /// Any other program; a watcher in its process group ends it.
    pub fn foreign(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            ends_with_stdin: false,
        }
    }

    fn command(&self) -> Command {
        if self.ends_with_stdin {
            let mut command = Command::new(&self.path);
            command.env(EXIT_WITH_STDIN, "1");
            command.envs(GARBAGE_COLLECTION);
            command
        } else {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", WATCHER, "sh"]).arg(&self.path);
            command
        }
    }
}

/// A running or exited child. Dropping it kills its group.
#[derive(Debug)]
pub struct Process {
    name: String,
    /// The write end of the pipe that is the child's standard input; nothing is written to it.
    /// Closed by `reap`, or by the kernel when this process exits.
    child: Child,
    log: PathBuf,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts `program` in a process group of its own; its output is appended to `log`.
    ///
    /// # Errors
    /// The log file cannot be opened, or the program cannot be started.
    pub fn spawn(
        name: &str,
        program: &Program,
        arguments: impl IntoIterator<Item = String>,
        environment: impl IntoIterator<Item = (String, String)>,
        log: &Path,
    ) -> Result<Self> {
        let open = || OpenOptions::new().create(true).append(true).open(log);
        let output = open().doing(|| format!("opening {}", log.display()))?;
        let errors = output
            .try_clone()
            .doing(|| format!("opening {}", log.display()))?;
        let child = program
            .command()
            .args(arguments)
            .envs(environment)
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .doing(|| format!("starting {}", program.path.display()))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            log: log.to_owned(),
            ended: None,
        })
    }

    /// Returns the process id, which is also that of its group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns its exit status, or `None` while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            self.reap(status);
        }
        self.ended
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
        let _ = kill_process(self.pid(), Signal::TERM);
        let deadline = Instant::now() + grace;
        while self.ended().is_none() && Instant::now() < deadline {
            thread::sleep(POLL);
        }
        self.kill();
    }

    /// Kills it (SIGKILL) and waits until it has exited.
    pub fn kill(&mut self) {
        if self.ended().is_none() {
            self.signal(Signal::KILL);
            if let Ok(status) = self.child.wait() {
                self.reap(status);
            }
        }
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
            let _ = kill_process_group(self.pid(), signal);
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn reap(&mut self, status: ExitStatus) {
        self.ended = Some(status);
        self.child.stdin = None; // ends the watcher, if there is one
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the last `lines` lines of a log, from at most its last 64 KiB.
pub fn tail(path: &Path, lines: usize) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(64 * 1024)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    match read() {
        Ok(text) => {
            let mut last: Vec<&str> = text.lines().rev().take(lines).collect();
            last.reverse();
            last.join("\n")
        }
        Err(error) => format!("(cannot read {}: {error})", path.display()),
    }
}
