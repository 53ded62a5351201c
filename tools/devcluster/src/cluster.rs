//! One cluster: it starts, becomes ready, its components can be stopped and restarted, and it is
//! deleted on drop.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::binaries::{binaries, containerd};
use crate::component::Component;
use crate::environment::{AUDIT_LOGS, Environment, variable};
use crate::error::{Doing, Error, Result, output_of};
use crate::folder::StateFolder;
use crate::layout::Layout;
use crate::ports::free_port;
use crate::process::{self, Process};
use crate::{certificates, load_factor, node};

/// The grace period of a component that is told to stop.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// Limit on an idle machine, where a start takes some 5 s. Beside a run of all tests and two
/// compilations it took 46 s.
const READY_LIMIT: Duration = Duration::from_secs(90);

/// The poll interval. Most attempts start kubectl, which costs the starting API server time.
const POLL: Duration = Duration::from_millis(100);

/// The names by which clients on this machine and pods call the API server. 10.96.0.1 is the address of the
/// Service `kubernetes`, the first of all Services.
const SERVER_NAMES: [&str; 7] = [
    "127.0.0.1",
    "10.96.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// The nodes on which pods run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nodes {
    /// This many simulated nodes of kwok, each with 1000 CPUs and room for a million pods.
    Simulated(usize),
    /// One node that runs containers; only where [`crate::is_inside`] holds.
    Real,
}

/// The kind of cluster to start.
#[derive(Debug, Clone)]
pub struct Options {
    /// The nodes on which pods run.
    pub nodes: Nodes,
    /// Set by the caller to abort a start in progress.
    pub interrupted: Arc<AtomicBool>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: Nodes::Simulated(2),
            interrupted: Arc::default(),
        }
    }
}

/// A running cluster. Dropping it kills every component and removes its folder.
#[derive(Debug)]
pub struct Cluster {
    /// The running components, without stopped ones. Dropped, and so killed, before `folder`.
    processes: Mutex<BTreeMap<Component, Process>>,
    layout: Layout,
    binaries: PathBuf,
    options: Options,
    folder: StateFolder,
}

impl Cluster {
    /// Starts a cluster and returns once a pod can be created and will run.
    ///
    /// # Errors
    /// A component exited or was not ready within 90 s; the programs cannot be built; the cache
    /// folder is not writable. No process is left running.
    pub fn start(options: Options) -> Result<Self> {
        let cluster = Self::start_api_server(options)?;
        cluster.start_controllers()?;
        Ok(cluster)
    }

    /// The first half of [`Cluster::start`]: etcd and a ready API server, without controllers. Use
    /// it before [`Cluster::install_definitions`].
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn start_api_server(options: Options) -> Result<Self> {
        let binaries = binaries()?;
        let folder = StateFolder::create()?;
        let is_real = options.nodes == Nodes::Real;
        if is_real {
            node::prepare(folder.path())?;
        }
        let mut names = SERVER_NAMES.map(str::to_owned).to_vec();
        if is_real {
            names.push(node::ADDRESS.to_string());
            names.extend(node::REGISTRIES.map(str::to_owned));
        }
        certificates::create(&folder.path().join("pki"), names, is_real)?;
        let layout = Layout {
            folder: folder.path().to_owned(),
            secret: random().doing(|| "reading /dev/urandom".to_owned())?,
            etcd_port: free_port()?,
            server_port: free_port()?,
            is_node_real: is_real,
        };
        layout.write_configuration()?;
        let cluster = Self {
            processes: Mutex::default(),
            layout,
            binaries,
            options,
            folder,
        };
        cluster.spawn(Component::Etcd)?;
        cluster.spawn(Component::ApiServer)?;
        cluster.wait_until_serving()?;
        Ok(cluster)
    }

