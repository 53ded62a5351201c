//! Checks the references between rendered objects: every named object exists, and selectors, ports
//! and mounts match. Knows the kinds that we install; returns the problems as text.

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

pub(crate) struct Graph {
    objects: Vec<Value>,
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn items<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

fn kind(object: &Value) -> &str {
    text(object, "/kind")
}

/// Reports whether `selector` is not empty and `labels` have all of it.
fn selects(selector: Option<&Value>, labels: Option<&Value>) -> bool {
    let empty = Map::new();
    let map = |value: Option<&Value>| value.and_then(Value::as_object).unwrap_or(&empty).clone();
    let (selector, labels) = (map(selector), map(labels));
    !selector.is_empty()
        && selector
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
}

impl Graph {
    pub(crate) fn of(objects: Vec<Value>) -> Self {
        Self { objects }
    }

    /// Returns every problem, each with the object's kind and name.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = self.duplicates();
        for object in &self.objects {
            let found = match kind(object) {
                "RoleBinding" | "ClusterRoleBinding" => self.binding(object),
                "Deployment" => self.deployment(object),
                "Job" => self.account(object).into_iter().collect(),
                "Service" => self.service(object),
                "PodDisruptionBudget" => self.pods(object, "/spec/selector/matchLabels"),
                "NetworkPolicy" => self.network_policy(object),
                "ValidatingWebhookConfiguration" => items(object, "/webhooks")
                    .flat_map(|webhook| self.webhook_service(object, &webhook["clientConfig"]))
                    .collect(),
                "CustomResourceDefinition" => self.webhook_service(
                    object,
                    &object["spec"]["conversion"]["webhook"]["clientConfig"],
                ),
                "Certificate" => self.certificate(object),
                "Issuer" => self.issuer(object),
                "ServiceMonitor" => self.service_monitor(object),
                "Secret" => self.token(object),
                "Subscription" => self.subscription(object),
                "ClusterExtension" => self.extension(object),
                // These refer to no other object.
                "Namespace" | "ServiceAccount" | "Role" | "ClusterRole" | "PrometheusRule"
                | "CatalogSource" | "OperatorGroup" | "ClusterCatalog" => Vec::new(),
                other => vec![format!("unknown kind {other}")],
            };
            let home = self.check_namespace(object);
            let found = found.into_iter().chain(home);
            problems.extend(found.map(|it| format!("{} {}: {it}", kind(object), name(object))));
        }
        problems
    }

    fn find(&self, of_kind: &str, in_namespace: &str, called: &str) -> Option<&Value> {
        self.objects
            .iter()
            .find(|it| kind(it) == of_kind && namespace(it) == in_namespace && name(it) == called)
    }

    fn missing(&self, of_kind: &str, in_namespace: &str, called: &str) -> Option<String> {
        let found = self.find(of_kind, in_namespace, called);
        found
            .is_none()
            .then(|| format!("{of_kind} {in_namespace}/{called} does not exist"))
    }

    fn duplicates(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let mut twice = Vec::new();
        for object in &self.objects {
            if !seen.insert((kind(object), namespace(object), name(object))) {
                twice.push(format!("duplicate {} {}", kind(object), name(object)));
            }
        }
        twice
    }

    fn check_namespace(&self, object: &Value) -> Option<String> {
        let belongs = !CLUSTER_WIDE.contains(&kind(object));
        match (belongs, namespace(object)) {
            (true, "") => Some("it has no namespace".to_owned()),
            (false, "") => None,
            (false, _) => Some("it has a namespace".to_owned()),
            (true, _) => {
                // Objects that are installed separately name it in the other set.
                let home = namespace(object);
                self.missing("Namespace", "", home)
            }
        }
    }

    fn binding(&self, object: &Value) -> Vec<String> {
        let role = &object["roleRef"];
        let home = match kind(role) {
            "ClusterRole" => "",
            _ => namespace(object),
        };
        let role = self.missing(kind(role), home, text(role, "/name"));
        let subjects = items(object, "/subjects");
        let subjects = subjects.filter_map(|subject| {
            self.missing(
                kind(subject),
                text(subject, "/namespace"),
                text(subject, "/name"),
            )
        });
        role.into_iter().chain(subjects).collect()
    }

    /// Checks the ServiceAccount of the pods.
    fn account(&self, object: &Value) -> Option<String> {
        let account = text(object, "/spec/template/spec/serviceAccountName");
        self.missing("ServiceAccount", namespace(object), account)
    }

