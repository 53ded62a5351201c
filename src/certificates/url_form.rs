//! The webhook configurations, changed to a URL and restored. The original is kept in an annotation of
//! the object, so that a later run can restore it if this process was killed. Pure, on JSON.

use serde_json::{Map, Value, json};

use super::objects::Registered;
use super::webhook_url::WebhookUrl;

/// The original part of the object, as JSON; `null` for an object that this process created.
pub(super) const REPLACED: &str = "quartet-operator.example.com/replaced-by-webhook-url";

/// The desired part of one object: the `webhooks` of a webhook configuration, or the `spec.conversion`
/// of a CRD, with a URL.
#[derive(Debug, Clone)]
pub(super) struct UrlForm {
    registered: Registered,
    part: Value,
}

/// How to remove the URL from an object.
#[derive(Debug, PartialEq)]
pub(super) enum Restored {
    /// Nothing: the URL is not registered.
    Nothing,
    /// Update the object to this value.
    Replace(Value),
    /// Delete the object: this process created it.
    Delete,
}

impl UrlForm {
    /// Builds the part from the packaged object: replaces each Service by the URL and `bundle`
    /// (base64), and keeps its path. `None` if no part of `object` calls the webhook server.
    pub(super) fn new(
        registered: Registered,
        packaged: &Value,
        url: &WebhookUrl,
        bundle: &Value,
    ) -> Option<Self> {
        let mut part = part(&registered, packaged)?.clone();
        for client in clients_mut(&registered, &mut part) {
            let path = client.pointer("/service/path").and_then(Value::as_str);
            *client = json!({
                "url": url.with_path(path.unwrap_or_default()),
                "caBundle": bundle,
            });
        }
        Some(Self { registered, part })
    }

    pub(super) fn registered(&self) -> &Registered {
        &self.registered
    }

    /// The object to create if it does not exist; `None` for a CRD, which `make install` creates.
    pub(super) fn fresh(&self) -> Option<Value> {
        match &self.registered {
            Registered::Validating(name) => Some(json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": name, "annotations": {REPLACED: "null"}},
                "webhooks": self.part,
            })),
            Registered::Converted(_) => None,
        }
    }

    /// `object` with the URL; `None` if it is up to date, or is a CRD of a single version, which needs
    /// no conversion.
    pub(super) fn put_into(&self, mut object: Value) -> Option<Value> {
        let versions = object.pointer("/spec/versions").and_then(Value::as_array);
        if matches!(self.registered, Registered::Converted(_))
            && versions.is_none_or(|versions| versions.len() < 2)
        {
            return None;
        }
        let found = part(&self.registered, &object).cloned();
        let found = found.unwrap_or_default();
        if self.is_in(&found) {
            return None;
        }
        // A URL with this annotation was left by an earlier run.
        let left_behind = calls_a_url(&self.registered, &found) && replaced(&object).is_some();
        if !left_behind {
            annotate(&mut object, Some(found.to_string()));
        }
        set_part(&self.registered, &mut object, self.part.clone());
        Some(object)
    }

    /// The object without the URL. Keeps a value that another writer has set.
    pub(super) fn take_out_of(&self, mut object: Value) -> Restored {
        let Some(replaced) = replaced(&object) else {
            return Restored::Nothing;
        };
        let found = part(&self.registered, &object).cloned().unwrap_or_default();
        annotate(&mut object, None);
        if self.is_in(&found) {
            if replaced.is_null() && matches!(self.registered, Registered::Validating(_)) {
                return Restored::Delete;
            }
            set_part(&self.registered, &mut object, replaced);
        }
        Restored::Replace(object)
    }

    /// Whether `found` calls the desired URLs. The API server adds defaults, so whole parts are never
    /// equal.
    fn is_in(&self, found: &Value) -> bool {
        !found.is_null()
            && client_list(&self.registered, found) == client_list(&self.registered, &self.part)
    }
}

