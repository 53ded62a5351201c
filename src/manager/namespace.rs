//! The namespace of this process, if it runs in a pod.

/// The file that contains the namespace of a pod.
const FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The namespace of this pod; `None` outside a cluster.
pub(super) fn pod_namespace() -> Option<String> {
    let name = std::fs::read_to_string(FILE).ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}