    fn deployment(&self, object: &Value) -> Vec<String> {
        let pod = &object["spec"]["template"]["spec"];
        let home = namespace(object);
        let mut problems = Vec::new();
        problems.extend(self.account(object));
        let (selector, labels) = (
            object.pointer("/spec/selector/matchLabels"),
            object.pointer("/spec/template/metadata/labels"),
        );
        if !selects(selector, labels) {
            problems.push("it does not select its own pods".to_owned());
        }
        for volume in items(pod, "/volumes") {
            let secret = text(volume, "/secret/secretName");
            if self.secret_maker(home, secret).is_none() {
                problems.push(format!("nothing creates the Secret {secret}"));
            }
        }
        for container in items(pod, "/containers") {
            for mount in items(container, "/volumeMounts") {
                let mut volumes = items(pod, "/volumes");
                if !volumes.any(|volume| volume["name"] == mount["name"]) {
                    problems.push(format!("volume {} does not exist", mount["name"]));
                }
            }
            for probe in ["livenessProbe", "readinessProbe"] {
                let port = &container[probe]["httpGet"]["port"];
                if !items(container, "/ports").any(|it| it["name"] == *port) {
                    problems.push(format!("{probe} refers to a missing port {port}"));
                }
            }
        }
        problems
    }

    /// Returns what creates a Secret: the Secret itself, or its Certificate.
    fn secret_maker(&self, home: &str, secret: &str) -> Option<&Value> {
        let certificate = self.objects.iter().find(|it| {
            kind(it) == "Certificate"
                && namespace(it) == home
                && text(it, "/spec/secretName") == secret
        });
        self.find("Secret", home, secret).or(certificate)
    }

    /// Returns the Deployments whose pods match `selector`.
    fn selected(&self, home: &str, selector: Option<&Value>) -> Vec<&Value> {
        let deployments = self.objects.iter().filter(|it| {
            kind(it) == "Deployment"
                && namespace(it) == home
                && selects(selector, it.pointer("/spec/template/metadata/labels"))
        });
        deployments.collect()
    }

    fn pods(&self, object: &Value, pointer: &str) -> Vec<String> {
        match self
            .selected(namespace(object), object.pointer(pointer))
            .len()
        {
            1 => Vec::new(),
            count => vec![format!("it selects {count} Deployments")],
        }
    }

    /// Reports whether the selected pods have this port.
    fn port(&self, home: &str, selector: Option<&Value>, port: &Value) -> Option<String> {
        let deployments = self.selected(home, selector);
        let mut containers = deployments
            .iter()
            .flat_map(|it| items(it, "/spec/template/spec/containers"));
        let has = containers.any(|container| {
            items(container, "/ports").any(|it| it["name"] == *port || it["containerPort"] == *port)
        });
        (!has).then(|| format!("no pod has the port {port}"))
    }

    fn service(&self, object: &Value) -> Vec<String> {
        let mut problems = self.pods(object, "/spec/selector");
        let selector = object.pointer("/spec/selector");
        for port in items(object, "/spec/ports") {
            problems.extend(self.port(namespace(object), selector, &port["targetPort"]));
        }
        problems
    }

    fn network_policy(&self, object: &Value) -> Vec<String> {
        let mut problems = self.pods(object, "/spec/podSelector/matchLabels");
        let selector = object.pointer("/spec/podSelector/matchLabels");
        for rule in items(object, "/spec/ingress") {
            for port in items(rule, "/ports") {
                problems.extend(self.port(namespace(object), selector, &port["port"]));
            }
        }
        problems
    }

