//! Paths of objects in the API server.

/// The location of an object on the API server.
#[derive(Debug, Clone, Copy)]
pub struct Location<'a> {
    /// Group and version, e.g. `apps/v1`, or `v1` of the core.
    pub api_version: &'a str,
    /// Plural, e.g. `deployments`.
    pub plural: &'a str,
    /// Namespace; empty for a cluster-scoped type.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
}

impl Location<'_> {
    /// The path of all objects of the type in the namespace.
    pub fn collection(&self) -> String {
        let root = match self.api_version.contains('/') {
            true => "apis",
            false => "api",
        };
        let namespaces = match self.namespace {
            "" => String::new(),
            namespace => format!("/namespaces/{namespace}"),
        };
        format!("/{root}/{}{namespaces}/{}", self.api_version, self.plural)
    }

    /// The path of the object.
    pub fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.name)
    }
}
