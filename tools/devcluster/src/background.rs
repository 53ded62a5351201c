//! Clusters that stay: a `devcluster run` in its own session holds the cluster until `devcluster down`
//! stops it.

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use devcluster::StateFolder;
use rustix::process::{Pid, Signal, kill_process};

use crate::ClusterArguments;
use crate::run::exit_code;

/// More than the grace periods of a command and of the components together.
const DOWN_LIMIT: Duration = Duration::from_secs(40);

const POLL: Duration = Duration::from_millis(50);

/// The command of that `run`: marks the cluster as one that stays, prints the line that selects it, and
/// executes the command beside it with a log.
const BESIDE: &str = r#"folder=${KUBECONFIG%/*}
touch "$folder/stays" && echo "export KUBECONFIG=$KUBECONFIG" && exec "$@" >"$folder/command.log" 2>&1"#;

/// `devcluster up`: one cluster per user; a second call names the first one's.
///
/// Returns when the cluster has printed its line, or has exited. A cluster whose line nobody reads ends.
pub(crate) fn up(
    cluster: &ClusterArguments,
    command: &[OsString],
) -> Result<ExitCode, Box<dyn Error>> {
    if let Some((folder, _)) = StateFolder::staying_owners().first() {
        println!("export KUBECONFIG={}/kubeconfig", folder.display());
        return Ok(ExitCode::SUCCESS);
    }
    // A build that takes minutes happens in the foreground, where its progress is shown.
    devcluster::binaries()?;
    let mut holder = Command::new("setsid");
    holder.arg(env::current_exe()?).arg("run");
    holder.arg(format!("--nodes={}", cluster.nodes));
    if let Some(folder) = &cluster.definitions {
        holder.arg("--definitions").arg(folder);
    }
    holder.args(["--", "sh", "-c", BESIDE, "sh"]).args(command);
    if command.is_empty() {
        holder.args(["sleep", "infinity"]);
    }
    let mut holder = holder
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