    /// Checks that a webhook's Service has the port. If cert-manager issues the certificate, it must
    /// be for that Service, mounted, and trusted by the caller.
    fn webhook_service(&self, object: &Value, client: &Value) -> Vec<String> {
        let target = &client["service"];
        let (home, called) = (text(target, "/namespace"), text(target, "/name"));
        let Some(service) = self.find("Service", home, called) else {
            return vec![format!("Service {home}/{called} does not exist")];
        };
        let mut problems = Vec::new();
        if !items(service, "/spec/ports").any(|port| port["port"] == target["port"]) {
            problems.push(format!("{called} has no port {}", target["port"]));
        }
        if !text(target, "/path").starts_with('/') {
            problems.push("its clientConfig has no path".to_owned());
        }
        let authority = text(
            object,
            "/metadata/annotations/cert-manager.io~1inject-ca-from",
        );
        let uses_cert_manager = self.objects.iter().any(|it| kind(it) == "Certificate");
        if !uses_cert_manager {
            return problems;
        }
        let (home, certificate) = authority.split_once('/').unwrap_or_default();
        match self.find("Certificate", home, certificate) {
            None => problems.push(format!(
                "it trusts the Certificate {authority:?}, which does not exist"
            )),
            Some(certificate) => {
                let host = format!("{called}.{}.svc", text(target, "/namespace"));
                if !items(certificate, "/spec/dnsNames").any(|name| *name == host) {
                    problems.push(format!("{authority} is not for {host}"));
                }
                let secret = text(certificate, "/spec/secretName");
                let mounted = self.selected(home, service.pointer("/spec/selector"));
                let mounted = mounted.iter().any(|it| {
                    items(it, "/spec/template/spec/volumes")
                        .any(|volume| text(volume, "/secret/secretName") == secret)
                });
                if !mounted {
                    problems.push(format!("{secret} is not mounted"));
                }
            }
        }
        problems
    }

    fn certificate(&self, object: &Value) -> Vec<String> {
        let home = namespace(object);
        let issuer = &object["spec"]["issuerRef"];
        let mut problems: Vec<_> = self
            .missing(kind(issuer), home, text(issuer, "/name"))
            .into_iter()
            .collect();
        for host in items(object, "/spec/dnsNames") {
            let mut parts = host.as_str().unwrap_or_default().split('.');
            let (service, of) = (
                parts.next().unwrap_or_default(),
                parts.next().unwrap_or_default(),
            );
            problems.extend(self.missing("Service", of, service));
        }
        problems
    }

    fn issuer(&self, object: &Value) -> Vec<String> {
        let secret = text(object, "/spec/ca/secretName");
        let self_signed = object["spec"]["selfSigned"].is_object();
        match self_signed || self.secret_maker(namespace(object), secret).is_some() {
            true => Vec::new(),
            false => vec![format!("nothing creates the Secret {secret}")],
        }
    }

    fn service_monitor(&self, object: &Value) -> Vec<String> {
        let selector = object.pointer("/spec/selector/matchLabels");
        let services: Vec<_> = self
            .objects
            .iter()
            .filter(|it| {
                kind(it) == "Service"
                    && namespace(it) == namespace(object)
                    && selects(selector, it.pointer("/metadata/labels"))
            })
            .collect();
        if services.is_empty() {
            return vec!["it selects no Service".to_owned()];
        }
        let mut problems = Vec::new();
        for endpoint in items(object, "/spec/endpoints") {
            for service in &services {
                if !items(service, "/spec/ports").any(|port| port["name"] == endpoint["port"]) {
                    problems.push(format!(
                        "{} has no port {}",
                        name(service),
                        endpoint["port"]
                    ));
                }
            }
            let secret = text(endpoint, "/authorization/credentials/name");
            problems.extend(self.missing("Secret", namespace(object), secret));
        }
        problems
    }

    fn token(&self, object: &Value) -> Vec<String> {
        let account = text(
            object,
            "/metadata/annotations/kubernetes.io~1service-account.name",
        );
        let missing = self.missing("ServiceAccount", namespace(object), account);
        missing.into_iter().collect()
    }

    fn subscription(&self, object: &Value) -> Vec<String> {
        let spec = &object["spec"];
        let (source, home) = (text(spec, "/source"), text(spec, "/sourceNamespace"));
        let missing = self.missing("CatalogSource", home, source);
        let mut problems: Vec<_> = missing.into_iter().collect();
        // OLM requires exactly one.
        let home = namespace(object);
        let is_group = |it: &&Value| kind(it) == "OperatorGroup" && namespace(it) == home;
        let groups = self.objects.iter().filter(is_group).count();
        if groups != 1 {
            problems.push(format!("its namespace has {groups} OperatorGroups"));
        }
        problems
    }

    fn extension(&self, object: &Value) -> Vec<String> {
        let spec = &object["spec"];
        let account = text(spec, "/serviceAccount/name");
        let labels = &spec["source"]["catalog"]["selector"]["matchLabels"];
        let catalog = text(labels, "/olm.operatorframework.io~1metadata.name");
        let account = self.missing("ServiceAccount", text(spec, "/namespace"), account);
        let catalog = self.missing("ClusterCatalog", "", catalog);
        account.into_iter().chain(catalog).collect()
    }
}
