//! The components: their names, their users, and their command lines. Options that are not set here
//! have the component's default.

use std::fmt;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use crate::certificates::Certificates;
use crate::environment;
use crate::error::{Result, write};
use crate::node;
use crate::tokens::Tokens;

/// Clients of a control plane are limited to 20–50 requests a second by default. A test of many
/// objects would measure that instead of the operator.
const QPS: u32 = 500;
const BURST: u32 = 1000;

/// The API server as a client of a kubelet, and of aggregated API servers.
pub(crate) const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";

/// The address of the cluster's DNS, if it has one.
pub(crate) const DNS_CLUSTER_IP: &str = "10.96.0.10";

/// The range of ClusterIPs; kwok's pods and nodes have the upper half of 10/8.
const SERVICE_RANGE: &str = "10.96.0.0/16";
/// The first address of [`SERVICE_RANGE`], which the Service `kubernetes` gets.
pub(crate) const API_SERVER_CLUSTER_IP: &str = "10.96.0.1";

/// A part of the control plane that can be stopped and started by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// The store.
    Etcd,
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager: Deployments, ReplicaSets, garbage collection, quota, …
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
    /// kwok, which simulates the kubelets of all nodes.
    Kwok,
    /// The registry of a real node.
    Registry,
    /// containerd, which runs its containers.
    Containerd,
    /// Its kubelet.
    Kubelet,
    /// Its kube-proxy.
    KubeProxy,
}

impl Component {
    /// All components, in an order in which each finds those that it needs.
    pub const ALL: [Self; 9] = [
        Self::Etcd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Kwok,
        Self::Registry,
        Self::Containerd,
        Self::Kubelet,
        Self::KubeProxy,
    ];

    /// Returns the program's name, which is also that of its log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kwok => "kwok",
            Self::Registry => "docker-registry",
            Self::Containerd => "containerd",
            Self::Kubelet => "kubelet",
            Self::KubeProxy => "kube-proxy",
        }
    }

    /// Returns its user at the API server, if it is a client.
    pub(crate) fn user(self) -> Option<&'static str> {
        match self {
            Self::Etcd | Self::ApiServer | Self::Registry | Self::Containerd => None,
            Self::ControllerManager => Some("system:kube-controller-manager"),
            Self::Scheduler => Some("system:kube-scheduler"),
            Self::Kwok => Some("kwok"),
            Self::Kubelet => Some("system:node:node-1"),
            Self::KubeProxy => Some("system:kube-proxy"),
        }
    }

    pub(crate) fn arguments(self, layout: &Layout) -> Vec<String> {
        match self {
            Self::Etcd => layout.etcd(),
            Self::ApiServer => layout.api_server(),
            Self::ControllerManager => layout.controller_manager(),
            Self::Scheduler => vec![
                flag("config", layout.scheduler_config()),
                off("secure-port"),
            ],
            Self::Kwok => vec![
                flag("kubeconfig", layout.kubeconfig(self)),
                flag("config", layout.kwok_config()),
            ],
            Self::Registry | Self::Containerd | Self::Kubelet | Self::KubeProxy => layout
                .node
                .as_ref()
                .map(|node| node.arguments(self, &layout.kubeconfig(self)))
                .unwrap_or_default(),
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Where everything of one cluster is: files, nearly all in its folder, and two ports.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) folder: PathBuf,
    pub(crate) certificates: Certificates,
    pub(crate) tokens: Tokens,
    pub(crate) etcd_port: u16,
    pub(crate) server_port: u16,
    /// Loopback, or the address of a real node.
    pub(crate) address: Ipv4Addr,
    /// The configuration of a real node.
    pub(crate) node: Option<node::Configuration>,
}

impl Layout {
    pub(crate) fn server_url(&self) -> String {
        format!("https://{}:{}", self.address, self.server_port)
    }

