//! The kinds of objects in the tests, with their API groups and plurals. Data only.

use serde_json::{Value, json};

/// A kind of object, with its API version and plural.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
}

/// The API of roles.
pub const RBAC: &str = "rbac.authorization.k8s.io/v1";
pub const ROLE: Kind = Kind {
    api_version: RBAC,
    kind: "Role",
    plural: "roles",
};
pub const ROLE_BINDING: Kind = Kind {
    api_version: RBAC,
    kind: "RoleBinding",
    plural: "rolebindings",
};
pub const MEMCACHED: Kind = Kind {
    api_version: "cache.example.com/v1alpha1",
    kind: "Memcached",
    plural: "memcacheds",
};
pub const NGINX: Kind = Kind {
    api_version: "proxy.example.com/v1alpha1",
    kind: "Nginx",
    plural: "nginxes",
};
pub const ELASTIC_WEB: Kind = Kind {
    api_version: "elasticweb.example.com/v1",
    kind: "ElasticWeb",
    plural: "elasticwebs",
};
pub const HELLO_WORLD: Kind = Kind {
    api_version: "test.jiaozi.com/v1alpha1",
    kind: "HelloWorld",
    plural: "helloworlds",
};
/// The kinds of the original operators. A kind that was added later is not in the state that these left,
/// and no test names it.
pub const ORIGINAL_KINDS: [Kind; 4] = [MEMCACHED, NGINX, ELASTIC_WEB, HELLO_WORLD];

/// Reports whether one of [`ORIGINAL_KINDS`] has this name.
pub fn is_original(kind: &str) -> bool {
    ORIGINAL_KINDS.iter().any(|it| it.kind == kind)
}

pub const DEPLOYMENT: Kind = Kind {
    api_version: "apps/v1",
    kind: "Deployment",
    plural: "deployments",
};
pub const SERVICE: Kind = Kind {
    api_version: "v1",
    kind: "Service",
    plural: "services",
};
pub const POD: Kind = Kind {
    api_version: "v1",
    kind: "Pod",
    plural: "pods",
};
pub const QUOTA: Kind = Kind {
    api_version: "v1",
    kind: "ResourceQuota",
    plural: "resourcequotas",
};
pub const NAMESPACE: Kind = Kind {
    api_version: "v1",
    kind: "Namespace",
    plural: "namespaces",
};
pub const EVENT: Kind = Kind {
    api_version: "events.k8s.io/v1",
    kind: "Event",
    plural: "events",
};

impl Kind {
    pub(crate) fn api(self) -> String {
        let root = if self.api_version.contains('/') {
            "apis"
        } else {
            "api"
        };
        format!("/{root}/{}", self.api_version)
    }

    /// Returns an object of this kind.
    pub fn object(self, name: &str, spec: Value) -> Value {
        json!({
            "apiVersion": self.api_version, "kind": self.kind,
            "metadata": {"name": name}, "spec": spec,
        })
    }
}
