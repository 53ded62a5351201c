//! A manager process: started, queried over HTTP, stopped as Kubernetes does it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{DEADLINE, Limit, POLL, http};

/// A running manager.
pub struct Manager {
    child: Child,
    log: PathBuf,
}

/// How a manager exited.
#[derive(Debug)]
pub struct Exit {
    /// None if a signal killed it.
    pub code: Option<i32>,
    /// The time since it was told to stop.
    pub took: Duration,
    /// Its whole log.
    pub log: String,
}

/// Returns a command for the manager's binary, which cargo builds before any integration test of
/// its package.
///
/// # Panics
/// If this is not a test that cargo has built.
pub fn manager() -> Command {
    let test = std::env::current_exe().expect("the path of this test");
    let mut folders = test.ancestors().skip(1);
    let path = folders.find_map(|folder| Some(folder.join("manager")).filter(|it| it.is_file()));
    Command::new(path.expect("the manager's binary near this test"))
}

impl Manager {
    /// Starts a manager without webhooks, with both servers on free loopback ports.
    ///
    /// # Panics
    /// If it cannot be started, here and below.
    pub fn start(kubeconfig: &Path, flags: &[String]) -> Self {
        Self::start_with(kubeconfig, flags, &[])
    }

    /// Like [`Manager::start`], with more variables in its environment.
    pub fn start_with(kubeconfig: &Path, flags: &[String], environment: &[(&str, &str)]) -> Self {
        Self::spawn(Self::command(kubeconfig, flags, environment))
    }

    /// The command of [`Manager::start_with`].
    pub fn command(kubeconfig: &Path, flags: &[String], environment: &[(&str, &str)]) -> Command {
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
        command
    }

    /// Starts any command of a manager; only its log is set here.
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

    /// Returns its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Returns its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns its exit code, once it has exited by itself.
    pub fn code(&mut self) -> Option<i32> {
        self.child.try_wait().ok().flatten()?.code()
    }

    /// Kills it at once, even if it is paused.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.log);
    }

    /// Reports whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|ended| ended.is_none())
    }

    /// Returns status code and body of `path` on the server for `purpose`: `health probes`,
    /// `metrics`.
    pub async fn get(&self, purpose: &str, path: &str) -> (u16, String) {
        let address = self.address_of(purpose).await;
        http::get(&address, path)
    }

    /// Returns the address at which it listens for `purpose`, once it does.
    pub async fn address_of(&self, purpose: &str) -> String {
        let mut limit = Limit::new(DEADLINE);
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
            assert!(!limit.is_over(), "no server listens for {purpose}:\n{log}");
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits for a line with all `parts` in its log, and returns it.
    pub async fn logged(&self, parts: &[&str]) -> String {
        let mut limit = Limit::new(DEADLINE);
        loop {
            let log = self.log();
            let mut lines = log.lines();
            if let Some(line) = lines.find(|line| parts.iter().all(|part| line.contains(part))) {
                return line.to_owned();
            }
            let failure = || format!("no line with {parts:?} in:\n{log}");
            limit.pause(failure).await;
        }
    }

    /// Sends SIGTERM; returns whether it could be sent.
    pub fn terminate(&self) -> bool {
        self.signal("-TERM")
    }

    /// Sends a signal, by its name in `kill`; returns whether it could be sent.
    pub fn signal(&self, name: &str) -> bool {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &id]).status();
        sent.is_ok_and(|status| status.success())
    }

    /// Sends SIGTERM and returns how it exited.
    pub fn stop(mut self) -> Exit {
        let (told, mut limit) = (Instant::now(), Limit::new(DEADLINE));
        if !self.terminate() {
            let _ = self.child.kill();
        }
        while self.runs() && !limit.is_over() {
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

/// Returns the sum of all series of a metric, in the text format, with every one of `labels`.
pub fn sum(text: &str, name: &str, labels: &[&str]) -> f64 {
    let lines = text.lines().filter_map(|line| line.strip_prefix(name));
    lines
        .filter(|rest| rest.starts_with(['{', ' ']))
        .filter(|rest| labels.iter().all(|label| rest.contains(label)))
        .filter_map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}