    pub(crate) fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd_port)
    }

    pub(crate) fn admin_kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// Outside the cluster's folder if audit logs are collected, because they are read when their
    /// clusters are gone.
    pub(crate) fn audit_log(&self) -> PathBuf {
        match (environment::audit_logs(), self.folder.file_name()) {
            (Some(logs), Some(name)) => logs.join(name).with_extension("log"),
            _ => self.folder.join("audit.log"),
        }
    }

    pub(crate) fn log(&self, component: Component) -> PathBuf {
        self.folder.join(format!("{component}.log"))
    }

    fn kubeconfig(&self, component: Component) -> PathBuf {
        self.folder.join(format!("{component}.kubeconfig"))
    }

    fn audit_policy(&self) -> PathBuf {
        self.folder.join("audit-policy.yaml")
    }

    fn scheduler_config(&self) -> PathBuf {
        self.folder.join("scheduler.yaml")
    }

    fn kwok_config(&self) -> PathBuf {
        self.folder.join("kwok.yaml")
    }

    /// Writes the configuration files of the command lines, except kwok's.
    pub(crate) fn write_configuration(&self, admin: &str) -> Result<()> {
        self.write_kubeconfig(&self.admin_kubeconfig(), admin)?;
        for component in Component::ALL {
            if let Some(user) = component.user() {
                self.write_kubeconfig(&self.kubeconfig(component), user)?;
            }
        }
        write(
            &self.audit_policy(),
            include_str!("config/audit-policy.yaml"),
        )?;
        let scheduler = serde_json::json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": false},
            "clientConnection": {
                "kubeconfig": self.kubeconfig(Component::Scheduler),
                "qps": QPS,
                "burst": BURST,
            },
            "podMaxBackoffSeconds": 1,
        });
        write(&self.scheduler_config(), format!("{scheduler:#}"))?;
        match &self.node {
            Some(node) => node.write(&self.certificates, &self.kubeconfig(Component::KubeProxy)),
            None => Ok(()),
        }
    }

    /// Writes kwok's configuration file; `stages` are its default ones.
    pub(crate) fn write_kwok_config(&self, stages: &str) -> Result<()> {
        write(
            &self.kwok_config(),
            format!("{stages}\n{}", include_str!("config/kwok.yaml")),
        )
    }

    /// JSON is valid YAML and quotes any path.
    fn write_kubeconfig(&self, path: &Path, user: &str) -> Result<()> {
        let kubeconfig = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "devcluster",
            "contexts": [
                {"name": "devcluster", "context": {"cluster": "devcluster", "user": user}},
            ],
            "clusters": [{"name": "devcluster", "cluster": {
                "server": self.server_url(),
                "certificate-authority": self.certificates.authority(),
            }}],
            "users": [{"name": user, "user": {"token": self.tokens.of(user)}}],
        });
        write(path, format!("{kubeconfig:#}\n"))
    }

    fn etcd(&self) -> Vec<String> {
        let url = self.etcd_url();
        vec![
            flag("data-dir", self.folder.join("etcd")),
            text("listen-client-urls", &url),
            text("advertise-client-urls", &url),
            text("listen-peer-urls", "http://127.0.0.1:0"), // there are no peers
            // The data must survive the process, not the machine.
            "--unsafe-no-fsync".to_owned(),
            text("log-level", "warn"),
        ]
    }

    fn api_server(&self) -> Vec<String> {
        let certificates = &self.certificates;
        let mut arguments = vec![
            text("etcd-servers", self.etcd_url()),
            text("bind-address", self.address.to_string()),
            text("secure-port", self.server_port.to_string()),
            text("advertise-address", self.address.to_string()),
            flag("tls-cert-file", certificates.certificate("server")),
            flag("tls-private-key-file", certificates.key("server")),
            flag("client-ca-file", certificates.authority()),
            flag("token-auth-file", token_list(&self.folder)),
            text("authorization-mode", "Node,RBAC"),
            text("allow-privileged", "true"),
            text("service-cluster-ip-range", SERVICE_RANGE),
            text("service-account-issuer", "https://kubernetes.default.svc"),
            flag(
                "service-account-key-file",
                certificates.service_account_public_key(),
            ),
            flag(
                "service-account-signing-key-file",
                certificates.service_account_key(),
            ),
            // Webhooks of Services are called at their endpoints, because no kube-proxy runs here.
            text("enable-aggregator-routing", "true"),
            // Otherwise a graceful shutdown waits for a minute for watches to end.
            text("shutdown-watch-termination-grace-period", "1s"),
            flag("audit-policy-file", self.audit_policy()),
            flag("audit-log-path", self.audit_log()),
            // In MB. 0 means 100 (lumberjack's default), and rotated files are not read.
            text("audit-log-maxsize", "1000000"),
        ];
        if self.node.is_some() {
            let client = KUBELET_CLIENT;
            arguments.extend([
                flag(
                    "kubelet-client-certificate",
                    certificates.certificate(client),
                ),
                flag("kubelet-client-key", certificates.key(client)),
                text("kubelet-preferred-address-types", "InternalIP"),
                // For aggregated API servers such as metrics-server.
                flag("proxy-client-cert-file", certificates.certificate(client)),
                flag("proxy-client-key-file", certificates.key(client)),
                flag("requestheader-client-ca-file", certificates.authority()),
                text("requestheader-allowed-names", client),
                text("requestheader-username-headers", "X-Remote-User"),
                text("requestheader-group-headers", "X-Remote-Group"),
                text("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
            ]);
        } else {
            // The endpoints of the Service kubernetes may not be loopback addresses.
            arguments.push(text("endpoint-reconciler-type", "none"));
        }
        arguments
    }

    fn controller_manager(&self) -> Vec<String> {
        let certificates = &self.certificates;
        let mut arguments = vec![
            flag("kubeconfig", self.kubeconfig(Component::ControllerManager)),
            text("leader-elect", "false"),
            flag("root-ca-file", certificates.authority()),
            flag(
                "service-account-private-key-file",
                certificates.service_account_key(),
            ),
            text("kube-api-qps", QPS.to_string()),
            text("kube-api-burst", BURST.to_string()),
            off("secure-port"),
        ];
        if self.node.is_some() {
            arguments.extend([
                text("allocate-node-cidrs", "true"),
                text("cluster-cidr", node::POD_RANGE),
            ]);
        }
        arguments
    }
}

/// Returns the file with the tokens of all users.
pub(crate) fn token_list(folder: &Path) -> PathBuf {
    folder.join("tokens.csv")
}

fn text(name: &str, value: impl AsRef<str>) -> String {
    format!("--{name}={}", value.as_ref())
}

fn flag(name: &str, path: PathBuf) -> String {
    format!("--{name}={}", path.display())
}

fn off(port: &str) -> String {
    format!("--{port}=0")
}
