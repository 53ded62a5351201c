//! The objects whose client configurations name the webhook server: ValidatingWebhookConfigurations and
//! CustomResourceDefinitions, as JSON. Reads and replaces their caBundles; all other fields stay unchanged.
//! Pure.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::DynamicObject;
use kube::runtime::reflector;
use serde_json::{Value, json};

use super::SelfManaged;
use super::identity::{Authority, authorities};

/// Type, namespace and name of an object.
pub type ObjectRef = reflector::ObjectRef<DynamicObject>;

/// The objects that register webhooks: these CRDs, and a `ValidatingWebhookConfiguration`.
pub fn registered(crds: impl IntoIterator<Item = String>, configuration: &str) -> Vec<ObjectRef> {
    let crds = crds.into_iter();
    let crds =
        crds.map(|name| reflector::ObjectRef::<CustomResourceDefinition>::new(&name).erase());
    let configuration =
        reflector::ObjectRef::<ValidatingWebhookConfiguration>::new(configuration).erase();
    crds.chain([configuration]).collect()
}

impl SelfManaged {
    /// The client configurations in `object` that name the Service. Those of another Service, or with a
    /// URL, are not managed here.
    fn clients<'a>(&self, object: &'a mut Value) -> Vec<&'a mut Value> {
        let is_crd = object.pointer("/spec/conversion").is_some();
        let mut clients: Vec<_> = if is_crd {
            let client = object.pointer_mut("/spec/conversion/webhook/clientConfig");
            client.into_iter().collect()
        } else {
            let webhooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
            let webhooks = webhooks.into_iter().flatten();
            webhooks
                .filter_map(|it| it.get_mut("clientConfig"))
                .collect()
        };
        clients.retain(|client| {
            let service = client.get("service").unwrap_or(&Value::Null);
            let is = |field, expected: &str| service.get(field).is_some_and(|it| it == expected);
            is("namespace", &self.namespace) && is("name", &self.service)
        });
        clients
    }

    /// The authorities that all clients of the Service in `object` trust; `None` if there are none.
    pub(super) fn trusted(&self, object: &mut Value) -> Option<Vec<Authority>> {
        let bundles = self.clients(object).into_iter().map(|client| {
            let bundle = client.get("caBundle").cloned().unwrap_or_default();
            let bundle = serde_json::from_value::<ByteString>(bundle).unwrap_or_default();
            authorities(&bundle.0)
        });
        bundles.reduce(|mut trusted, bundle| {
            trusted.retain(|authority| bundle.contains(authority));
            trusted
        })
    }

    /// Writes `bundle` (PEM) for each client of the Service in `object`; returns whether the object changed.
    pub(super) fn trust(&self, object: &mut Value, bundle: &str) -> bool {
        let bundle = json!(ByteString(bundle.as_bytes().to_vec()));
        let mut changed = false;
        for client in self.clients(object) {
            changed |= client["caBundle"] != bundle;
            client["caBundle"] = bundle.clone();
        }
        changed
    }
}

/// Whether `object` is a CRD of one version, which needs no conversion webhook.
pub(super) fn has_one_version(object: &Value) -> bool {
    let versions = object.pointer("/spec/versions").and_then(Value::as_array);
    versions.is_some_and(|versions| versions.len() == 1)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::identity::Identity;
    use super::super::identity::{LIFE, bundle, issue};
    use super::*;

    const CRD: &str = "CustomResourceDefinition";

    fn made() -> Identity {
        issue(&["a.b.svc".to_owned()], Timestamp::now(), LIFE).unwrap()
    }

    fn pem(identity: &Identity) -> String {
        bundle(std::slice::from_ref(&identity.authority))
    }

    fn ours() -> SelfManaged {
        SelfManaged {
            namespace: "b".to_owned(),
            service: "a".to_owned(),
            ..crate::tests::options()
        }
    }

    fn service() -> Value {
        json!({"service": {"namespace": "b", "name": "a", "path": "/x", "port": 443}})
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
        let both = format!("{}{}", pem(&one), pem(&two));
        assert!(ours().trust(&mut object, &both));
        assert!(!ours().trust(&mut object, &both), "it is there");
        let expected = Some(vec![one.authority.clone(), two.authority.clone()]);
        assert_eq!(ours().trusted(&mut object), expected);
        for webhook in object["webhooks"].as_array_mut().unwrap() {
            let client = webhook["clientConfig"].as_object_mut();
            client.unwrap().remove("caBundle");
        }
        assert_eq!(object, before);
    }

    #[test]
    fn an_authority_counts_only_when_every_webhook_trusts_it() {
        let identity = made();
        let mut object =
            json!({"webhooks": [{"clientConfig": service()}, {"clientConfig": service()}]});
        ours().trust(&mut object, &pem(&identity));
        object["webhooks"][1]["clientConfig"]["caBundle"] = json!("bm90IFBFTQ==");
        assert_eq!(ours().trusted(&mut object), Some(Vec::new()));
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
                assert!(!ours().trust(&mut object, &pem(&made())));
                assert_eq!(object, before);
            }
            // Beside one of ours.
            let mut object =
                json!({"webhooks": [{"clientConfig": service()}, {"clientConfig": client}]});
            let authority = made().authority;
            assert!(ours().trust(&mut object, &bundle(std::slice::from_ref(&authority))));
            assert_eq!(object["webhooks"][1]["clientConfig"], client);
            assert_eq!(ours().trusted(&mut object), Some(vec![authority]));
        }
    }
}
