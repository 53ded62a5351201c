//! The webhook configurations, changed to a URL and restored. The original is kept in an annotation of
//! the object, so that a later run can restore it if this process was killed. Pure, on JSON.

use serde_json::{Value, json};

use super::objects::{Registered, set};
use super::webhook_url::WebhookUrl;

/// The original part of the object, as JSON; `null` for an object that this process created.
const REPLACED: &str = "quartet-operator.example.com/replaced-by-webhook-url";

/// One object, with a URL.
#[derive(Debug, Clone)]
pub(super) struct UrlForm {
    pub(super) registered: Registered,
    /// The packaged object, with the URL in place of each Service.
    desired: Value,
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
    /// Replaces each Service in the packaged object by the URL and `bundle` (base64), and keeps its
    /// path.
    pub(super) fn new(
        registered: Registered,
        packaged: Value,
        url: &WebhookUrl,
        bundle: &Value,
    ) -> Self {
        let mut desired = packaged;
        for client in registered.clients(&desired) {
            if let Some(client) = desired.pointer_mut(&client) {
                let path = client.pointer("/service/path").and_then(Value::as_str);
                let url = format!("{url}{}", path.unwrap_or_default());
                *client = json!({"url": url, "caBundle": bundle});
            }
        }
        Self {
            registered,
            desired,
        }
    }

    /// The object to create if it does not exist; `None` for a CRD, which `make install` creates.
    pub(super) fn fresh(&self) -> Option<Value> {
        let is_validating = matches!(self.registered, Registered::Validating(_));
        is_validating.then(|| {
            let mut object = self.desired.clone();
            annotate(&mut object, "null".into());
            object
        })
    }

    /// `object` with the URL; `None` if it is up to date, or is a CRD of a single version, which needs
    /// no conversion.
    pub(super) fn put_into(&self, mut object: Value) -> Option<Value> {
        let versions = object.pointer("/spec/versions").and_then(Value::as_array);
        let is_single = matches!(self.registered, Registered::Converted(_))
            && versions.is_none_or(|versions| versions.len() < 2);
        if is_single || self.is_in(&object) {
            return None;
        }
        // A URL with this annotation was left by an earlier run.
        if !(self.calls_a_url(&object) && replaced(&object).is_some()) {
            let original = self.part(&object).to_string();
            annotate(&mut object, original.into());
        }
        self.set_part(&mut object, self.part(&self.desired));
        Some(object)
    }

    /// The object without the URL, or without that of an earlier run, which this run may not have
    /// replaced yet. Keeps a value with Services, which another writer has set.
    pub(super) fn take_out_of(&self, mut object: Value) -> Restored {
        let Some(replaced) = replaced(&object) else {
            return Restored::Nothing;
        };
        annotate(&mut object, Value::Null);
        if self.calls_a_url(&object) {
            if replaced.is_null() && matches!(self.registered, Registered::Validating(_)) {
                return Restored::Delete;
            }
            self.set_part(&mut object, replaced);
        }
        Restored::Replace(object)
    }

    /// Whether `object` calls the desired URLs. The API server adds defaults, so whole parts are never
    /// equal.
    fn is_in(&self, object: &Value) -> bool {
        self.clients(object) == self.clients(&self.desired)
    }

    fn calls_a_url(&self, object: &Value) -> bool {
        let clients = self.clients(object);
        let mut urls = clients.iter().map(|client| client.as_ref()?.get("url"));
        !clients.is_empty() && urls.all(|url| url.is_some())
    }

    fn clients(&self, object: &Value) -> Vec<Option<Value>> {
        let pointers = self.registered.clients(object).into_iter();
        pointers.map(|it| object.pointer(&it).cloned()).collect()
    }

    /// The pointer to the parent of the replaced part, and its key.
    fn location(&self) -> (&'static str, &'static str) {
        match self.registered {
            Registered::Validating(_) => ("", "webhooks"),
            Registered::Converted(_) => ("/spec", "conversion"),
        }
    }

    fn part(&self, object: &Value) -> Value {
        let (parent, key) = self.location();
        let part = object.pointer(parent).and_then(|parent| parent.get(key));
        part.cloned().unwrap_or_default()
    }

    fn set_part(&self, object: &mut Value, part: Value) {
        let (parent, key) = self.location();
        set(object, parent, key, part);
    }
}

/// The original value in the annotation.
fn replaced(object: &Value) -> Option<Value> {
    let annotations = object.pointer("/metadata/annotations")?;
    serde_json::from_str(annotations.get(REPLACED)?.as_str()?).ok()
}

fn annotate(object: &mut Value, text: Value) {
    if object.pointer("/metadata/annotations").is_none() {
        set(object, "/metadata", "annotations", json!({}));
    }
    set(object, "/metadata/annotations", REPLACED, text);
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
        UrlForm::new(registered, crd(conversion()), &url(at), &json!("Q0E="))
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
            packaged,
            &url("https://127.0.0.1:1"),
            &json!("Q0E="),
        )
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
        let placed = form.put_into(left_behind.clone()).unwrap();
        // The next run may be stopped before it has written its own URL.
        for object in [placed, left_behind] {
            let Restored::Replace(after) = form.take_out_of(object) else {
                panic!("not restored");
            };
            assert_eq!(after["spec"]["conversion"], conversion());
        }
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
