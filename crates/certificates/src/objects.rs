//! The objects whose client configurations name the webhook server: ValidatingWebhookConfigurations and
//! CustomResourceDefinitions, as JSON. Reads and replaces their caBundles; all other fields stay unchanged.
//! Also the RBAC rules of `--cert-mode=self-managed`. Pure.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::runtime::reflector;
use serde_json::{Value, json};

use super::calls::ObjectRef;
use super::identity::Authority;

/// An existing object that references the webhook server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered(pub(super) ObjectRef);

impl Registered {
    /// The `ValidatingWebhookConfiguration` with this name.
    pub fn validating(name: &str) -> Self {
        Self(reflector::ObjectRef::<ValidatingWebhookConfiguration>::new(name).erase())
    }

    /// The `CustomResourceDefinition` with this name, which may have a conversion webhook.
    pub fn converted(name: &str) -> Self {
        Self(reflector::ObjectRef::<CustomResourceDefinition>::new(name).erase())
    }

    /// A webhook configuration and these CRDs.
    pub fn all(crds: impl IntoIterator<Item = String>, configuration: &str) -> Vec<Self> {
        let crds = crds.into_iter().map(|name| Self::converted(&name));
        crds.chain([Self::validating(configuration)]).collect()
    }
}

/// The Service of the webhook server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Service {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Service {
    /// The names at which the API server may call it; the API server uses the first.
    pub(super) fn host_names(&self) -> Vec<String> {
        let Self { namespace, name } = self;
        ["svc", "svc.cluster.local"]
            .map(|suffix| format!("{name}.{namespace}.{suffix}"))
            .to_vec()
    }

    /// The client configurations in `object` that name this Service. Those of another Service, or with a
    /// URL, are not managed here.
    fn clients<'a>(&self, object: &'a mut Value) -> Vec<&'a mut Value> {
        let mut clients: Vec<_> = match object.get("kind").and_then(Value::as_str) {
            Some("CustomResourceDefinition") => {
                let client = object.pointer_mut("/spec/conversion/webhook/clientConfig");
                client.into_iter().collect()
            }
            _ => {
                let webhooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
                let webhooks = webhooks.into_iter().flatten();
                webhooks
                    .filter_map(|it| it.get_mut("clientConfig"))
                    .collect()
            }
        };
        clients.retain(|client| {
            let is = |pointer, expected: &str| {
                client.pointer(pointer).and_then(Value::as_str) == Some(expected)
            };
            is("/service/namespace", &self.namespace) && is("/service/name", &self.name)
        });
        clients
    }

    /// The authorities that all of its clients in `object` trust; `None` if it has none.
    pub(super) fn trusted(&self, object: &mut Value) -> Option<Vec<Authority>> {
        let bundles = self.clients(object).into_iter().map(|client| {
            let bundle = client.get("caBundle").cloned().unwrap_or_default();
            let bundle = serde_json::from_value::<ByteString>(bundle).unwrap_or_default();
            Authority::all_in(&bundle.0)
        });
        bundles.reduce(|mut trusted, bundle| {
            trusted.retain(|authority| bundle.contains(authority));
            trusted
        })
    }

    /// Writes `bundle` (PEM) for each of its clients in `object`; returns whether the object changed.
    pub(super) fn trust(&self, object: &mut Value, bundle: &str) -> bool {
        let bundle = json!(ByteString(bundle.as_bytes().to_vec()));
        let mut changed = false;
        for client in self
            .clients(object)
            .into_iter()
            .filter_map(Value::as_object_mut)
        {
            let before = client.insert("caBundle".to_owned(), bundle.clone());
            changed |= before.as_ref() != Some(&bundle);
        }
        changed
    }
}

/// Whether `object` is a CRD of one version, which needs no conversion webhook.
pub(super) fn has_one_version(object: &Value) -> bool {
    let versions = object.pointer("/spec/versions").and_then(Value::as_array);
    versions.is_some_and(|versions| versions.len() == 1)
}

/// Read and update existing objects, by name.
const OWN: [&str; 4] = ["get", "list", "watch", "update"];

/// Rules for the replicas' own namespace: the Secret `name`.
pub fn secret_rights(name: &str) -> Vec<PolicyRule> {
    vec![
        // RBAC cannot restrict create by name.
        rule("", "secrets", None, &["create"]),
        rule("", "secrets", Some(name), &OWN),
    ]
}

