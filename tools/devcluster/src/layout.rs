//! Where everything of one cluster is: files, nearly all in its folder, and two ports. Its
//! configuration files are templates, in which `{NAME}` is what differs between clusters.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use crate::component::Component;
use crate::environment;
use crate::error::{Doing, Result, write};
use crate::node;
use crate::tokens::Tokens;

/// The files that every cluster has, and their templates.
const FILES: [(&str, &str); 2] = [
    (
        "audit-policy.yaml",
        include_str!("config/audit-policy.yaml"),
    ),
    ("scheduler.yaml", include_str!("config/scheduler.yaml")),
];

/// The files of a real node.
const NODE_FILES: [(&str, &str); 7] = [
    (
        "node/containerd.toml",
        include_str!("config/node/containerd.toml"),
    ),
    (
        "node/certs.d/_default/hosts.toml",
        include_str!("config/node/hosts.toml"),
    ),
    (
        "node/storage.conf",
        include_str!("config/node/storage.conf"),
    ),
    (
        "node/cni/bridge.conflist",
        include_str!("config/node/bridge.json"),
    ),
    (
        "node/registry.yaml",
        include_str!("config/node/registry.yaml"),
    ),
    (
        "node/kubelet.yaml",
        include_str!("config/node/kubelet.yaml"),
    ),
    (
        "node/kube-proxy.yaml",
        include_str!("config/node/kube-proxy.yaml"),
    ),
];

/// Where everything of one cluster is.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) folder: PathBuf,
    pub(crate) tokens: Tokens,
    pub(crate) etcd_port: u16,
    pub(crate) server_port: u16,
    pub(crate) is_node_real: bool,
}

impl Layout {
    /// Loopback, or the address of a real node.
    pub(crate) fn address(&self) -> Ipv4Addr {
        match self.is_node_real {
            true => node::ADDRESS,
            false => Ipv4Addr::LOCALHOST,
        }
    }

    pub(crate) fn server_url(&self) -> String {
        format!("https://{}:{}", self.address(), self.server_port)
    }

    pub(crate) fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd_port)
    }

    pub(crate) fn admin_kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    pub(crate) fn authority(&self) -> PathBuf {
        self.folder.join("pki/ca.crt")
    }

    /// The storage location of image build tools on a real node, which is not the machine's own.
    pub(crate) fn storage(&self) -> PathBuf {
        self.folder.join("node/storage.conf")
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

    /// Returns the command line of a component.
    pub(crate) fn arguments(&self, component: Component) -> Vec<String> {
        let lines = component.arguments(self.is_node_real);
        let lines = lines.into_iter().flat_map(str::lines);
        lines
            .filter(|line| !line.starts_with('#'))
            .map(|line| self.filled(line))
            .collect()
    }

    /// Writes the configuration files of the command lines, except kwok's.
    pub(crate) fn write_configuration(&self, admin: &str) -> Result<()> {
        self.write_kubeconfig("kubeconfig", admin)?;
        for component in Component::ALL {
            if let Some(user) = component.user() {
                self.write_kubeconfig(&format!("{component}.kubeconfig"), user)?;
            }
        }
        for (name, template) in FILES {
            self.write(name, template)?;
        }
        if self.is_node_real {
            for folder in ["node/cni", "node/certs.d/_default", "node/registry"] {
                let folder = self.folder.join(folder);
                fs::create_dir_all(&folder).doing(|| format!("creating {}", folder.display()))?;
            }
            for (name, template) in NODE_FILES {
                self.write(name, template)?;
            }
        }
        Ok(())
    }

    /// Writes kwok's configuration file; `stages` are its default ones.
    pub(crate) fn write_kwok_config(&self, stages: &str) -> Result<()> {
        let text = format!("{stages}\n{}", include_str!("config/kwok.yaml"));
        write(&self.folder.join("kwok.yaml"), text)
    }

    fn write_kubeconfig(&self, name: &str, user: &str) -> Result<()> {
        let template = include_str!("config/kubeconfig.yaml")
            .replace("{user}", user)
            .replace("{token}", self.tokens.of(user));
        self.write(name, &template)
    }

    fn write(&self, name: &str, template: &str) -> Result<()> {
        write(&self.folder.join(name), self.filled(template))
    }

    fn filled(&self, template: &str) -> String {
        template
            .replace("{folder}", &self.folder.to_string_lossy())
            .replace("{audit-log}", &self.audit_log().to_string_lossy())
            .replace("{etcd}", &self.etcd_url())
            .replace("{server}", &self.server_url())
            .replace("{address}", &self.address().to_string())
            .replace("{port}", &self.server_port.to_string())
            .replace("{node}", &node::inside::name())
    }
}
