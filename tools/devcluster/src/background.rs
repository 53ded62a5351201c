//! Clusters that stay: a background process in its own session holds the cluster until `devcluster
//! down` stops it.

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs};

use devcluster::{Binaries, Cluster, StateFolder};
use rustix::process::{Pid, Signal, kill_process, setsid};

use crate::ClusterArguments;

/// A line of the holder that tells its parent to detach: the cluster is ready and stays.
const SETTLED: &str = "\u{4}";

/// More than the grace periods of a manager and of the components together.
const DOWN_LIMIT: Duration = Duration::from_secs(40);

const POLL: Duration = Duration::from_millis(50);

/// Starts this program with `arguments` as a holder, forwards its output, and returns when it has
/// settled (success) or exited (its exit code).
pub(crate) fn start_holder(arguments: &[OsString]) -> Result<ExitCode, Box<dyn Error>> {
    // A build that takes minutes happens in the foreground, where Ctrl-C stops it.
    Binaries::find_or_build()?;
    let interrupted = devcluster::interrupt_flag()?;
    let mut is_asked_to_end = false;
    let mut holder = Command::new(env::current_exe()?)
        .args(arguments)
        .stdin(Stdio::null())
        // Pipes instead of our own outputs: a holder that kept those open would block a reader of
        // our output (`make demo KEEP=1 | tee log`).
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (sender, lines) = mpsc::channel();
    if let Some(output) = holder.stdout.take() {
        thread::spawn(move || {
            BufReader::new(output)
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
    }
    if let Some(errors) = holder.stderr.take() {
        thread::spawn(move || copy_to_stderr(errors));
    }
    loop {
        match lines.recv_timeout(POLL) {
            Ok(line) if line == SETTLED => return Ok(ExitCode::SUCCESS),
            Ok(line) => println!("{line}"),
            Err(RecvTimeoutError::Timeout) => {
                if interrupted.load(Ordering::Relaxed) && !is_asked_to_end {
                    kill_process(Pid::from_child(&holder), Signal::TERM)?;
                    is_asked_to_end = true;
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                let code = holder
                    .wait()?
                    .code()
                    .and_then(|code| u8::try_from(code).ok());
                return Ok(code.map_or(ExitCode::FAILURE, ExitCode::from));
            }
        }
    }
}

/// The holder's first step: it leaves the terminal, whose Ctrl-C is for `start_holder`.
pub(crate) fn leave_terminal() -> io::Result<()> {
    setsid()?;
    Ok(())
}

/// The holder's last step before its parent exits: prints the cluster, then keeps it and everything
/// else of the caller until it is told to stop or a component exits.
pub(crate) fn settle(cluster: &Cluster, interrupted: &AtomicBool) -> Result<(), Box<dyn Error>> {
    cluster.folder().mark_as_staying()?;
    let mut output = io::stdout();
    writeln!(
        output,
        "{}\n{SETTLED}",
        export_line(cluster.kubeconfig().display())
    )?;
    output.flush()?;
    while !interrupted.load(Ordering::Relaxed) {
        cluster.check()?;
        thread::sleep(POLL);
    }
    Ok(())
}

/// `devcluster up`: one cluster per user; a second call names the first one's.
pub(crate) fn up(arguments: &ClusterArguments) -> Result<ExitCode, Box<dyn Error>> {
    if let Some((folder, _)) = StateFolder::staying_owners().first() {
        println!("{}", export_line(folder.join("kubeconfig").display()));
        return Ok(ExitCode::SUCCESS);
    }
    let mut again: Vec<OsString> = vec![
        "hold".into(),
        "--nodes".into(),
        arguments.nodes.to_string().into(),
    ];
    if let Some(folder) = &arguments.definitions {
        again.extend(["--definitions".into(), folder.into()]);
    }
    start_holder(&again)
}

/// The process behind `devcluster up`.
pub(crate) fn hold(arguments: &ClusterArguments) -> Result<ExitCode, Box<dyn Error>> {
    leave_terminal()?;
    let interrupted = devcluster::interrupt_flag()?;
    let cluster = arguments.start(false, Arc::clone(&interrupted))?;
    settle(&cluster, &interrupted)?;
    Ok(ExitCode::SUCCESS)
}

/// `devcluster down`: stops every cluster that stays, and the processes beside it.
pub(crate) fn down() -> Result<ExitCode, Box<dyn Error>> {
    let owners = StateFolder::staying_owners();
    if owners.is_empty() {
        println!("no cluster is up");
    }
    for (folder, owner) in owners {
        // The folder's lock was held a moment ago, so this process id is its owner's.
        if let Some(owner) = Pid::from_raw(owner) {
            let _ = kill_process(owner, Signal::TERM);
        }
        let deadline = Instant::now() + DOWN_LIMIT;
        while fs::exists(&folder)? {
            if Instant::now() > deadline {
                return Err(format!("process {owner} does not stop").into());
            }
            thread::sleep(POLL);
        }
        println!("stopped {}", folder.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn export_line(kubeconfig: impl std::fmt::Display) -> String {
    format!("export KUBECONFIG={kubeconfig}")
}

fn copy_to_stderr(mut from: impl Read) {
    // Unbuffered, so that a line of progress is shown when it is written.
    let _ = io::copy(&mut from, &mut io::stderr());
}