fn part<'a>(registered: &Registered, object: &'a Value) -> Option<&'a Value> {
    match registered {
        Registered::Validating(_) => object.get("webhooks"),
        Registered::Converted(_) => object.pointer("/spec/conversion"),
    }
}

fn set_part(registered: &Registered, object: &mut Value, part: Value) {
    let (parent, key) = match registered {
        Registered::Validating(_) => (Some(object), "webhooks"),
        Registered::Converted(_) => (object.get_mut("spec"), "conversion"),
    };
    if let Some(parent) = parent.and_then(Value::as_object_mut) {
        match part {
            Value::Null => parent.remove(key),
            part => parent.insert(key.to_owned(), part),
        };
    }
}

/// The name and the client of each webhook in a part.
fn client_list<'a>(
    registered: &Registered,
    part: &'a Value,
) -> Vec<(Option<&'a Value>, Option<&'a Value>)> {
    match registered {
        Registered::Validating(_) => {
            let webhooks = part.as_array().into_iter().flatten();
            webhooks
                .map(|webhook| (webhook.get("name"), webhook.get("clientConfig")))
                .collect()
        }
        Registered::Converted(_) => {
            vec![(part.get("strategy"), part.pointer("/webhook/clientConfig"))]
        }
    }
}

fn clients_mut<'a>(registered: &Registered, part: &'a mut Value) -> Vec<&'a mut Value> {
    match registered {
        Registered::Validating(_) => {
            let webhooks = part.as_array_mut().into_iter().flatten();
            webhooks
                .filter_map(|webhook| webhook.get_mut("clientConfig"))
                .collect()
        }
        Registered::Converted(_) => part
            .pointer_mut("/webhook/clientConfig")
            .into_iter()
            .collect(),
    }
}

fn calls_a_url(registered: &Registered, part: &Value) -> bool {
    let clients = client_list(registered, part);
    !clients.is_empty()
        && clients
            .iter()
            .all(|(_, client)| client.is_some_and(|client| client.get("url").is_some()))
}

/// The original value in the annotation.
fn replaced(object: &Value) -> Option<Value> {
    let annotations = object.pointer("/metadata/annotations")?;
    serde_json::from_str(annotations.get(REPLACED)?.as_str()?).ok()
}

