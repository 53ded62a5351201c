//! Paths of objects in the API server.

/// The location of an object on the API server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Location<'a> {
    /// Group and version, e.g. `apps/v1`, or `v1` of the core.
    pub(crate) api_version: &'a str,
    /// Plural, e.g. `deployments`.
    pub(crate) plural: &'a str,
    /// Namespace; empty for a cluster-scoped type.
    pub(crate) namespace: &'a str,
    /// Name.
    pub(crate) name: &'a str,
}

impl Location<'_> {
    /// The path of all objects of the type in the namespace.
    pub(crate) fn collection(&self) -> String {
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
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.name)
    }
}
