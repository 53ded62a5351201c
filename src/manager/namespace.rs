//! The namespace of this process, if it runs in a pod.

use std::fs;
use std::path::Path;

/// The file that contains the namespace of a pod.
const FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The namespace of this pod; `None` outside a cluster.
pub(super) fn pod_namespace() -> Option<String> {
    namespace_in(Path::new(FILE))
}

fn namespace_in(file: &Path) -> Option<String> {
    let name = fs::read_to_string(file).ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_is_the_text_of_the_file_unless_that_is_empty() {
        let file = std::env::temp_dir().join(format!("namespace-{}", std::process::id()));
        for (text, namespace) in [("operators\n", Some("operators")), ("\n", None)] {
            fs::write(&file, text).expect("a file");
            assert_eq!(namespace_in(&file).as_deref(), namespace);
        }
        fs::remove_file(&file).expect("the file");
        assert_eq!(namespace_in(&file), None);
    }
}
