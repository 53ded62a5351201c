//! The kinds of objects that the tests speak of, by their places on the API server. Data only.

use serde_json::{Value, json};

/// A kind of object, by its place on the API server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
}

/// The API of roles.
pub(crate) const RBAC: &str = "rbac.authorization.k8s.io/v1";
pub(crate) const ROLE: Kind = Kind {
    api_version: RBAC,
    kind: "Role",
    plural: "roles",
};
pub(crate) const ROLE_BINDING: Kind = Kind {
    api_version: RBAC,
    kind: "RoleBinding",
    plural: "rolebindings",
};
pub(crate) const MEMCACHED: Kind = Kind {
    api_version: "cache.example.com/v1alpha1",
    kind: "Memcached",
    plural: "memcacheds",
};
pub(crate) const NGINX: Kind = Kind {
    api_version: "proxy.example.com/v1alpha1",
    kind: "Nginx",
    plural: "nginxes",
};
pub(crate) const ELASTIC_WEB: Kind = Kind {
    api_version: "elasticweb.example.com/v1",
    kind: "ElasticWeb",
    plural: "elasticwebs",
};
pub(crate) const HELLO_WORLD: Kind = Kind {
    api_version: "test.jiaozi.com/v1alpha1",
    kind: "HelloWorld",
    plural: "helloworlds",
};
pub(crate) const DEPLOYMENT: Kind = Kind {
    api_version: "apps/v1",
    kind: "Deployment",
    plural: "deployments",
};
pub(crate) const SERVICE: Kind = Kind {
    api_version: "v1",
    kind: "Service",
    plural: "services",
};
pub(crate) const POD: Kind = Kind {
    api_version: "v1",
    kind: "Pod",
    plural: "pods",
};
pub(crate) const QUOTA: Kind = Kind {
    api_version: "v1",
    kind: "ResourceQuota",
    plural: "resourcequotas",
};
pub(crate) const NAMESPACE: Kind = Kind {
    api_version: "v1",
    kind: "Namespace",
    plural: "namespaces",
};
pub(crate) const EVENT: Kind = Kind {
    api_version: "events.k8s.io/v1",
    kind: "Event",
    plural: "events",
};

impl Kind {
    pub(super) fn api(self) -> String {
        let root = if self.api_version.contains('/') {
            "apis"
        } else {
            "api"
        };
        format!("/{root}/{}", self.api_version)
    }

    /// An object of this kind.
    pub(crate) fn object(self, name: &str, spec: Value) -> Value {
        json!({
            "apiVersion": self.api_version, "kind": self.kind,
            "metadata": {"name": name}, "spec": spec,
        })
    }
}
