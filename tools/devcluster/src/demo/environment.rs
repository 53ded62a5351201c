//! The environment of the demo: kubectl with shown commands, the manager's process, and waits that
//! end if a process exits, on Ctrl-C, or after a minute.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use devcluster::{Cluster, Process, Program, free_port, tail};
use serde_json::Value;

use crate::demo::samples::Sample;
use crate::demo::transcript::{print_indented, print_spec, show_command, took};

/// Each step takes a second or two; on a very busy machine, up to a minute.
const LIMIT: Duration = Duration::from_secs(60);

/// The grace period of the manager.
const MANAGER_GRACE: Duration = Duration::from_secs(10);

const POLL: Duration = Duration::from_millis(25);

/// The samples with which the webhooks are tried.
const SAMPLES: &str = "config/samples";

const PODS: &str = "/api/v1/namespaces/default/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

pub(crate) struct DemoEnv<'a> {
    cluster: &'a Cluster,
    interrupted: &'a AtomicBool,
    root: PathBuf,
    /// Dropped, and so killed, before the cluster.
    manager: Option<Process>,
}

impl<'a> DemoEnv<'a> {
    pub(crate) fn new(cluster: &'a Cluster, interrupted: &'a AtomicBool, root: PathBuf) -> Self {
        Self {
            cluster,
            interrupted,
            root,
            manager: None,
        }
    }

    /// Starts the manager and waits for its `/readyz`, and until the API server calls its webhooks.
    pub(crate) fn start_manager(&mut self, binary: &Path) -> Result<(), Box<dyn Error>> {
        let (health, webhooks) = (free_port()?, free_port()?);
        let devcluster = std::env::current_exe()?;
        let arguments = [
            "webhooks".to_owned(),
            format!("--url=https://127.0.0.1:{webhooks}"),
            format!("--root={}", self.root.display()),
            "--".to_owned(),
            binary.display().to_string(),
            "--leader-elect=false".to_owned(),
            format!("--health-probe-bind-address=127.0.0.1:{health}"),
            format!("--webhook-port={webhooks}"),
        ];
        let mut environment: Vec<(String, String)> = Vec::new();
        for (name, value) in self.cluster.environment().variables() {
            environment.push((name.to_owned(), value.to_string_lossy().into_owned()));
        }
        // The defaults, independent of this process's environment variables.
        for (name, value) in [("ENABLE_WEBHOOKS", "true"), ("KUBECTL", "kubectl")] {
            environment.push((name.to_owned(), value.to_owned()));
        }
        println!("$ devcluster {}", arguments.join(" "));
        let program = Program::foreign(devcluster);
        let log = self.manager_log();
        let manager = Process::spawn("manager", &program, arguments, environment, &log)?;
        self.manager = Some(manager);
        self.wait("/readyz of the manager", || {
            Ok(if is_ready(health) {
                Ok(())
            } else {
                Err("no 200".to_owned())
            })
        })?;
        self.wait_until_called()
    }

    /// Waits until the API server accepts objects in the original versions, for which it calls the
    /// conversion webhook. Dry runs only.
    fn wait_until_called(&mut self) -> Result<(), Box<dyn Error>> {
        let cluster = self.cluster;
        let samples = self.root.join(SAMPLES).display().to_string();
        self.wait("the first call of the webhooks", || {
            let tried = cluster.kubectl(&["create", "--dry-run=server", "-k", &samples])?;
            Ok(succeeded(&tried))
        })
    }

    /// Stops the manager and checks how it exits.
    pub(crate) fn stop_manager(&mut self) -> Result<(), Box<dyn Error>> {
        let Some(mut manager) = self.manager.take() else {
            return Ok(());
        };
        let began = Instant::now();
        manager.stop(MANAGER_GRACE);
        match manager.ended() {
            Some(status) if status.success() => {
                took("manager stopped", began.elapsed());
                Ok(())
            }
            status => Err(format!("the manager did not end well on SIGTERM: {status:?}").into()),
        }
    }

    pub(crate) fn print_manager_log(&self) {
        if self.manager.is_some() {
            eprintln!(
                "\nThe end of the manager's log:\n{}\n",
                tail(&self.manager_log(), 15)
            );
        }
    }

    /// Returns an error if the manager or a component has exited.
    fn check(&mut self) -> devcluster::Result<()> {
        self.manager.as_mut().map_or(Ok(()), Process::check)?;
        self.cluster.check()
    }

