//! The namespaces from inside: mounts over the machine's own folders, and the interfaces. They are
//! removed with the namespaces.

use std::path::Path;
use std::process::Command;

use super::{ADDRESS, REGISTRIES};
use crate::error::{Result, create_folder, output_of, write};

/// The bridge with the node's address. Pods have another bridge, of CNI.
const BRIDGE: &str = "node0";

/// Kernel settings that the kubelet requires and would otherwise set for the whole machine: it
/// finds them already set. (Network settings in /proc/sys belong to the namespace.)
const KUBELET_SETTINGS: [(&str, &str); 6] = [
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

/// Covers the paths that the node's programs write outside the state folder: /run is empty, /var is
/// the machine's with changes kept in `folder`, and registry names resolve to the node.
pub(super) fn mounts(folder: &Path) -> Result<()> {
    let (upper, work) = (folder.join("var"), folder.join("var-work"));
    for made in [&upper, &work] {
        create_folder(made)?;
    }
    let hosts = folder.join("hosts");
    write(
        &hosts,
        format!(
            "127.0.0.1 localhost\n::1 localhost\n{ADDRESS} {}\n",
            REGISTRIES.join(" ")
        ),
    )?;
    run("mount", ["-t", "tmpfs", "tmpfs", "/run"])?;
    let layers = format!(
        "lowerdir=/var,upperdir={},workdir={}",
        upper.display(),
        work.display()
    );
    run("mount", ["-t", "overlay", "overlay", "-o", &layers, "/var"])?;
    run("mount", ["--bind", &hosts.to_string_lossy(), "/etc/hosts"])?;
    for (setting, value) in KUBELET_SETTINGS {
        let seen = folder.join(setting.replace('/', "-"));
        write(&seen, value)?;
        let setting = format!("/proc/sys/{setting}");
        run("mount", ["--bind", &seen.to_string_lossy(), &setting])?;
    }
    Ok(())
}

/// Configures loopback, and a bridge with the node's address and the default route.
pub(super) fn interfaces() -> Result<()> {
    let address = format!("{ADDRESS}/24");
    run("ip", ["link", "set", "lo", "up"])?;
    run("ip", ["link", "add", BRIDGE, "type", "bridge"])?;
    run("ip", ["address", "add", &address, "dev", BRIDGE])?;
    run("ip", ["link", "set", BRIDGE, "up"])?;
    run("ip", ["route", "add", "default", "dev", BRIDGE])?;
    let forward = "/proc/sys/net/ipv4/ip_forward";
    write(Path::new(forward), "1")
}

/// Runs a command that must succeed.
fn run<const N: usize>(program: &str, arguments: [&str; N]) -> Result<()> {
    output_of(Command::new(program).args(arguments)).map(|_| ())
}
