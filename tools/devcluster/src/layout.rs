//! Where everything of one cluster is: files, nearly all in its folder, and two ports. `config` has its
//! configuration files and command lines as templates, in which `{NAME}` is what differs between
//! clusters.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use crate::component::Component;
use crate::environment::{AUDIT_LOGS, variable};
use crate::error::{Doing, Result, create_folder, write};
use crate::node;

/// The templates.
const CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/config");

/// The user of the kubeconfig for callers.
const ADMIN: &str = "admin";

/// Authorized for everything before any RBAC object exists.
const MASTERS: &str = "system:masters";

/// Authorized for what a node must do for its pods.
const NODES: &str = "system:nodes";

/// Where everything of one cluster is.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) folder: PathBuf,
    /// A bearer token is this and the user's name. (The API server checks the chain of a client
    /// certificate with every request.)
    pub(crate) secret: String,
    pub(crate) etcd_port: u16,
    pub(crate) server_port: u16,
    pub(crate) is_node_real: bool,
}

impl Layout {
    /// Loopback, or the address of a real node.
    pub(crate) fn address(&self) -> Ipv4Addr {
        if self.is_node_real {
            node::ADDRESS
        } else {
            Ipv4Addr::LOCALHOST
        }
    }

    pub(crate) fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd_port)
    }

    /// Outside the cluster's folder if audit logs are collected, because they are read when their
    /// clusters are gone.
    pub(crate) fn audit_log(&self) -> PathBuf {
        match (variable(AUDIT_LOGS), self.folder.file_name()) {
            (Some(logs), Some(name)) => logs.join(name).with_extension("log"),
            _ => self.folder.join("audit.log"),
        }
    }

    /// Returns the command line of a component: the arguments for any node, and those for one that is
    /// real or simulated, if there are any. Each is a line.
    pub(crate) fn arguments(&self, component: Component) -> Result<Vec<String>> {
        let name = component.name();
        let node = if self.is_node_real {
            "real"
        } else {
            "simulated"
        };
        let mut text = template(&format!("arguments/{name}"))?;
        text += &template(&format!("arguments/{name}-{node}")).unwrap_or_default();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Ok(lines.map(|line| self.filled(line)).collect())
    }

    /// Writes the configuration files of the command lines, except kwok's stages, and the API server's
    /// list of tokens.
    pub(crate) fn write_configuration(&self) -> Result<()> {
        let mut tokens = String::new();
        let kubeconfig = template("kubeconfig.yaml")?;
        let clients = Component::CLIENTS.map(|(component, user)| {
            let group = if component == Component::Kubelet {
                NODES
            } else {
                MASTERS
            };
            (format!("{}.kubeconfig", component.name()), user, group)
        });
        for (name, user, group) in [("kubeconfig".to_owned(), ADMIN, MASTERS)]
            .into_iter()
            .chain(clients)
        {
            tokens += &format!("{}-{user},{user},{user},{group}\n", self.secret);
            let text = kubeconfig.replace("{user}", user);
            write(&self.folder.join(name), self.filled(&text))?;
        }
        write(&self.folder.join("tokens.csv"), tokens)?;
        for name in ["audit-policy.yaml", "scheduler.yaml"] {
            write(&self.folder.join(name), self.filled(&template(name)?))?;
        }
        if self.is_node_real {
            self.write_folder("node")?;
            create_folder(&self.folder.join("node/registry"))?;
        }
        Ok(())
    }

    /// Writes kwok's configuration file; `stages` are its default ones.
    pub(crate) fn write_kwok_config(&self, stages: &str) -> Result<()> {
        let text = format!("{stages}\n{}", template("kwok.yaml")?);
        write(&self.folder.join("kwok.yaml"), text)
    }

    /// Writes a simulated node, and returns its file.
    pub(crate) fn write_node(&self, number: usize) -> Result<PathBuf> {
        let file = self.folder.join(format!("node-{number}.json"));
        let text = template("node.json")?.replace("{number}", &number.to_string());
        write(&file, text)?;
        Ok(file)
    }

    /// Writes all templates of a folder and its folders.
    fn write_folder(&self, name: &str) -> Result<()> {
        create_folder(&self.folder.join(name))?;
        let doing = || format!("reading the folder {CONFIG}/{name}");
        for entry in fs::read_dir(Path::new(CONFIG).join(name)).doing(doing)? {
            let entry = entry.doing(doing)?;
            let name = format!("{name}/{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                self.write_folder(&name)?;
            } else {
                write(&self.folder.join(&name), self.filled(&template(&name)?))?;
            }
        }
        Ok(())
    }

    fn filled(&self, template: &str) -> String {
        template
            .replace("{folder}", &self.folder.to_string_lossy())
            .replace("{audit-log}", &self.audit_log().to_string_lossy())
            .replace("{secret}", &self.secret)
            .replace("{etcd}", &self.etcd_url())
            .replace("{address}", &self.address().to_string())
            .replace("{port}", &self.server_port.to_string())
            .replace("{node}", &node::inside::name())
    }
}

fn template(name: &str) -> Result<String> {
    let path = Path::new(CONFIG).join(name);
    fs::read_to_string(&path).doing(|| format!("reading {}", path.display()))
}