    /// Prints a kubectl command and its output.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<(), Box<dyn Error>> {
        show_command(arguments);
        let output = self.run_kubectl(arguments)?;
        print_indented(&String::from_utf8_lossy(&output.stdout));
        Ok(succeeded(&output)?)
    }

    /// Prints a kubectl command that outputs one object as YAML, and the object's kind and spec;
    /// returns the spec.
    pub(crate) fn kubectl_spec(&self, arguments: &[&str]) -> Result<String, Box<dyn Error>> {
        show_command(arguments);
        let output = self.run_kubectl(arguments)?;
        succeeded(&output)?;
        Ok(print_spec(&String::from_utf8_lossy(&output.stdout)))
    }

    /// Prints a kubectl command that must fail, and returns its error.
    pub(crate) fn kubectl_refused(&self, arguments: &[&str]) -> Result<String, Box<dyn Error>> {
        show_command(arguments);
        let output = self.run_kubectl(arguments)?;
        let refusal = String::from_utf8_lossy(&output.stderr).into_owned();
        print_indented(&refusal);
        if output.status.success() {
            Err("it was not rejected".into())
        } else {
            Ok(refusal)
        }
    }

    /// Waits until the sample's current generation is Ready with `pods` pods, and returns a summary
    /// of its status.
    pub(crate) fn wait_until_ready(
        &mut self,
        sample: &Sample,
        pods: usize,
    ) -> Result<String, Box<dyn Error>> {
        let path = format!("{}/{}", sample.collection, sample.name);
        let cluster = self.cluster;
        self.wait(&format!("{} Ready with {pods} pods", sample.name), || {
            let resource = cluster.get(&path)?.unwrap_or_default();
            Ok(if is_ready_with(&resource, pods) {
                Ok(summary(&resource["status"]))
            } else {
                Err(resource["status"].to_string())
            })
        })
    }

    /// Returns the paths of the Deployment and the pods in the sample's status.
    pub(crate) fn children_of(&self, sample: &Sample) -> Result<Vec<String>, Box<dyn Error>> {
        let path = format!("{}/{}", sample.collection, sample.name);
        let resource = self.cluster.get(&path)?.unwrap_or_default();
        let pods = nodes(&resource["status"]).map(|pod| format!("{PODS}/{pod}"));
        Ok([format!("{DEPLOYMENTS}/{}", sample.name)]
            .into_iter()
            .chain(pods)
            .collect())
    }

    pub(crate) fn wait_until_gone(&mut self, paths: &[String]) -> Result<(), Box<dyn Error>> {
        let cluster = self.cluster;
        self.wait("garbage collection", || {
            for path in paths {
                if cluster.get(path)?.is_some() {
                    return Ok(Err(format!("{path} still exists")));
                }
            }
            Ok(Ok(()))
        })
    }

    /// Calls `attempt` until it succeeds; its error is what was observed instead.
    fn wait<T>(
        &mut self,
        what: &str,
        mut attempt: impl FnMut() -> devcluster::Result<Result<T, String>>,
    ) -> Result<T, Box<dyn Error>> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let seen = match attempt()? {
                Ok(result) => return Ok(result),
                Err(seen) => seen,
            };
            self.check()?;
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(devcluster::Error::Interrupted.into());
            }
            if Instant::now() > deadline {
                let what = what.to_owned();
                return Err(devcluster::Error::Late {
                    what,
                    limit: LIMIT,
                    seen,
                }
                .into());
            }
            thread::sleep(POLL);
        }
    }

    fn run_kubectl(&self, arguments: &[&str]) -> Result<Output, Box<dyn Error>> {
        let environment = self.cluster.environment();
        let mut kubectl = Command::new(environment.binaries.join("kubectl"));
        kubectl
            .args(arguments)
            .envs(environment.variables())
            .current_dir(&self.root);
        Ok(kubectl.output()?)
    }

    pub(crate) fn manager_log(&self) -> PathBuf {
        self.cluster.dir().join("manager.log")
    }
}

/// Returns the error output of a failed command.
fn succeeded(output: &Output) -> Result<(), String> {
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

fn is_ready_with(resource: &Value, pods: usize) -> bool {
    let status = &resource["status"];
    let is_ready = status["conditions"].as_array().is_some_and(|conditions| {
        conditions
            .iter()
            .any(|one| one["type"] == "Ready" && one["status"] == "True")
    });
    is_ready
        && status["observedGeneration"] == resource["metadata"]["generation"]
        && nodes(status).count() == pods
}

fn summary(status: &Value) -> String {
    let pods = format!("{} pods", nodes(status).count());
    match status["realQPS"].as_i64() {
        Some(rate) => format!("{pods}, {rate} queries a second"),
        None => pods,
    }
}

/// The names of the pods in `status.nodes`.
fn nodes(status: &Value) -> impl Iterator<Item = &str> {
    status["nodes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

fn is_ready(port: u16) -> bool {
    let request = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream
            .write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    request().is_ok_and(|answer| answer.split_whitespace().nth(1) == Some("200"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_means_the_current_generation_with_all_its_pods() {
        let resource = |observed: i64, nodes: &[&str]| {
            serde_json::json!({
                "metadata": {"generation": 2},
                "status": {
                    "observedGeneration": observed,
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "nodes": nodes,
                },
            })
        };
        assert!(is_ready_with(&resource(2, &["a", "b"]), 2));
        assert!(!is_ready_with(&resource(1, &["a", "b"]), 2));
        assert!(!is_ready_with(&resource(2, &["a"]), 2));
        assert!(!is_ready_with(&Value::Null, 0));
    }
}
