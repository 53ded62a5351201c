//! The examples of the libraries as processes, and what a webhook server on this machine needs.

use std::path::Path;
use std::process::Command;

use devcluster::StateFolder;
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::{Manager, TestEnv, manager};

/// Returns a command for an example, which `make test` builds.
pub fn example(name: &str) -> Command {
    let examples = Path::new(manager().get_program()).with_file_name("examples");
    Command::new(examples.join(name))
}

impl TestEnv {
    /// Creates a namespace, and installs the CRD that an example prints, changed by `change`.
    pub async fn with_example(name: &str, change: impl FnOnce(&mut Value)) -> Self {
        let env = Self::without_manager(&name.replace('_', "-")).await;
        let output = example(name).arg("crd").output().expect("it runs");
        let mut crd: Value = serde_json::from_slice(&output.stdout).expect("a CRD");
        change(&mut crd);
        let name = crd["metadata"]["name"].as_str().expect("a name");
        env.install_crd(name, &crd).await;
        env
    }

    /// Starts an example with the flags of every test, and these.
    pub fn start_example(&self, name: &str, flags: &[String]) -> Manager {
        let of_manager = Manager::command(self.kubeconfig(), flags, &[]);
        let mut command = example(name);
        command.args(of_manager.get_args());
        command.arg(format!("--watch-namespace={}", self.namespace));
        let variables = of_manager.get_envs();
        command.envs(variables.filter_map(|(name, value)| Some((name, value?))));
        Manager::spawn(command)
    }
}

/// The certificate of a webhook server on this machine, and its port.
pub struct Webhooks {
    /// The folder with `tls.crt` and `tls.key`.
    pub folder: StateFolder,
    /// A free port.
    pub port: u16,
    authority: ByteString,
}

impl Webhooks {
    /// Makes a self-signed certificate.
    pub fn generate() -> Self {
        let folder = StateFolder::create().expect("a folder");
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a pair");
        for (name, text) in [
            ("tls.crt", made.cert.pem()),
            ("tls.key", made.signing_key.serialize_pem()),
        ] {
            std::fs::write(folder.path().join(name), text).expect("written");
        }
        Self {
            folder,
            port: devcluster::free_port().expect("a port"),
            authority: ByteString(made.cert.pem().into()),
        }
    }

    /// The clientConfig for a path of the server.
    pub fn at(&self, path: &str) -> Value {
        let url = format!("https://127.0.0.1:{}{path}", self.port);
        json!({"url": url, "caBundle": self.authority})
    }
}