/// Cluster-wide rules: read and update the objects with a caBundle, each by name, without create and
/// patch.
pub fn registered_rights(registered: &[Registered]) -> Vec<PolicyRule> {
    let objects = registered.iter();
    objects
        .map(|Registered(at)| rule(&at.dyntype.group, &at.dyntype.plural, Some(&at.name), &OWN))
        .collect()
}

fn rule(group: &str, resource: &str, name: Option<&str>, verbs: &[&str]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        resource_names: name.map(|name| vec![name.to_owned()]),
        verbs: verbs.iter().map(ToString::to_string).collect(),
        ..PolicyRule::default()
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::identity::Identity;
    use super::super::identity::issue;
    use super::*;

    const CRD: &str = "CustomResourceDefinition";

    fn made() -> Identity {
        issue(&["a.b.svc".to_owned()], Timestamp::now()).unwrap()
    }

    fn ours() -> Service {
        Service {
            namespace: "b".to_owned(),
            name: "a".to_owned(),
        }
    }

    fn service() -> Value {
        json!({"service": {"namespace": "b", "name": "a", "path": "/x", "port": 443}})
    }

    #[test]
    fn the_certificate_is_for_the_names_of_the_service() {
        assert_eq!(ours().host_names(), ["a.b.svc", "a.b.svc.cluster.local"]);
    }

    #[test]
    fn every_webhook_of_a_configuration_gets_the_bundle_and_nothing_else_changes() {
        let (one, two) = (made(), made());
        let mut object = json!({
            "metadata": {"name": "v", "resourceVersion": "7"},
            "webhooks": [
                {"name": "x", "clientConfig": service(), "unknown": [1]},
                {"name": "y", "clientConfig": service()},
                {"name": "z", "clientConfig": {"url": "https://elsewhere"}},
            ],
        });
        assert_eq!(ours().trusted(&mut object), Some(Vec::new()));
        let before = object.clone();
        let both = format!("{}{}", one.authority.to_pem(), two.authority.to_pem());
        assert!(ours().trust(&mut object, &both));
        assert!(!ours().trust(&mut object, &both), "it is there");
        assert_eq!(
            ours().trusted(&mut object),
            Some(vec![one.authority.clone(), two.authority.clone()])
        );
        for webhook in object["webhooks"].as_array_mut().unwrap() {
            webhook["clientConfig"]
                .as_object_mut()
                .unwrap()
                .remove("caBundle");
        }
        assert_eq!(object, before);
    }

    #[test]
    fn an_authority_counts_only_when_every_webhook_trusts_it() {
        let identity = made();
        let mut object =
            json!({"webhooks": [{"clientConfig": service()}, {"clientConfig": service()}]});
        ours().trust(&mut object, &identity.authority.to_pem());
        object["webhooks"][1]["clientConfig"]["caBundle"] = json!("bm90IFBFTQ==");
        assert_eq!(ours().trusted(&mut object), Some(Vec::new()));
    }

    #[test]
    fn a_crd_with_a_service_gets_the_bundle() {
        let identity = made();
        let mut object = json!({"kind": CRD, "spec": {"conversion": {
            "strategy": "Webhook",
            "webhook": {"clientConfig": service(), "conversionReviewVersions": ["v1"]},
        }}});
        assert!(ours().trust(&mut object, &identity.authority.to_pem()));
        assert_eq!(
            ours().trusted(&mut object),
            Some(vec![identity.authority.clone()])
        );
    }

    /// Another manager, or a proxy of the user, has this Service and its own authority.
    #[test]
    fn a_client_of_another_service_is_left_alone() {
        for pointer in ["/service/name", "/service/namespace"] {
            let mut client = service();
            *client.pointer_mut(pointer).unwrap() = json!("other");
            client["caBundle"] = json!("b3RoZXI=");
            for mut object in [
                json!({"kind": CRD, "spec": {"conversion": {"webhook": {"clientConfig": client}}}}),
                json!({"webhooks": [{"clientConfig": client}]}),
            ] {
                let before = object.clone();
                assert_eq!(ours().trusted(&mut object), None);
                assert!(!ours().trust(&mut object, &made().authority.to_pem()));
                assert_eq!(object, before);
            }
            // Beside one of ours.
            let mut object =
                json!({"webhooks": [{"clientConfig": service()}, {"clientConfig": client}]});
            let authority = made().authority;
            assert!(ours().trust(&mut object, &authority.to_pem()));
            assert_eq!(object["webhooks"][1]["clientConfig"], client);
            assert_eq!(ours().trusted(&mut object), Some(vec![authority]));
        }
    }
}
