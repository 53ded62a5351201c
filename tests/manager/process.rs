//! The manager as a process: its command line, its kubeconfig, its log and its exit.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use testkit::{Limit, load_factor};

/// On an idle machine: five times the 8.5 s in which the manager promises to stop.
pub(crate) const STOP_DEADLINE: Duration = Duration::from_millis(5 * 8500);

/// Returns a command for the manager with an empty environment.
pub(crate) fn manager() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_manager"));
    command.env_clear().stdin(Stdio::null());
    // Several managers cannot bind port 9443; tests of the webhooks set another port.
    command.env("ENABLE_WEBHOOKS", "false");
    command
}

pub(crate) fn output(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    manager()
        .args(arguments)
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

/// Runs the manager with an invalid configuration and returns its error.
pub(crate) fn refusal(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let output = output(arguments, environment);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(output.stdout.is_empty());
    said
}

/// Returns a free port.
pub(crate) fn free_port() -> u16 {
    devcluster::free_port().unwrap()
}

/// A kubeconfig for an API server at `server`, removed with its folder when dropped.
pub(crate) struct Kubeconfig {
    folder: PathBuf,
    pub(crate) file: String,
}

impl Kubeconfig {
    pub(crate) fn for_server(server: &str) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("manager-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("kubeconfig");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
             clusters: [{{name: test, cluster: {{server: \"{server}\"}}}}]\n\
             contexts: [{{name: test, context: {{cluster: test, user: test}}}}]\n\
             users: [{{name: test, user: {{token: secret}}}}]\n"
        );
        std::fs::write(&file, text).unwrap();
        Self {
            file: file.to_str().unwrap().to_owned(),
            folder,
        }
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A running manager, killed when dropped.
pub(crate) struct Running {
    process: Child,
    /// The lines of its log, from a thread that ends with it.
    lines: Receiver<String>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(process.stderr.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            let mut lines = log.lines().map_while(Result::ok);
            lines.all(|line| sender.send(line).is_ok())
        });
        Self { process, lines }
    }

    /// Reads log lines up to the first one with all `parts`, and returns it.
    pub(crate) fn log_line(&mut self, parts: &[&str]) -> String {
        let mut read = Vec::new();
        loop {
            let patience = STOP_DEADLINE.mul_f64(load_factor());
            let Ok(line) = self.lines.recv_timeout(patience) else {
                panic!("no line with {parts:?} in:\n{}", read.join("\n"));
            };
            if parts.iter().all(|part| line.contains(part)) {
                return line;
            }
            read.push(line);
        }
    }

    /// Returns the address at which it serves `purpose`, from its log. Lines are read in order, so
    /// the address of health probes must be requested before that of metrics.
    pub(crate) fn address_of(&mut self, purpose: &str) -> String {
        let line = self.log_line(&["\"listening\"", &format!("\"purpose\":\"{purpose}\"")]);
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        line["address"].as_str().unwrap().to_owned()
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        assert!(
            Command::new("kill")
                .args([name, &id])
                .status()
                .unwrap()
                .success()
        );
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let (began, mut limit) = (Instant::now(), Limit::new(STOP_DEADLINE));
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                println!("stopped after {:?}", began.elapsed());
                return status;
            }
            let took = began.elapsed();
            assert!(!limit.is_over(), "still running after {took:?}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns what it logged after the last line that was read, up to its exit.
    pub(crate) fn rest_of_log(&mut self) -> String {
        self.lines.iter().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts a manager without an API server, with both servers on free ports.
pub(crate) fn start_without_api_server(kubeconfig: &Kubeconfig) -> Running {
    let mut command = manager();
    command.args(["--kubeconfig", &kubeconfig.file, "--metrics-secure=false"]);
    command.args([
        "--health-probe-bind-address=127.0.0.1:0",
        "--metrics-bind-address=127.0.0.1:0",
    ]);
    Running::start(command)
}
