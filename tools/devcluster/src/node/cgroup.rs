//! One cgroup for all pods of a node, in every hierarchy: the only state outside its namespaces.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, test_kill_process};

use crate::error::{Result, create_folder};

/// The prefix of the name of a node's cgroup; the process id of the `devcluster` outside follows.
pub(super) const PREFIX: &str = "devcluster-node-";

const ROOT: &str = "/sys/fs/cgroup";

/// Returns the mounted hierarchies: one of version 2, or one for each controller of version 1.
fn hierarchies() -> Vec<PathBuf> {
    let root = Path::new(ROOT);
    if root.join("cgroup.controllers").exists() {
        return vec![root.to_owned()];
    }
    let Ok(entries) = fs::read_dir(root) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .filter(|path| path.join("cgroup.procs").exists())
        .collect()
}

/// Creates the cgroup `name` in each hierarchy.
pub(super) fn create(name: &str) -> Result<()> {
    for hierarchy in hierarchies() {
        let folder = hierarchy.join(name);
        create_folder(&folder)?;
        // In version 1 a new cpuset has no CPUs and no memory nodes, and accepts no process.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let own = folder.join(file);
            if let (true, Ok(of_parent)) = (own.exists(), fs::read(hierarchy.join(file))) {
                let _ = fs::write(own, of_parent);
            }
        }
    }
    Ok(())
}

/// Removes the cgroups of exited owners.
pub(super) fn sweep() {
    let of_owner = |name: &str| {
        let owner: i32 = name.strip_prefix(PREFIX)?.parse().ok()?;
        Pid::from_raw(owner)
    };
    for hierarchy in hierarchies() {
        for entry in fs::read_dir(hierarchy).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if of_owner(&name).is_some_and(|owner| test_kill_process(owner).is_err()) {
                remove(&name);
            }
        }
    }
}

/// Removes it and all below; the kernel needs a moment after the last process has exited.
pub(super) fn remove(name: &str) {
    for hierarchy in hierarchies() {
        let folder = hierarchy.join(name);
        for _ in 0..100 {
            if !folder.exists() || remove_tree(&folder).is_ok() {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn remove_tree(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)?.flatten() {
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    fs::remove_dir(folder)
}
