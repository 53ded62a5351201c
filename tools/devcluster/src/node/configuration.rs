//! The configuration files and command lines of the node's components.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::inside::name;
use super::machine::PLUGINS;
use super::{ADDRESS, NODE, POD_RANGE};
use crate::certificates::Certificates;
use crate::component::Component;
use crate::error::{Doing, Result, write};

/// The paths of one node's files: in the folder `node` of its cluster's state.
#[derive(Debug, Clone)]
pub(crate) struct Configuration {
    folder: PathBuf,
}

/// A short path, because the path of a socket is limited to 107 bytes; a tmpfs inside.
pub(crate) const SOCKET: &str = "/run/containerd/containerd.sock";

impl Configuration {
    /// Returns the configuration in the cluster's `state` folder.
    pub(crate) fn new(state: &Path) -> Self {
        Self {
            folder: state.join("node"),
        }
    }

    /// Writes all files; `kubeconfig` is that of kube-proxy.
    pub(crate) fn write(&self, certificates: &Certificates, kube_proxy: &Path) -> Result<()> {
        for folder in ["", "cni", "certs.d/_default", "registry"] {
            let folder = self.folder.join(folder);
            fs::create_dir_all(&folder).doing(|| format!("creating {}", folder.display()))?;
        }
        write(&self.folder.join("containerd.toml"), self.containerd())?;
        write(
            &self.folder.join("certs.d/_default/hosts.toml"),
            // `server`, not a mirror: containerd must not look for a missing image in the registry
            // of its name, which is not reachable here.
            format!(
                "server = 'https://{ADDRESS}'\ncapabilities = ['pull', 'resolve']\nca = '{}'\n",
                certificates.authority().display()
            ),
        )?;
        write(
            &self.storage(),
            format!(
                "[storage]\ndriver = 'overlay'\ngraphroot = '{}'\nrunroot = '/run/containers'\n",
                self.folder.join("images").display()
            ),
        )?;
        self.write_json("cni/bridge.conflist", &bridge())?;
        self.write_json("registry.yaml", &self.registry(certificates))?;
        self.write_json("kubelet.yaml", &kubelet(certificates))?;
        self.write_json("kube-proxy.yaml", &kube_proxy_configuration(kube_proxy))
    }

    /// Returns the file with the storage location of image build tools, which is not the machine's
    /// own.
    pub(crate) fn storage(&self) -> PathBuf {
        self.folder.join("storage.conf")
    }

    /// Returns the command line of one of the node's components; `kubeconfig` is its own.
    pub(crate) fn arguments(&self, component: Component, kubeconfig: &Path) -> Vec<String> {
        let file = |name: &str| self.folder.join(name).display().to_string();
        match component {
            Component::Registry => vec!["serve".to_owned(), file("registry.yaml")],
            Component::Containerd => vec![
                format!("--config={}", file("containerd.toml")),
                "--log-level=warn".to_owned(),
            ],
            Component::Kubelet => vec![
                format!("--config={}", file("kubelet.yaml")),
                format!("--kubeconfig={}", kubeconfig.display()),
                format!("--root-dir={}", file("kubelet")),
                format!("--hostname-override={NODE}"),
                format!("--node-ip={ADDRESS}"),
            ],
            Component::KubeProxy => vec![format!("--config={}", file("kube-proxy.yaml"))],
            _ => Vec::new(),
        }
    }

    fn write_json(&self, name: &str, value: &Value) -> Result<()> {
        write(&self.folder.join(name), format!("{value:#}\n"))
    }

    fn containerd(&self) -> String {
        let path = |name: &str| self.folder.join(name).display().to_string();
        format!(
            "version = 3
root = '{root}'
state = '/run/containerd'
[grpc]
  address = '{SOCKET}'
[plugins.'io.containerd.cri.v1.images'.registry]
  config_path = '{hosts}'
[plugins.'io.containerd.cri.v1.runtime']
  enable_unprivileged_ports = true
  restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ['{PLUGINS}']
  conf_dir = '{cni}'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  SystemdCgroup = false
",
            root = path("containerd"),
            hosts = path("certs.d"),
            cni = path("cni"),
        )
    }

    fn registry(&self, certificates: &Certificates) -> Value {
        json!({
            "version": "0.1",
            "log": {"level": "warn", "accesslog": {"disabled": true}},
            "storage": {
                "filesystem": {"rootdirectory": self.folder.join("registry")},
                "delete": {"enabled": true},
            },
            "http": {
                "addr": format!("{ADDRESS}:443"),
                "tls": {
                    "certificate": certificates.certificate("server"),
                    "key": certificates.key("server"),
                },
            },
        })
    }
}

fn bridge() -> Value {
    json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": true,
                "ipMasq": false,
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": "10.244.0.0/24"}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
}

fn kubelet(certificates: &Certificates) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": false,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", name()),
        "cgroupsPerQOS": true,
        "containerRuntimeEndpoint": format!("unix://{SOCKET}"),
        "authentication": {
            "anonymous": {"enabled": false},
            // For the ServiceAccount of metrics-server.
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": certificates.authority()},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "tlsCertFile": certificates.certificate("server"),
        "tlsPrivateKeyFile": certificates.key("server"),
        "failSwapOn": false,
        "resolvConf": "",
        "clusterDomain": "cluster.local",
        "clusterDNS": [crate::component::DNS_CLUSTER_IP],
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
        },
        "imageGCHighThresholdPercent": 100,
        "serializeImagePulls": false,
        "registryPullQPS": 0,
        "maxPods": 250,
    })
}

fn kube_proxy_configuration(kubeconfig: &Path) -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": {"kubeconfig": kubeconfig},
        "hostnameOverride": NODE,
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
        "clusterCIDR": POD_RANGE,
        "metricsBindAddress": "127.0.0.1:10249",
    })
}
