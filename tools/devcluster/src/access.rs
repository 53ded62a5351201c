//! Access to a cluster as its administrator, with kubectl.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::cluster::Cluster;
use crate::error::{Doing, Error, Result, output_of};

impl Cluster {
    /// Runs the kubectl that belongs to this cluster, as its administrator.
    ///
    /// # Errors
    /// kubectl could not be started. If it started and failed, the output has its exit status.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = self.kubectl_command(arguments);
        command.output().doing(|| "running kubectl".to_owned())
    }

    /// Runs kubectl and returns what it printed.
    ///
    /// # Errors
    /// [`Error::Command`] if it failed, with its error output.
    pub fn kubectl_ok(&self, arguments: &[&str]) -> Result<String> {
        output_of(&mut self.kubectl_command(arguments))
    }

    fn kubectl_command(&self, arguments: &[&str]) -> Command {
        let environment = self.environment();
        let mut command = Command::new(environment.binaries.join("kubectl"));
        command.args(arguments).envs(environment.variables());
        command
    }

    /// Reads `path` of the API server as its administrator; `None` if it does not exist.
    ///
    /// # Errors
    /// The API server did not respond, or with another status than 200 and 404.
    pub fn get(&self, path: &str) -> Result<Option<Value>> {
        match self.kubectl_ok(&["get", "--raw", path, "--request-timeout=10s"]) {
            Ok(text) => Ok(serde_json::from_str(&text).ok()),
            Err(Error::Command { reason, .. }) if reason.contains("(NotFound)") => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Applies the CustomResourceDefinitions of a kustomize folder and waits until they are
    /// established.
    ///
    /// Call it before the controllers start: the garbage collector discovers new kinds only every
    /// 30 s, and until then deleting an owner keeps its children.
    ///
    /// # Errors
    /// [`Error::Command`] if kubectl failed, with its error output; a definition was not established
    /// within 90 s.
    pub fn install_definitions(&self, folder: &Path) -> Result<()> {
        self.kubectl_ok(&["apply", "-k", &folder.to_string_lossy()])?;
        let established = "--for=condition=Established";
        self.kubectl_ok(&["wait", established, "crd", "--all", "--timeout=90s"])?;
        Ok(())
    }
}
