//! A manager process: started, asked over HTTP, stopped as Kubernetes does it.

#[path = "../../support/plain_http.rs"]
pub(crate) mod plain_http;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{DEADLINE, POLL};

/// A running manager.
pub(crate) struct Manager {
    child: Child,
    log: PathBuf,
}

/// How a manager ended.
#[derive(Debug)]
pub(crate) struct Exit {
    pub(crate) code: Option<i32>,
    /// Since it was told to.
    pub(crate) took: Duration,
    pub(crate) log: String,
}

impl Manager {
    pub(crate) fn start(kubeconfig: &Path, flags: &[String]) -> Self {
        Self::start_with(kubeconfig, flags, &[])
    }

    /// As [`Manager::start`], with more variables in its environment.
    pub(crate) fn start_with(
        kubeconfig: &Path,
        flags: &[String],
        environment: &[(&str, &str)],
    ) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let log = std::env::temp_dir().join(format!(
            "quartet-manager-{}-{number}.log",
            std::process::id()
        ));
        let file = std::fs::File::create(&log).expect("a log file");
        let child = Command::new(env!("CARGO_BIN_EXE_manager"))
            .args([
                "--health-probe-bind-address=127.0.0.1:0",
                "--metrics-bind-address=127.0.0.1:0",
                "--metrics-secure=false",
            ])
            .args(flags)
            .env("KUBECONFIG", kubeconfig)
            .env("ENABLE_WEBHOOKS", "false")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a second handle"))
            .stderr(file)
            .spawn()
            .expect("the manager starts");
        Manager { child, log }
    }

    /// What it has written so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its process id.
    #[allow(dead_code)] // by the tests of `election`
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its exit code, once it has ended by itself.
    #[allow(dead_code)] // by the tests of `election`
    pub(crate) fn code(&mut self) -> Option<i32> {
        self.child.try_wait().ok().flatten()?.code()
    }

    /// Ends it at once, stopped or not.
    #[allow(dead_code)] // by the tests of `election`
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.log);
    }

    /// Whether it still runs.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|ended| ended.is_none())
    }

    /// Status code and body of `path` on the server for `purpose`: `health probes`, `metrics`.
    pub(crate) async fn get(&self, purpose: &str, path: &str) -> (u16, String) {
        let address = self.address_of(purpose).await;
        plain_http::get(&address, path)
    }

    /// Where it listens for `purpose`, once it does.
    pub(crate) async fn address_of(&self, purpose: &str) -> String {
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
    pub(crate) fn terminate(&self) -> bool {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status();
        sent.is_ok_and(|status| status.success())
    }

    /// SIGTERM, and how it ended.
    #[allow(clippy::disallowed_methods)] // also called when a stage is dropped
    pub(crate) fn stop(mut self) -> Exit {
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
    }
}

/// The sum of all series of a metric, in the text format, that have every one of `labels`.
pub(crate) fn sum(text: &str, name: &str, labels: &[&str]) -> f64 {
    let lines = text.lines().filter_map(|line| line.strip_prefix(name));
    lines
        .filter(|rest| rest.starts_with(['{', ' ']))
        .filter(|rest| labels.iter().all(|label| rest.contains(label)))
        .filter_map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}
