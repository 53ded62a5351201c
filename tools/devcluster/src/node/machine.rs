//! Checks this machine's requirements, and runs commands that must succeed.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::geteuid;

use crate::error::{Doing, Error, Result};

/// Commands, and the Debian package of each.
const COMMANDS: [(&str, &str); 8] = [
    ("ip", "iproute2"),
    ("iptables", "iptables"),
    ("unshare", "util-linux"),
    ("mount", "mount"),
    ("runc", "runc"),
    ("docker-registry", "docker-registry"),
    ("buildah", "buildah"),
    ("skopeo", "skopeo"),
];

/// The CNI plugins, from Debian's containernetworking-plugins.
const PLUGINS: &str = "/usr/lib/cni";

/// Returns in one line what is missing, and how to install it.
///
/// # Errors
/// [`Error::Machine`].
pub(super) fn check() -> Result<()> {
    let cannot = |reason: String| Err(Error::Machine(reason));
    if !geteuid().is_root() {
        return cannot("namespaces, mounts and cgroups need root: run it with sudo".to_owned());
    }
    let mut missing: Vec<&str> = COMMANDS
        .iter()
        .filter(|(command, _)| !is_in_path(command))
        .map(|&(_, package)| package)
        .collect();
    if !Path::new(PLUGINS).join("bridge").exists() {
        missing.push("containernetworking-plugins");
    }
    if !missing.is_empty() {
        return cannot(format!("apt-get install {}", missing.join(" ")));
    }
    let filesystems = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let has_overlay = filesystems
        .lines()
        .any(|line| line.split_whitespace().last() == Some("overlay"));
    if !has_overlay && run("modprobe", ["overlay"]).is_err() {
        return cannot("the kernel has no overlay file system: modprobe overlay".to_owned());
    }
    Ok(())
}

fn is_in_path(command: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path)
            // Debian's own PATH for a root login; a plain sudo may lack it.
            .chain(["/usr/sbin".into(), "/sbin".into()])
            .any(|folder| folder.join(command).exists())
    })
}

/// Runs a command to its end.
///
/// # Errors
/// It cannot be run, or fails; with its output.
pub(super) fn run<'a>(program: &str, arguments: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let arguments: Vec<&str> = arguments.into_iter().collect();
    let output = Command::new(program)
        .args(&arguments)
        .output()
        .doing(|| format!("running {program}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Machine(format!(
        "{program} {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    )))
}
