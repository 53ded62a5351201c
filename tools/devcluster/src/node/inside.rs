//! Whether this process is inside a node, and the name of the node.

use std::{env, process};

use super::cgroup;

/// The process id of the `devcluster` outside; set for the one inside.
pub(super) const OUTSIDE: &str = "DEVCLUSTER_OUTSIDE";

/// Reports whether this process runs in the namespaces of a node.
pub fn is_inside() -> bool {
    env::var_os(OUTSIDE).is_some()
}

/// Returns the name of this node's state and cgroups.
pub(crate) fn name() -> String {
    let outside = env::var(OUTSIDE).unwrap_or_else(|_| process::id().to_string());
    format!("{}{outside}", cgroup::PREFIX)
}
