//! An object that calls the webhooks, with a URL in place of the Service. Pure, on JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// On a webhook configuration that was created here; `make install` deletes what a killed run left.
const LABEL: &str = "app.kubernetes.io/managed-by";
const CREATED_HERE: &str = "devcluster";

/// A CRD, or the webhook configuration.
pub(crate) struct Place {
    /// As in the manifests.
    packaged: Value,
    /// The same with the URL.
    desired: Value,
    /// What the URL replaced.
    replaced: Option<Value>,
}

/// What is to be done to the object in the cluster.
#[derive(Debug, PartialEq)]
pub(crate) enum Change {
    Create(Value),
    /// A JSON patch.
    Patch(Value),
    Delete,
}

impl Place {
    pub(crate) fn new(packaged: Value, url: &str, certificate: &str) -> Self {
        let bundle = STANDARD.encode(certificate);
        let mut desired = packaged.clone();
        for client in clients(&mut desired) {
            let path = client["service"]["path"].as_str().unwrap_or_default();
            *client = json!({"url": format!("{url}{path}"), "caBundle": bundle});
        }
        if !is_crd(&packaged) {
            desired["metadata"]["labels"][LABEL] = CREATED_HERE.into();
        }
        Self {
            packaged,
            desired,
            replaced: None,
        }
    }

    pub(crate) fn name(&self) -> String {
        name(&self.desired)
    }

    /// Has the object call the URL; keeps what it called. `make install` creates CRDs.
    pub(crate) fn registered(&mut self, found: Option<&Value>) -> Option<Change> {
        let is_crd = is_crd(&self.desired);
        let Some(found) = found else {
            return (!is_crd).then(|| Change::Create(self.desired.clone()));
        };
        let is_single = found["spec"]["versions"].as_array().map_or(0, Vec::len) < 2;
        if urls(found) == urls(&self.desired) || is_crd && is_single {
            return None;
        }
        // A URL was left by a run that was killed.
        let is_original = urls(found).is_empty();
        let original = if is_original { found } else { &self.packaged };
        self.replaced = original.pointer(self.part()).cloned();
        Some(self.patch(self.desired.pointer(self.part())))
    }

    /// Has an object that calls the URL call what that replaced, or deletes it if it was created here.
    pub(crate) fn restored(&mut self, found: Option<&Value>) -> Option<Change> {
        let found = found.filter(|found| urls(found) == urls(&self.desired))?;
        if found["metadata"]["labels"][LABEL] == CREATED_HERE {
            return Some(Change::Delete);
        }
        Some(self.patch(self.replaced.as_ref()))
    }

    fn patch(&self, value: Option<&Value>) -> Change {
        Change::Patch(json!([{"op": "replace", "path": self.part(), "value": value}]))
    }

    /// The pointer to the part that holds every clientConfig. The API server sets it in every CRD.
    fn part(&self) -> &'static str {
        match is_crd(&self.desired) {
            true => "/spec/conversion",
            false => "/webhooks",
        }
    }
}

/// `TYPE/NAME`.
pub(crate) fn name(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&object["kind"]).to_lowercase();
    format!("{kind}/{}", text(&object["metadata"]["name"]))
}

fn is_crd(object: &Value) -> bool {
    object["kind"] == "CustomResourceDefinition"
}

fn clients(object: &mut Value) -> Vec<&mut Value> {
    if is_crd(object) {
        let client = object.pointer_mut("/spec/conversion/webhook/clientConfig");
        return client.into_iter().collect();
    }
    let webhooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
    let webhooks = webhooks.into_iter().flatten();
    webhooks
        .filter_map(|webhook| webhook.get_mut("clientConfig"))
        .collect()
}

/// The URLs and bundles that the object calls.
fn urls(object: &Value) -> Vec<(Value, Value)> {
    let mut object = object.clone();
    let clients = clients(&mut object).into_iter();
    let with_url = clients.filter(|client| client["url"].is_string());
    with_url
        .map(|client| (client["url"].take(), client["caBundle"].take()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversion() -> Value {
        json!({
            "strategy": "Webhook",
            "webhook": {"clientConfig": {"service": {"name": "s", "path": "/convert"}}},
        })
    }

    fn crd(conversion: Value) -> Value {
        json!({
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "c"},
            "spec": {"versions": [{"name": "v1"}, {"name": "v2"}], "conversion": conversion},
        })
    }

    fn configuration() -> Value {
        json!({
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "v", "labels": {LABEL: "kustomize"}},
            "webhooks": [{"clientConfig": {"service": {"name": "s", "path": "/validate"}}}],
        })
    }

    fn place(object: Value, port: u16) -> Place {
        Place::new(object, &format!("https://127.0.0.1:{port}"), "CA")
    }

    /// The object after the change.
    fn changed(mut object: Value, change: Option<Change>) -> Value {
        let Some(Change::Patch(patch)) = change else {
            panic!("no patch: {change:?}");
        };
        let path = patch[0]["path"].as_str().unwrap();
        *object.pointer_mut(path).unwrap() = patch[0]["value"].clone();
        object
    }

    #[test]
    fn what_was_found_is_restored() {
        for (packaged, found) in [
            (crd(conversion()), crd(json!({"strategy": "None"}))),
            (configuration(), configuration()),
        ] {
            let mut it = place(packaged, 1);
            let change = it.registered(Some(&found));
            let placed = changed(found.clone(), change);
            let [(url, bundle)] = &urls(&placed)[..] else {
                panic!("{placed}");
            };
            let url = url.as_str().unwrap();
            assert!(url.starts_with("https://127.0.0.1:1/"), "{url}");
            assert_eq!(bundle, "Q0E=");
            assert_eq!(it.registered(Some(&placed)), None, "it is there");
            let change = it.restored(Some(&placed));
            assert_eq!(changed(placed, change), found);
            assert_eq!(it.restored(Some(&found)), None, "it is not ours");
        }
    }

    #[test]
    fn a_configuration_that_was_created_is_deleted() {
        let mut it = place(configuration(), 1);
        let Some(Change::Create(created)) = it.registered(None) else {
            panic!("not created");
        };
        assert_eq!(it.restored(Some(&created)), Some(Change::Delete));
        assert_eq!(it.restored(None), None);
        assert_eq!(place(crd(conversion()), 1).registered(None), None);
    }

    #[test]
    fn what_a_killed_run_left_is_not_taken_for_the_original() {
        for packaged in [crd(conversion()), configuration()] {
            let change = place(packaged.clone(), 1).registered(Some(&packaged));
            let left = changed(packaged.clone(), change);
            let mut it = place(packaged.clone(), 2);
            assert_eq!(it.restored(Some(&left)), None, "it is of another");
            let change = it.registered(Some(&left));
            let placed = changed(left, change);
            let change = it.restored(Some(&placed));
            assert_eq!(changed(placed, change), packaged);
        }
    }

    #[test]
    fn a_crd_of_one_version_is_left_alone() {
        let mut single = crd(json!({"strategy": "None"}));
        single["spec"]["versions"] = json!([{"name": "v1"}]);
        assert_eq!(place(crd(conversion()), 1).registered(Some(&single)), None);
    }
}