fn annotate(object: &mut Value, text: Option<String>) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let annotations = metadata
        .entry("annotations")
        .or_insert_with(|| Value::Object(Map::new()));
    if let Some(annotations) = annotations.as_object_mut() {
        match text {
            Some(text) => annotations.insert(REPLACED.to_owned(), Value::String(text)),
            None => annotations.remove(REPLACED),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> WebhookUrl {
        text.parse().unwrap()
    }

    fn conversion() -> Value {
        json!({
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {"service": {"namespace": "n", "name": "s", "path": "/convert", "port": 443}},
                "conversionReviewVersions": ["v1"],
            },
        })
    }

    fn crd(conversion: Value) -> Value {
        json!({
            "metadata": {"name": "c", "resourceVersion": "5"},
            "spec": {"versions": [{"name": "v1"}, {"name": "v2"}], "conversion": conversion},
        })
    }

    fn crd_form(at: &str) -> UrlForm {
        let registered = Registered::Converted("c".to_owned());
        UrlForm::new(registered, &crd(conversion()), &url(at), &json!("Q0E=")).unwrap()
    }

    fn validating(webhooks: Value) -> Value {
        json!({"metadata": {"name": "v", "resourceVersion": "5"}, "webhooks": webhooks})
    }

    fn webhooks() -> Value {
        json!([
            {"name": "a", "clientConfig": {"service": {"namespace": "n", "name": "s", "path": "/validate-a"}}},
            {"name": "b", "clientConfig": {"service": {"namespace": "n", "name": "s", "path": "/validate-b"}}},
        ])
    }

    fn validating_form() -> UrlForm {
        let registered = Registered::Validating("v".to_owned());
        let packaged = validating(webhooks());
        UrlForm::new(
            registered,
            &packaged,
            &url("https://127.0.0.1:1"),
            &json!("Q0E="),
        )
        .unwrap()
    }

    #[test]
    fn a_crd_calls_the_url_and_is_restored_to_what_it_was() {
        let form = crd_form("https://127.0.0.1:1");
        for before in [conversion(), json!({"strategy": "None"})] {
            let placed = form.put_into(crd(before.clone())).unwrap();
            let client = placed
                .pointer("/spec/conversion/webhook/clientConfig")
                .unwrap();
            assert_eq!(
                client,
                &json!({"url": "https://127.0.0.1:1/convert", "caBundle": "Q0E="})
            );
            assert_eq!(form.put_into(placed.clone()), None, "it is there");
            let Restored::Replace(after) = form.take_out_of(placed) else {
                panic!("not restored");
            };
            assert_eq!(after["spec"]["conversion"], before);
            assert_eq!(after["metadata"]["annotations"], json!({}));
        }
    }

    #[test]
    fn a_crd_of_one_version_is_left_alone() {
        let object = json!({"metadata": {}, "spec": {"versions": [{"name": "v1"}]}});
        assert_eq!(crd_form("https://127.0.0.1:1").put_into(object), None);
    }

    #[test]
    fn what_a_killed_run_left_behind_is_not_taken_for_the_original() {
        let left_behind = crd_form("https://127.0.0.1:1")
            .put_into(crd(conversion()))
            .unwrap();
        let form = crd_form("https://127.0.0.1:2");
        let placed = form.put_into(left_behind).unwrap();
        let Restored::Replace(after) = form.take_out_of(placed) else {
            panic!("not restored");
        };
        assert_eq!(after["spec"]["conversion"], conversion());
    }

    #[test]
    fn what_was_applied_in_the_meantime_stays() {
        let form = crd_form("https://127.0.0.1:1");
        let mut placed = form.put_into(crd(json!({"strategy": "None"}))).unwrap();
        placed["spec"]["conversion"] = conversion();
        let Restored::Replace(after) = form.take_out_of(placed.clone()) else {
            panic!("the annotation is stale");
        };
        assert_eq!(after["spec"]["conversion"], conversion());
        // When it calls the URL again, this value is the original.
        let again = form.put_into(placed).unwrap();
        let Restored::Replace(after) = form.take_out_of(again) else {
            panic!("not restored");
        };
        assert_eq!(after["spec"]["conversion"], conversion());
    }

    #[test]
    fn a_webhook_configuration_is_created_and_deleted_or_replaced_and_restored() {
        let form = validating_form();
        let mut fresh = form.fresh().unwrap();
        let webhooks_of = fresh["webhooks"].as_array().unwrap();
        let urls: Vec<_> = webhooks_of
            .iter()
            .map(|it| it["clientConfig"]["url"].clone())
            .collect();
        assert_eq!(
            urls,
            [
                "https://127.0.0.1:1/validate-a",
                "https://127.0.0.1:1/validate-b"
            ]
        );
        // The API server adds defaults.
        fresh["webhooks"][0]["timeoutSeconds"] = json!(10);
        assert_eq!(form.put_into(fresh.clone()), None, "it is there");
        assert_eq!(form.take_out_of(fresh), Restored::Delete);

        let placed = form.put_into(validating(webhooks())).unwrap();
        let Restored::Replace(after) = form.take_out_of(placed) else {
            panic!("not restored");
        };
        assert_eq!(after["webhooks"], webhooks());
    }

    #[test]
    fn an_object_that_never_called_the_url_is_not_touched_on_the_way_out() {
        assert_eq!(
            crd_form("https://127.0.0.1:1").take_out_of(crd(conversion())),
            Restored::Nothing
        );
    }
}
