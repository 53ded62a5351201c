//! Clusters that stay: a background process in its own session holds the cluster until `devcluster
//! down` stops it.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs};

use devcluster::{Binaries, Cluster, Process, Program, StateFolder};
use rustix::process::{Pid, Signal, kill_process, setsid};

use crate::StayingArguments;
use crate::run::exit_code;

/// The grace period of the command beside a cluster.
const GRACE: Duration = Duration::from_secs(10);

/// More than the grace periods of that command and of the components together.
const DOWN_LIMIT: Duration = Duration::from_secs(40);

const POLL: Duration = Duration::from_millis(50);

/// `devcluster up`: one cluster per user; a second call names the first one's.
///
/// Starts this program again as the holder, and returns when it has printed the line that selects the
/// cluster, or has exited.
pub(crate) fn up() -> Result<ExitCode, Box<dyn Error>> {
    if let Some((folder, _)) = StateFolder::staying_owners().first() {
        println!("{}", export_line(folder.join("kubeconfig").display()));
        return Ok(ExitCode::SUCCESS);
    }
    // A build that takes minutes happens in the foreground, where its progress is shown.
    Binaries::find_or_build()?;
    let mut holder = Command::new(env::current_exe()?)
        .arg("hold")
        .args(env::args_os().skip(2))
        .stdin(Stdio::null())
        // Pipes instead of our own outputs: a holder that kept those open would block a reader of
        // our output (`make demo KEEP=1 | tee log`).
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut errors) = holder.stderr.take() {
        thread::spawn(move || io::copy(&mut errors, &mut io::stderr()));
    }
    let mut line = String::new();
    if let Some(output) = holder.stdout.take() {
        BufReader::new(output).read_line(&mut line)?;
    }
    if line.is_empty() {
        return Ok(exit_code(holder.wait()?));
    }
    print!("{line}");
    Ok(ExitCode::SUCCESS)
}

/// The process behind `devcluster up`: keeps the cluster, and the command beside it, until it is told to
/// stop or one of them exits.
pub(crate) fn hold(arguments: &StayingArguments) -> Result<ExitCode, Box<dyn Error>> {
    let interrupted = devcluster::interrupt_flag()?;
    let StayingArguments { cluster, command } = arguments;
    let cluster = cluster.start(false, Arc::clone(&interrupted))?;
    let mut beside = beside(&cluster, command)?;
    // Ctrl-C in the terminal stopped the start, but does not stop a cluster that stays.
    setsid()?;
    cluster.folder().mark_as_staying()?;
    // An error if `up` was killed meanwhile.
    writeln!(
        io::stdout(),
        "{}",
        export_line(cluster.kubeconfig().display())
    )?;
    while !interrupted.load(Ordering::Relaxed) {
        cluster.check()?;
        beside.as_mut().map_or(Ok(()), Process::check)?;
        thread::sleep(POLL);
    }
    if let Some(mut beside) = beside {
        beside.stop(GRACE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts the command with the cluster in its environment; its output is `command.log` in the cluster's
/// folder.
fn beside(cluster: &Cluster, command: &[String]) -> devcluster::Result<Option<Process>> {
    let [program, arguments @ ..] = command else {
        return Ok(None);
    };
    let environment = cluster.environment().variables().into_iter();
    let environment =
        environment.map(|(name, value)| (name.to_owned(), value.to_string_lossy().into_owned()));
    Process::spawn(
        program,
        &Program::foreign(program),
        arguments.iter().cloned(),
        environment,
        &cluster.dir().join("command.log"),
    )
    .map(Some)
}

/// `devcluster down`: stops every cluster that stays, and the commands beside them.
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
