//! The client configurations in a ValidatingWebhookConfiguration and a CustomResourceDefinition, as
//! JSON: reads and replaces their caBundles. All other fields stay unchanged. Pure.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::ApiResource;
use serde_json::{Value, json};

use super::calls::ObjectRef;
use super::identity::Authority;

/// An existing object that references the webhook server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registered {
    /// A `ValidatingWebhookConfiguration`, by name.
    Validating(String),
    /// A `CustomResourceDefinition` with a conversion webhook, by name.
    Converted(String),
}

impl Registered {
    /// A webhook configuration and these CRDs.
    pub fn all(crds: impl IntoIterator<Item = String>, configuration: &str) -> Vec<Self> {
        let crds = crds.into_iter().map(Self::Converted);
        crds.chain([Self::Validating(configuration.to_owned())])
            .collect()
    }

    /// The type and the name of the object.
    pub(super) fn object_ref(&self) -> ObjectRef {
        let (name, resource) = match self {
            Self::Validating(name) => {
                let resource = ApiResource::erase::<ValidatingWebhookConfiguration>(&());
                (name, resource)
            }
            Self::Converted(name) => (name, ApiResource::erase::<CustomResourceDefinition>(&())),
        };
        ObjectRef::new_with(name, resource)
    }

    /// JSON pointers to all `clientConfig`s that the object may have.
    pub(super) fn clients(&self, object: &Value) -> Vec<String> {
        match self {
            Self::Validating(_) => {
                let webhooks = object.get("webhooks").and_then(Value::as_array);
                let indexes = 0..webhooks.map_or(0, Vec::len);
                let pointers = indexes.map(|index| format!("/webhooks/{index}/clientConfig"));
                pointers.collect()
            }
            Self::Converted(_) => vec!["/spec/conversion/webhook/clientConfig".to_owned()],
        }
    }

    fn service_clients(&self, object: &Value) -> Vec<String> {
        let mut clients = self.clients(object);
        clients.retain(|client| {
            let service = object.pointer(&format!("{client}/service"));
            service.is_some_and(Value::is_object)
        });
        clients
    }

    /// The authorities that all of its Service clients trust. `None` without such a client: the CRD of
    /// a single version, or one with a URL, which is not managed here.
    pub(super) fn trusted(&self, object: &Value) -> Option<Vec<Authority>> {
        let clients = self.service_clients(object).into_iter();
        let bundles = clients.map(|client| bundle(object.pointer(&client)));
        bundles.reduce(|mut trusted, bundle| {
            trusted.retain(|authority| bundle.contains(authority));
            trusted
        })
    }

    /// Whether it is a CRD with several versions and no conversion webhook: reading a resource in another
    /// version than the stored one loses fields.
    pub(super) fn is_unconverted(&self, object: &Value) -> bool {
        let versions = object.pointer("/spec/versions").and_then(Value::as_array);
        let strategy = object.pointer("/spec/conversion/strategy");
        matches!(self, Self::Converted(_))
            && versions.is_some_and(|versions| versions.len() > 1)
            && strategy.and_then(Value::as_str) != Some("Webhook")
    }

    /// Writes `bundle` (PEM) for every Service client; returns whether the object changed.
    pub(super) fn trust(&self, object: &mut Value, bundle: &str) -> bool {
        let bundle = json!(ByteString(bundle.as_bytes().to_vec()));
        let mut changed = false;
        for client in self.service_clients(object) {
            changed |= set(object, &client, "caBundle", bundle.clone()).as_ref() != Some(&bundle);
        }
        changed
    }
}

fn bundle(client: Option<&Value>) -> Vec<Authority> {
    let bundle = client.and_then(|client| client.get("caBundle"));
    let bundle = serde_json::from_value::<ByteString>(bundle.cloned().unwrap_or_default());
    bundle.map_or_else(|_| Vec::new(), |bundle| Authority::all_in(&bundle.0))
}

/// Sets a field of `object` below the pointer `parent`, or removes it if the value is null.
/// Returns the previous value.
pub(super) fn set(object: &mut Value, parent: &str, key: &str, value: Value) -> Option<Value> {
    let parent = object.pointer_mut(parent)?.as_object_mut()?;
    match value {
        Value::Null => parent.remove(key),
        value => parent.insert(key.to_owned(), value),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::identity::Identity;
    use super::super::issue::issue;
    use super::*;

    fn made() -> Identity {
        issue(&["a.b.svc".to_owned()], Timestamp::now()).unwrap()
    }

    fn service() -> Value {
        json!({"service": {"namespace": "b", "name": "a", "path": "/x", "port": 443}})
    }

    #[test]
    fn every_webhook_of_a_configuration_gets_the_bundle_and_nothing_else_changes() {
        let validating = Registered::Validating("v".to_owned());
        let (one, two) = (made(), made());
        let mut object = json!({
            "metadata": {"name": "v", "resourceVersion": "7"},
            "webhooks": [
                {"name": "x", "clientConfig": service(), "unknown": [1]},
                {"name": "y", "clientConfig": service()},
                {"name": "z", "clientConfig": {"url": "https://elsewhere"}},
            ],
        });
        assert_eq!(validating.trusted(&object), Some(Vec::new()));
        let before = object.clone();
        let both = format!("{}{}", one.authority.to_pem(), two.authority.to_pem());
        assert!(validating.trust(&mut object, &both));
        assert!(!validating.trust(&mut object, &both), "it is there");
        assert_eq!(
            validating.trusted(&object),
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
        let validating = Registered::Validating("v".to_owned());
        let identity = made();
        let mut object =
            json!({"webhooks": [{"clientConfig": service()}, {"clientConfig": service()}]});
        validating.trust(&mut object, &identity.authority.to_pem());
        object["webhooks"][1]["clientConfig"]["caBundle"] = json!("bm90IFBFTQ==");
        assert_eq!(validating.trusted(&object), Some(Vec::new()));
    }

    #[test]
    fn a_crd_without_a_service_is_left_alone() {
        let crd = Registered::Converted("c".to_owned());
        for conversion in [
            json!({"strategy": "None"}),
            json!({"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://127.0.0.1:1/convert"}}}),
        ] {
            let mut object = json!({"spec": {"conversion": conversion}});
            let before = object.clone();
            assert_eq!(crd.trusted(&object), None);
            assert!(!crd.trust(&mut object, &made().authority.to_pem()));
            assert_eq!(object, before);
        }
    }

    #[test]
    fn a_crd_with_a_service_gets_the_bundle() {
        let crd = Registered::Converted("c".to_owned());
        let identity = made();
        let mut object = json!({"spec": {"conversion": {
            "strategy": "Webhook",
            "webhook": {"clientConfig": service(), "conversionReviewVersions": ["v1"]},
        }}});
        assert!(crd.trust(&mut object, &identity.authority.to_pem()));
        assert_eq!(crd.trusted(&object), Some(vec![identity.authority.clone()]));
    }
}
