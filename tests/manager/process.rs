//! The manager as a process without a cluster: its command line, its kubeconfig, its log and its exit.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use testkit::{Limit, Manager};

/// On an idle machine: five times the 8.5 s in which the manager promises to stop.
pub(crate) const STOP_DEADLINE: Duration = Duration::from_millis(5 * 8500);

/// Returns a command for the manager with an empty environment.
pub(crate) fn manager() -> Command {
    let mut command = testkit::manager();
    command.env_clear().stdin(Stdio::null());
    // Several managers cannot bind port 9443; tests of the webhooks set another port.
    command.env("ENABLE_WEBHOOKS", "false");
    command
}

pub(crate) fn output(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = manager();
    let command = command.args(arguments).envs(environment.iter().copied());
    command.output().expect("it runs")
}

/// A kubeconfig, removed with its folder when dropped.
pub(crate) struct Kubeconfig {
    folder: PathBuf,
    pub(crate) file: String,
}

impl Kubeconfig {
    /// For an API server that does not run.
    pub(crate) fn for_nobody() -> Self {
        let port = devcluster::free_port().expect("a port");
        Self::for_server(&format!("https://127.0.0.1:{port}"))
    }

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

    /// Starts a manager with this kubeconfig, its servers on free ports.
    pub(crate) fn start(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Manager {
        let mut command = manager();
        command
            .args(["--kubeconfig", &self.file, "--webhook-port=0"])
            .arg("--health-probe-bind-address=127.0.0.1:0")
            .arg("--metrics-bind-address=127.0.0.1:0")
            .args(arguments)
            .envs(environment.iter().copied());
        Manager::spawn(command)
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Sends a signal; returns the exit code and the whole log.
pub(crate) async fn ended_by(mut manager: Manager, signal: &str) -> (Option<i32>, String) {
    assert!(manager.signal(signal), "{signal}");
    let mut limit = Limit::new(STOP_DEADLINE);
    while manager.runs() {
        let log = || format!("still running:\n{}", manager.log());
        limit.pause(log).await;
    }
    (manager.code(), manager.log())
}
