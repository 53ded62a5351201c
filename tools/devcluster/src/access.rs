//! Access to a cluster as its administrator without a Kubernetes client library: kubectl, and GET
//! of a path of the API server.

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
    /// kubectl could not be started. If it started and failed, the output has its exit status.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<Output> {
        let kubectl = self.binaries().path("kubectl");
        Command::new(&kubectl)
            .args(arguments)
            .envs(self.environment().variables())
            .output()
            .doing(|| format!("running {}", kubectl.display()))
    }

    /// Runs kubectl and returns what it printed.
    ///
    /// # Errors
    /// [`Error::Kubectl`] if it failed, with its error output.
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

    /// Reads `path` of the API server as its administrator; `None` if it does not exist.
    ///
    /// # Errors
    /// The API server did not respond, or with another status than 200 and 404.
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
    /// established, and returns the output of `kubectl apply`.
    ///
    /// Call it before the controllers start: the garbage collector discovers new kinds only every
    /// 30 s, and until then deleting an owner keeps its children.
    ///
    /// # Errors
    /// [`Error::Kubectl`] if kubectl failed, with its error output; a definition was not established
    /// within 90 s.
    pub fn install_definitions(&self, folder: &Path) -> Result<String> {
        let folder = folder.display().to_string();
        let applied = self.kubectl_ok(&["apply", "-k", &folder])?;
        for line in applied.lines() {
            let name = line.split_whitespace().next().unwrap_or_default();
            if let Some(name) = name.strip_prefix("customresourcedefinition.apiextensions.k8s.io/")
            {
                self.wait(name, || self.is_established(name))?;
            }
        }
        Ok(applied)
    }

    fn is_established(&self, name: &str) -> std::result::Result<(), String> {
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        let definition = self.get(&path).map_err(|error| error.to_string())?;
        let definition = definition.unwrap_or_default();
        let conditions = definition["status"]["conditions"].as_array();
        let is_so = |it: &Value| it["type"] == "Established" && it["status"] == "True";
        match conditions.is_some_and(|all| all.iter().any(is_so)) {
            true => Ok(()),
            false => Err(format!("not established: {:?}", conditions)),
        }
    }
}