    /// The second half of [`Cluster::start`]: controller-manager, scheduler and nodes; returns once
    /// the nodes accept pods and the default ServiceAccount exists.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn start_controllers(&self) -> Result<()> {
        for component in [Component::ControllerManager, Component::Scheduler] {
            self.spawn(component)?;
        }
        match self.options.nodes {
            Nodes::Simulated(count) => {
                // kwok's default stages are embedded in it, but must be given as a file.
                let stages = output_of(&mut Command::new(self.binaries.join("kwok-stages")))?;
                self.layout.write_kwok_config(&stages)?;
                self.spawn(Component::Kwok)?;
                for number in 1..=count {
                    let file = self.layout.write_node(number)?;
                    let file = format!("--filename={}", file.display());
                    self.kubectl_ok(&["create", "--raw=/api/v1/nodes", &file])?;
                }
            }
            Nodes::Real => {
                self.spawn(Component::Registry)?;
                self.spawn(Component::Containerd)?;
                // Without containerd the kubelet exits.
                self.wait("a response of containerd", || {
                    UnixStream::connect(node::CONTAINERD_SOCKET)
                        .map(|_| ())
                        .map_err(|error| error.to_string())
                })?;
                self.spawn(Component::Kubelet)?;
                self.spawn(Component::KubeProxy)?;
            }
        }
        self.wait_until_usable()
    }

    /// Stops a component as an operating system shuts down (SIGTERM) and waits until it has exited;
    /// kills it after 10 s. Its data is kept.
    pub fn stop(&self, component: Component) {
        if let Some(mut process) = self.processes().remove(&component) {
            process.stop(STOP_GRACE);
        }
    }

    /// Kills a component as a crash does (SIGKILL).
    pub fn kill(&self, component: Component) {
        self.processes().remove(&component); // dropped, so killed
    }

    /// Restarts a component, after stopping it if it runs: on the same port, with the same data.
    /// Returns once the API server, if it runs and this concerns it, is ready.
    ///
    /// # Errors
    /// It exited at once, or the API server was not ready within 90 s.
    pub fn restart(&self, component: Component) -> Result<()> {
        self.stop(component);
        self.spawn(component)?;
        let concerns_api_server = matches!(component, Component::Etcd | Component::ApiServer);
        if concerns_api_server && self.processes().contains_key(&Component::ApiServer) {
            self.wait_until_serving()?;
        }
        Ok(())
    }

    /// Suspends a component (SIGSTOP): its connections stay open without responses. A stopped
    /// component is left alone.
    ///
    /// # Errors
    /// The component has exited by itself.
    pub fn pause(&self, component: Component) -> Result<()> {
        self.with(component, Process::pause)
    }

    /// Resumes a paused component. A stopped component is left alone.
    ///
    /// # Errors
    /// The component has exited by itself.
    pub fn resume(&self, component: Component) -> Result<()> {
        self.with(component, Process::resume)
    }

    /// Returns a kubeconfig of a member of `system:masters`.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Returns the API server's audit log: one JSON event per line, written before the response is
    /// sent, with the user agent of every request except the control plane's own reads.
    pub fn audit_log(&self) -> PathBuf {
        self.layout.audit_log()
    }

    /// Returns the folder of all its state, which is removed with it.
    pub fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// Returns `https://ADDRESS:PORT`; the address is 127.0.0.1 with simulated nodes.
    pub fn server_url(&self) -> String {
        format!(
            "https://{}:{}",
            self.layout.address(),
            self.layout.server_port
        )
    }

    /// Returns the URL of etcd, open to every process on this machine: `http://127.0.0.1:PORT`.
    pub fn etcd_url(&self) -> String {
        self.layout.etcd_url()
    }

    /// Returns what a child process needs to use this cluster.
    pub fn environment(&self) -> Environment {
        Environment {
            kubeconfig: self.kubeconfig(),
            audit_log: self.audit_log(),
            audit_logs: variable(AUDIT_LOGS),
            binaries: self.binaries.clone(),
            is_node_real: self.layout.is_node_real,
        }
    }

    /// Returns an error if a component that should run has exited by itself.
    ///
    /// # Errors
    /// [`crate::Error::Ended`], with the end of its log.
    pub fn check(&self) -> Result<()> {
        self.processes().values_mut().try_for_each(Process::check)
    }

    fn spawn(&self, component: Component) -> Result<()> {
        let name = component.name();
        let mut command = match component {
            Component::Registry => process::watched(name),
            Component::Containerd => process::watched(containerd()?.join(name)),
            _ => process::component(&self.binaries.join(name)),
        };
        command.args(self.layout.arguments(component)?);
        let log = self.folder.path().join(format!("{name}.log"));
        let process = Process::spawn(name, &mut command, &log)?;
        self.processes().insert(component, process);
        Ok(())
    }

    fn wait_until_serving(&self) -> Result<()> {
        let address = (self.layout.address(), self.layout.server_port);
        self.wait("/readyz of the API server", || {
            TcpStream::connect(address).map_err(|error| error.to_string())?;
            let ready = self.kubectl_ok(&["get", "--raw=/readyz", "--request-timeout=10s"]);
            ready.map(|_| ()).map_err(|error| error.to_string())
        })
    }

    fn wait_until_usable(&self) -> Result<()> {
        let read = |path| self.get(path).map_err(|error| error.to_string());
        self.wait("the default ServiceAccount", || {
            let account = read("/api/v1/namespaces/default/serviceaccounts/default")?;
            account.map(|_| ()).ok_or_else(|| "none".to_owned())
        })?;
        let count = match self.options.nodes {
            Nodes::Simulated(count) => count,
            Nodes::Real => 1,
        };
        self.wait("every node Ready", || {
            let list = read("/api/v1/nodes")?.unwrap_or_default();
            let nodes = list["items"].as_array().into_iter().flatten();
            let ready = nodes.filter(|node| takes_pods(node)).count();
            let is_enough = ready >= count;
            is_enough
                .then_some(())
                .ok_or_else(|| format!("{ready} of {count}"))
        })
    }

    /// Calls `attempt` until it succeeds, as long as every started component runs.
    fn wait(
        &self,
        what: &str,
        mut attempt: impl FnMut() -> std::result::Result<(), String>,
    ) -> Result<()> {
        let began = Instant::now();
        while let Err(seen) = attempt() {
            self.check()?;
            if self.options.interrupted.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            let limit = READY_LIMIT.mul_f64(load_factor());
            if began.elapsed() > limit {
                let what = what.to_owned();
                return Err(Error::Late { what, limit, seen });
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn with(&self, component: Component, action: fn(&mut Process)) -> Result<()> {
        if let Some(process) = self.processes().get_mut(&component) {
            process.check()?;
            action(process);
        }
        Ok(())
    }

    /// A panic while the lock was held leaves the map consistent: every change is one call.
    fn processes(&self) -> MutexGuard<'_, BTreeMap<Component, Process>> {
        self.processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ready and no longer tainted: the taint is removed some time after the condition is set.
fn takes_pods(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array();
    let is_ready = |it: &Value| it["type"] == "Ready" && it["status"] == "True";
    conditions.is_some_and(|all| all.iter().any(is_ready)) && node["spec"]["taints"].is_null()
}

fn random() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}
