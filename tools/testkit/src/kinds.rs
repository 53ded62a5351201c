//! The kinds of objects in the tests, with their API groups and plurals. Data only.

use serde_json::{Value, json};

/// A kind of object, with its API version and plural.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
}

/// A kind with this API version and plural.
pub const fn kind(api_version: &'static str, kind: &'static str, plural: &'static str) -> Kind {
    Kind {
        api_version,
        kind,
        plural,
    }
}

/// The API of roles.
pub const RBAC: &str = "rbac.authorization.k8s.io/v1";
pub const ROLE: Kind = kind(RBAC, "Role", "roles");
pub const ROLE_BINDING: Kind = kind(RBAC, "RoleBinding", "rolebindings");
pub const MEMCACHED: Kind = kind("cache.example.com/v1alpha1", "Memcached", "memcacheds");
pub const NGINX: Kind = kind("proxy.example.com/v1alpha1", "Nginx", "nginxes");
pub const ELASTIC_WEB: Kind = kind("elasticweb.example.com/v1", "ElasticWeb", "elasticwebs");
pub const HELLO_WORLD: Kind = kind("test.jiaozi.com/v1alpha1", "HelloWorld", "helloworlds");
/// The kinds of the original operators. A kind that was added later is not in the state that these left,
/// and no test names it.
pub const ORIGINAL_KINDS: [Kind; 4] = [MEMCACHED, NGINX, ELASTIC_WEB, HELLO_WORLD];

/// Reports whether one of [`ORIGINAL_KINDS`] has this name.
pub fn is_original(kind: &str) -> bool {
    ORIGINAL_KINDS.iter().any(|it| it.kind == kind)
}

pub const DEPLOYMENT: Kind = kind("apps/v1", "Deployment", "deployments");
pub const SERVICE: Kind = kind("v1", "Service", "services");
pub const POD: Kind = kind("v1", "Pod", "pods");
pub const QUOTA: Kind = kind("v1", "ResourceQuota", "resourcequotas");
pub const NAMESPACE: Kind = kind("v1", "Namespace", "namespaces");
pub const EVENT: Kind = kind("events.k8s.io/v1", "Event", "events");

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
