//! What a test asks of a cluster as its administrator, without a Kubernetes client of its
//! own: kubectl, and reading one path of the API server.

use std::io;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::cluster::Cluster;
use crate::error::{Doing, Error, Result};

impl Cluster {
    /// Runs the kubectl that belongs to this cluster, as its administrator.
    ///
    /// # Errors
    /// kubectl could not be started; that it failed is in the output's status.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<Output> {
        let kubectl = self.binaries().path("kubectl");
        Command::new(&kubectl)
            .args(arguments)
            .env("KUBECONFIG", self.kubeconfig())
            .output()
            .doing(|| format!("running {}", kubectl.display()))
    }

    /// Runs kubectl and returns what it printed.
    ///
    /// # Errors
    /// [`Error::Kubectl`] if it failed, with its words.
    pub fn kubectl_ok(&self, arguments: &[&str]) -> Result<String> {
        let output = self.kubectl(arguments)?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(Error::Kubectl {
                arguments: arguments.join(" "),
                reason: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            })
        }
    }

    /// Reads `path` of the API server as its administrator; `None` if there is nothing.
    ///
    /// # Errors
    /// The API server did not answer, or with another status than 200 and 404.
    pub fn get(&self, path: &str) -> Result<Option<Value>> {
        let answer = self
            .api_server()
            .get(path)
            .doing(|| format!("GET {path}"))?;
        match answer.status {
            200 => serde_json::from_str(&answer.body)
                .map(Some)
                .map_err(io::Error::other)
                .doing(|| format!("reading the answer of GET {path}")),
            404 => Ok(None),
            status => Err(Error::Refused {
                method: "GET",
                path: path.to_owned(),
                status,
                body: answer.body,
            }),
        }
    }

    /// Applies the CustomResourceDefinitions of a kustomize folder, waits until they are
    /// established, and returns what `kubectl apply` said.
    ///
    /// Before the controllers start is better than after: the garbage collector looks for
    /// new kinds every 30 s only, and until then an owner's deletion leaves its children.
    ///
    /// # Errors
    /// [`Error::Kubectl`] if kubectl failed, with its words.
    pub fn install_definitions(&self, folder: &Path) -> Result<String> {
        let folder = folder.display().to_string();
        let applied = self.kubectl_ok(&["apply", "-k", &folder])?;
        let names = applied
            .lines()
            .filter_map(|line| line.split_whitespace().next());
        let mut wait = vec!["wait", "--for=condition=Established", "--timeout=60s"];
        wait.extend(names);
        self.kubectl_ok(&wait)?;
        Ok(applied)
    }
}
