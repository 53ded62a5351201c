//! Checks the references between rendered objects: every named object exists, and selectors and ports
//! match. Returns the problems as text.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Cluster-scoped kinds.
const CLUSTER_WIDE: [&str; 7] = [
    "Namespace",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "ValidatingWebhookConfiguration",
    "ClusterCatalog",
    "ClusterExtension",
];

/// The kind of an object, the path to a name in it (`*` stands for each item), and the kind that it names.
const NAMES: &str = "
ClusterRoleBinding /roleRef/name ClusterRole
ClusterRoleBinding /subjects/*/name ServiceAccount
RoleBinding /subjects/*/name ServiceAccount
Deployment /spec/template/spec/serviceAccountName ServiceAccount
Deployment /spec/template/spec/volumes/*/secret/secretName Secret
Job /spec/template/spec/serviceAccountName ServiceAccount
ValidatingWebhookConfiguration /webhooks/*/clientConfig/service/name Service
CustomResourceDefinition /spec/conversion/webhook/clientConfig/service/name Service
Certificate /spec/issuerRef/name Issuer
Issuer /spec/ca/secretName Secret
ServiceMonitor /spec/endpoints/*/authorization/credentials/name Secret
Secret /metadata/annotations/kubernetes.io~1service-account.name ServiceAccount
Subscription /spec/source CatalogSource
ClusterExtension /spec/serviceAccount/name ServiceAccount
ClusterExtension /spec/source/catalog/selector/matchLabels/olm.operatorframework.io~1metadata.name ClusterCatalog";

/// The kind of an object, its selector of pods, and its ports of these pods.
const PODS: &str = "
Deployment /spec/selector/matchLabels /spec/template/spec/containers/*/livenessProbe/httpGet/port
Deployment /spec/selector/matchLabels /spec/template/spec/containers/*/readinessProbe/httpGet/port
Service /spec/selector /spec/ports/*/targetPort
PodDisruptionBudget /spec/selector/matchLabels /
NetworkPolicy /spec/podSelector/matchLabels /spec/ingress/*/ports/*/port";

/// Returns the values at a path, in which `*` stands for each item.
fn values<'a>(object: &'a Value, path: &str) -> Vec<&'a Value> {
    match path.split_once("/*") {
        None => object.pointer(path).into_iter().collect(),
        Some((list, rest)) => {
            let items = object.pointer(list).and_then(Value::as_array);
            let items = items.into_iter().flatten();
            items.flat_map(|it| values(it, rest)).collect()
        }
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Reports whether `selector` is not empty and `labels` have all of it.
fn selects(selector: Option<&Value>, labels: &Value) -> bool {
    let empty = Map::new();
    let selector = selector.and_then(Value::as_object).unwrap_or(&empty);
    !selector.is_empty() && selector.iter().all(|(key, value)| labels[key] == *value)
}

/// The rows of a table for one kind.
fn rows(table: &'static str, kind: &str) -> impl Iterator<Item = [&'static str; 2]> {
    let rows = table.lines().map(|row| row.split(' ').collect::<Vec<_>>());
    rows.filter_map(move |row| match row[..] {
        [of, one, other] if *kind == *of => Some([one, other]),
        _ => None,
    })
}

pub(crate) struct Graph {
    objects: Vec<Value>,
}

impl Graph {
    pub(crate) fn of(objects: Vec<Value>) -> Self {
        Self { objects }
    }

    /// Returns every problem, each with the object's kind and name.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut seen = BTreeSet::new();
        for object in &self.objects {
            let kind = object["kind"].as_str().unwrap_or_default();
            let mut found = self.unresolved(kind, object);
            found.extend(self.unselected(kind, object));
            if !seen.insert((kind, object["metadata"]["namespace"].as_str(), name(object))) {
                found.push("it is there twice".to_owned());
            }
            let name = name(object);
            problems.extend(found.iter().map(|it| format!("{kind} {name}: {it}")));
        }
        problems
    }

    fn all<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects.iter().filter(move |it| it["kind"] == kind)
    }

    /// A Secret may be made of a Certificate.
    fn has(&self, kind: &str, called: &Value) -> bool {
        let mut certificates = self.all("Certificate").map(|it| &it["spec"]["secretName"]);
        self.all(kind).any(|it| it["metadata"]["name"] == *called)
            || kind == "Secret" && certificates.any(|it| it == called)
    }

    /// Names of objects that do not exist.
    fn unresolved(&self, kind: &str, object: &Value) -> Vec<String> {
        let mut named: Vec<(&str, Value)> = Vec::new();
        for [path, target] in rows(NAMES, kind) {
            let names = values(object, path).into_iter();
            named.extend(names.map(|it| (target, it.clone())));
        }
        let role = &object["roleRef"];
        if let ("RoleBinding", Some(of)) = (kind, role["kind"].as_str()) {
            named.push((of, role["name"].clone()));
        }
        for host in values(object, "/spec/dnsNames/*") {
            let service = host.as_str().and_then(|it| it.split('.').next());
            named.push(("Service", service.into()));
        }
        let authority = "/metadata/annotations/cert-manager.io~1inject-ca-from";
        for authority in values(object, authority) {
            let name = authority.as_str().and_then(|it| it.split('/').nth(1));
            named.push(("Certificate", name.into()));
        }
        let mounts = "/spec/template/spec/containers/*/volumeMounts/*/name";
        for mount in values(object, mounts) {
            let mut volumes = values(object, "/spec/template/spec/volumes/*/name").into_iter();
            if !volumes.any(|it| it == mount) {
                named.push(("volume", mount.clone()));
            }
        }
        for path in [
            "/metadata/namespace",
            "/subjects/*/namespace",
            "/spec/sourceNamespace",
            "/webhooks/*/clientConfig/service/namespace",
            "/spec/conversion/webhook/clientConfig/service/namespace",
        ] {
            let names = values(object, path).into_iter();
            named.extend(names.map(|it| ("Namespace", it.clone())));
        }
        if CLUSTER_WIDE.contains(&kind) == object["metadata"]["namespace"].is_string() {
            named.push(("Namespace", Value::Null));
        }
        named.retain(|(kind, name)| !self.has(kind, name));
        let missing = named.iter().map(|(kind, name)| format!("no {kind} {name}"));
        missing.collect()
    }

    /// Selectors without pods, and ports that these pods do not have.
    fn unselected(&self, kind: &str, object: &Value) -> Vec<String> {
        let mut problems = Vec::new();
        for [selector, ports] in rows(PODS, kind) {
            let selector = object.pointer(selector);
            let mut selected = self.all("Deployment");
            let pods = selected
                .find(|it| selects(selector, &it["spec"]["template"]["metadata"]["labels"]));
            let Some(pods) = pods else {
                problems.push("it selects no pods".to_owned());
                continue;
            };
            let offered = values(pods, "/spec/template/spec/containers/*/ports/*");
            for port in values(object, ports) {
                let is_offered = |it: &&Value| it["name"] == *port || it["containerPort"] == *port;
                if !offered.iter().any(is_offered) {
                    problems.push(format!("no pod has the port {port}"));
                }
            }
        }
        if kind == "ServiceMonitor" {
            let selector = object.pointer("/spec/selector/matchLabels");
            let mut services = self.all("Service");
            let service = services.find(|it| selects(selector, &it["metadata"]["labels"]));
            let ports = service.map_or(Vec::new(), |it| values(it, "/spec/ports/*/name"));
            let named = values(object, "/spec/endpoints/*/port");
            let missing = named.iter().filter(|it| !ports.contains(it));
            problems.extend(missing.map(|it| format!("no Service has the port {it}")));
        }
        problems
    }
}
