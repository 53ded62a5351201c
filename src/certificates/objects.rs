//! The client configurations in a ValidatingWebhookConfiguration and a CustomResourceDefinition, as
//! JSON: reads and replaces their caBundles. All other fields stay unchanged. Pure.

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::calls::Place;
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
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Validating(name) | Self::Converted(name) => name,
        }
    }

    /// The location of the object.
    pub(super) fn place(&self) -> Place {
        let (group, plural) = match self {
            Self::Validating(_) => (
                "admissionregistration.k8s.io",
                "validatingwebhookconfigurations",
            ),
            Self::Converted(_) => ("apiextensions.k8s.io", "customresourcedefinitions"),
        };
        Place {
            group,
            namespace: None,
            plural,
            name: self.name().to_owned(),
        }
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Validating(_) => "ValidatingWebhookConfiguration",
            Self::Converted(_) => "CustomResourceDefinition",
        }
    }

    /// The authorities that all of its Service clients trust. `None` without such a client: the CRD of
    /// a single version, or one with a URL, which is not managed here.
    pub(super) fn trusted(&self, object: &Value) -> Option<Vec<Authority>> {
        let mut clients = self.service_clients(object).into_iter();
        let mut trusted = bundle(clients.next()?);
        for client in clients {
            let bundle = bundle(client);
            trusted.retain(|authority| bundle.contains(authority));
        }
        Some(trusted)
    }

    /// Writes `bundle` (PEM) for every Service client; returns whether the object changed.
    pub(super) fn trust(&self, object: &mut Value, bundle: &str) -> bool {
        let bundle = json!(ByteString(bundle.as_bytes().to_vec()));
        let mut changed = false;
        for client in self
            .clients_mut(object)
            .into_iter()
            .filter(|it| is_service(it))
        {
            if client.get("caBundle") != Some(&bundle)
                && let Some(client) = client.as_object_mut()
            {
                client.insert("caBundle".to_owned(), bundle.clone());
                changed = true;
            }
        }
        changed
    }

    fn service_clients<'a>(&self, object: &'a Value) -> Vec<&'a Value> {
        let clients: Vec<&Value> = match self {
            Self::Validating(_) => {
                let webhooks = object.get("webhooks").and_then(Value::as_array);
                let webhooks = webhooks.into_iter().flatten();
                webhooks.filter_map(|it| it.get("clientConfig")).collect()
            }
            Self::Converted(_) => object
                .pointer("/spec/conversion/webhook/clientConfig")
                .into_iter()
                .collect(),
        };
        clients.into_iter().filter(|it| is_service(it)).collect()
    }

    /// All `clientConfig`s in the object.
    fn clients_mut<'a>(&self, object: &'a mut Value) -> Vec<&'a mut Value> {
        match self {
            Self::Validating(_) => {
                let webhooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
                let webhooks = webhooks.into_iter().flatten();
                webhooks
                    .filter_map(|it| it.get_mut("clientConfig"))
                    .collect()
            }
            Self::Converted(_) => object
                .pointer_mut("/spec/conversion/webhook/clientConfig")
                .into_iter()
                .collect(),
        }
    }
}

fn is_service(client: &Value) -> bool {
    client.get("service").is_some_and(Value::is_object)
}

fn bundle(client: &Value) -> Vec<Authority> {
    let bundle = client.get("caBundle").cloned().unwrap_or_default();
    serde_json::from_value::<ByteString>(bundle)
        .map(|bundle| Authority::all_in(&bundle.0))
        .unwrap_or_default()
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
        let both = format!("{}{}", one.authority().to_pem(), two.authority().to_pem());
        assert!(validating.trust(&mut object, &both));
        assert!(!validating.trust(&mut object, &both), "it is there");
        assert_eq!(
            validating.trusted(&object),
            Some(vec![one.authority().clone(), two.authority().clone()])
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
        validating.trust(&mut object, &identity.authority().to_pem());
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
            assert!(!crd.trust(&mut object, &made().authority().to_pem()));
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
        assert!(crd.trust(&mut object, &identity.authority().to_pem()));
        assert_eq!(
            crd.trusted(&object),
            Some(vec![identity.authority().clone()])
        );
    }
}
