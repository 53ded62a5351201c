//! A manager process: started, asked over HTTP, stopped as Kubernetes does it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{DEADLINE, POLL, http};

/// A running manager.
pub struct Manager {
    child: Child,
    log: PathBuf,
}

/// How a manager ended.
#[derive(Debug)]
pub struct Exit {
    /// None if a signal ended it.
    pub code: Option<i32>,
    /// Since it was told to.
    pub took: Duration,
    /// All that it has written.
    pub log: String,
}

/// The manager's binary, which cargo builds before any integration test of its package.
///
/// # Panics
/// If this is no test that cargo has built.
pub fn manager() -> Command {
    let test = std::env::current_exe().expect("the path of this test");
    let mut folders = test.ancestors().skip(1);
    let path = folders.find_map(|folder| Some(folder.join("manager")).filter(|it| it.is_file()));
    Command::new(path.expect("the manager's binary near this test"))
}

impl Manager {
    /// A manager without webhooks, with both servers on free ports of the loopback address.
    ///
    /// # Panics
    /// If it cannot be started, here and in what follows.
    pub fn start(kubeconfig: &Path, flags: &[String]) -> Self {
        Self::start_with(kubeconfig, flags, &[])
    }

    /// As [`Manager::start`], with more variables in its environment.
    pub fn start_with(kubeconfig: &Path, flags: &[String], environment: &[(&str, &str)]) -> Self {
        let mut command = manager();
        command
            .args([
                "--health-probe-bind-address=127.0.0.1:0",
                "--metrics-bind-address=127.0.0.1:0",
                "--metrics-secure=false",
            ])
            .args(flags)
            .env("KUBECONFIG", kubeconfig)
            .env("ENABLE_WEBHOOKS", "false")
            .envs(environment.iter().copied());
        Self::spawn(command)
    }

    /// Any manager; nothing but its log is decided here.
    pub fn spawn(mut command: Command) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let log = std::env::temp_dir().join(format!(
            "quartet-manager-{}-{number}.log",
            std::process::id()
        ));
        let file = std::fs::File::create(&log).expect("a log file");
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a second handle"))
            .stderr(file)
            .spawn()
            .expect("the manager starts");
        Manager { child, log }
    }

    /// What it has written so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its exit code, once it has ended by itself.
    pub fn code(&mut self) -> Option<i32> {
        self.child.try_wait().ok().flatten()?.code()
    }

    /// Ends it at once, stopped or not.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.log);
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|ended| ended.is_none())
    }

    /// Status code and body of `path` on the server for `purpose`: `health probes`, `metrics`.
    pub async fn get(&self, purpose: &str, path: &str) -> (u16, String) {
        let address = self.address_of(purpose).await;
        http::get(&address, path)
    }

    /// Where it listens for `purpose`, once it does.
    pub async fn address_of(&self, purpose: &str) -> String {
        let started = Instant::now();
        loop {
            let log = self.log();
            let mut lines = log
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let line =
                lines.find(|line| line["message"] == "listening" && line["purpose"] == purpose);
            if let Some(address) = line.as_ref().and_then(|line| line["address"].as_str()) {
                return address.to_owned();
            }
            assert!(
                started.elapsed() < DEADLINE,
                "nobody listens for {purpose}:\n{log}"
            );
            tokio::time::sleep(POLL).await;
        }
    }

    /// SIGTERM; whether it could be sent.
    pub fn terminate(&self) -> bool {
        self.signal("-TERM")
    }

    /// Sends a signal, by its name in `kill`; whether it could be sent.
    pub fn signal(&self, name: &str) -> bool {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &id]).status();
        sent.is_ok_and(|status| status.success())
    }

    /// SIGTERM, and how it ended.
    pub fn stop(mut self) -> Exit {
        let told = Instant::now();
        if !self.terminate() {
            let _ = self.child.kill();
        }
        while self.runs() && told.elapsed() < DEADLINE {
            std::thread::sleep(Duration::from_millis(5));
        }
        let took = told.elapsed();
        let _ = self.child.kill();
        let code = self.child.wait().ok().and_then(|status| status.code());
        let log = self.log();
        let _ = std::fs::remove_file(&self.log);
        Exit { code, took, log }
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.log);
    }
}

/// The sum of all series of a metric, in the text format, that have every one of `labels`.
pub fn sum(text: &str, name: &str, labels: &[&str]) -> f64 {
    let lines = text.lines().filter_map(|line| line.strip_prefix(name));
    lines
        .filter(|rest| rest.starts_with(['{', ' ']))
        .filter(|rest| labels.iter().all(|label| rest.contains(label)))
        .filter_map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}
