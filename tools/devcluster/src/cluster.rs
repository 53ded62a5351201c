//! One cluster: it starts, becomes ready, its components can be stopped and restarted, and it is
//! deleted on drop.

mod readiness;

use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::api_server::ApiServer;
use crate::binaries::Binaries;
use crate::certificates;
use crate::component::Component;
use crate::environment::{self, Environment, NodeEnvironment};
use crate::error::{Doing, Result};
use crate::folder::StateFolder;
use crate::layout::Layout;
use crate::node;
use crate::nodes::simulated;
use crate::options::{Nodes, Options};
use crate::ports::free_port;
use crate::process::Process;
use crate::tokens::Tokens;

/// The grace period of a component that is told to stop.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// The user of the kubeconfig for callers.
const ADMIN: &str = "admin";

/// Authorized for everything before any RBAC object exists.
const MASTERS: &str = "system:masters";

/// Authorized for what a node must do for its pods.
const NODES: &str = "system:nodes";

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

/// A running cluster. Dropping it kills every component and removes its folder.
#[derive(Debug)]
pub struct Cluster {
    /// The running components, without stopped ones. Dropped, and so killed, before `folder`.
    processes: Mutex<BTreeMap<Component, Process>>,
    layout: Layout,
    binaries: Binaries,
    api_server: ApiServer,
    nodes: Nodes,
    interrupted: Arc<AtomicBool>,
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
        let mut binaries = Binaries::find_or_build()?;
        let folder = StateFolder::create()?;
        let is_real = options.nodes == Nodes::Real;
        if is_real {
            binaries = binaries.with_containerd()?;
            node::prepare(folder.path())?;
        }
        let users: Vec<_> = Component::ALL
            .into_iter()
            .filter_map(|component| {
                let is_node = component == Component::Kubelet;
                Some((component.user()?, if is_node { NODES } else { MASTERS }))
            })
            .chain([(ADMIN, MASTERS)])
            .collect();
        let mut names = SERVER_NAMES.map(str::to_owned).to_vec();
        if is_real {
            names.push(node::ADDRESS.to_string());
            names.extend(node::REGISTRIES.map(str::to_owned));
        }
        certificates::create(&folder.path().join("pki"), names, is_real)?;
        let layout = Layout {
            folder: folder.path().to_owned(),
            tokens: Tokens::create(&folder.path().join("tokens.csv"), &users)?,
            etcd_port: free_port()?,
            server_port: free_port()?,
            is_node_real: is_real,
        };
        layout.write_configuration(ADMIN)?;
        let cluster = Self {
            processes: Mutex::default(),
            api_server: ApiServer::new(
                (layout.address(), layout.server_port).into(),
                &layout.authority(),
                layout.tokens.of(ADMIN),
            )?,
            layout,
            binaries,
            nodes: options.nodes,
            interrupted: options.interrupted,
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
        match self.nodes {
            Nodes::Simulated(count) => {
                let stages = kwok_stages(&self.binaries)?;
                self.layout.write_kwok_config(stages)?;
                self.spawn(Component::Kwok)?;
                for number in 1..=count {
                    let node = simulated(number);
                    self.wait("the creation of a node", || {
                        let created = self.api_server.create("/api/v1/nodes", &node);
                        created.map_err(|error| error.to_string())
                    })?;
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
        match component {
            Component::ApiServer => self.wait_until_serving(),
            Component::Etcd if self.runs(Component::ApiServer) => self.wait_until_serving(),
            _ => Ok(()),
        }
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
        self.layout.admin_kubeconfig()
    }

    /// Returns the API server's audit log: one JSON event per line, written before the response is
    /// sent, with the user agent of every request except the control plane's own reads.
    pub fn audit_log(&self) -> PathBuf {
        self.layout.audit_log()
    }

    /// Returns the output of a component.
    pub fn log(&self, component: Component) -> PathBuf {
        self.layout.log(component)
    }

    /// Returns the folder of all its state, which is removed with it.
    pub fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the state folder itself.
    pub fn folder(&self) -> &StateFolder {
        &self.folder
    }

    /// Returns `https://ADDRESS:PORT`; the address is 127.0.0.1 with simulated nodes.
    pub fn server_url(&self) -> String {
        self.layout.server_url()
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
            audit_logs: environment::audit_logs(),
            binaries: self.binaries.folder().to_owned(),
            node: self.layout.is_node_real.then(|| NodeEnvironment {
                authority: self.layout.authority(),
                storage: self.layout.storage(),
            }),
        }
    }

    /// Returns an error if a component that should run has exited by itself.
    ///
    /// # Errors
    /// [`crate::Error::Ended`], with the end of its log.
    pub fn check(&self) -> Result<()> {
        self.processes().values_mut().try_for_each(Process::check)
    }

    pub(crate) fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    pub(crate) fn api_server(&self) -> &ApiServer {
        &self.api_server
    }

    fn spawn(&self, component: Component) -> Result<()> {
        let process = Process::spawn(
            component.name(),
            &self.binaries.program(component),
            self.layout.arguments(component),
            [],
            &self.layout.log(component),
        )?;
        self.processes().insert(component, process);
        Ok(())
    }

    fn runs(&self, component: Component) -> bool {
        self.processes().contains_key(&component)
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

/// Returns kwok's default stages, which are embedded in kwok but must be given as a file. They are
/// the same for every cluster, and kwok is asked once.
fn kwok_stages(binaries: &Binaries) -> Result<&'static str> {
    static STAGES: OnceLock<String> = OnceLock::new();
    if let Some(stages) = STAGES.get() {
        return Ok(stages);
    }
    let program = binaries.path("kwok-stages");
    let output = Command::new(&program)
        .output()
        .doing(|| format!("running {}", program.display()))?;
    if !output.status.success() {
        return Err(io::Error::other(output.status.to_string()))
            .doing(|| format!("running {}", program.display()));
    }
    Ok(STAGES.get_or_init(|| String::from_utf8_lossy(&output.stdout).into_owned()))
}
