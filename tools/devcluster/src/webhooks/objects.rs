//! The objects that call the webhooks, with a URL in place of the Service. Pure, on JSON.

use std::collections::HashMap;

use serde_json::{Value, json};

/// On a webhook configuration that was created here; `make install` deletes what a killed run left.
const LABEL: &str = "app.kubernetes.io/managed-by";
const CREATED_HERE: &str = "devcluster";

/// Where the objects call the webhooks.
pub(crate) struct Registration {
    /// As in the manifests.
    packaged: Vec<Value>,
    /// The same with the URL.
    desired: Vec<Value>,
    /// By name, the part that the URL replaced.
    replaced: HashMap<String, Value>,
}

impl Registration {
    pub(crate) fn new(packaged: Vec<Value>, url: &str, bundle: &str) -> Self {
        let bundle = base64(bundle.as_bytes());
        let with_url = |object: &Value| {
            let mut object = object.clone();
            for client in clients(&mut object) {
                let path = client["service"]["path"].as_str().unwrap_or_default();
                *client = json!({"url": format!("{url}{path}"), "caBundle": bundle});
            }
            if !is_crd(&object) {
                object["metadata"]["labels"][LABEL] = CREATED_HERE.into();
            }
            object
        };
        Self {
            desired: packaged.iter().map(with_url).collect(),
            packaged,
            replaced: HashMap::new(),
        }
    }

    /// `TYPE/NAME` of each object.
    pub(crate) fn names(&self) -> Vec<String> {
        let each = self.desired.iter();
        each.map(|it| format!("{}/{}", lower(&it["kind"]), name(it)))
            .collect()
    }

    /// The webhook configuration, if it does not exist. `make install` creates CRDs.
    pub(crate) fn missing(&self, found: &[Value]) -> Vec<Value> {
        let is_missing = |it: &&Value| !is_crd(it) && found.iter().all(|one| name(one) != name(it));
        self.desired.iter().filter(is_missing).cloned().collect()
    }

    /// The objects that call something else, changed to the URL; keeps what they called.
    pub(crate) fn placed(&mut self, found: &[Value]) -> Vec<Value> {
        let mut changed = Vec::new();
        for (desired, packaged) in self.desired.iter().zip(&self.packaged) {
            let Some(object) = found.iter().find(|it| name(it) == name(desired)) else {
                continue;
            };
            let versions = object["spec"]["versions"].as_array().map_or(0, Vec::len);
            if urls(object) == urls(desired) || is_crd(object) && versions < 2 {
                continue;
            }
            // A URL was left by a run that was killed.
            let original = if urls(object).is_empty() {
                object
            } else {
                packaged
            };
            let original = original.pointer(part(object)).cloned();
            self.replaced
                .insert(name(object).to_owned(), original.unwrap_or_default());
            changed.push(with_part(object, desired.pointer(part(object)).cloned()));
        }
        changed
    }

    /// The objects that call the URL, with what it replaced; and those to delete, which were created here.
    pub(crate) fn restored(&self, found: &[Value]) -> (Vec<Value>, Vec<Value>) {
        let ours = found.iter().filter(|object| {
            let mut desired = self.desired.iter();
            desired.any(|it| name(it) == name(object) && urls(it) == urls(object))
        });
        let (created, changed): (Vec<_>, Vec<_>) =
            ours.partition(|it| it["metadata"]["labels"][LABEL] == CREATED_HERE);
        let restore = |it: &Value| with_part(it, self.replaced.get(name(it)).cloned());
        (
            changed.into_iter().map(restore).collect(),
            created.into_iter().cloned().collect(),
        )
    }
}

/// The host of a URL, a name or an IP address, without brackets.
pub(crate) fn host(url: &str) -> Option<&str> {
    let authority = url.split_once("://")?.1.split('/').next()?;
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => host,
        _ => authority,
    };
    Some(host.trim_start_matches('[').trim_end_matches(']')).filter(|host| !host.is_empty())
}

fn is_crd(object: &Value) -> bool {
    object["kind"] == "CustomResourceDefinition"
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn lower(kind: &Value) -> String {
    kind.as_str().unwrap_or_default().to_lowercase()
}

/// The pointer to the part that holds every clientConfig.
fn part(object: &Value) -> &'static str {
    match is_crd(object) {
        true => "/spec/conversion",
        false => "/webhooks",
    }
}

fn with_part(object: &Value, part_value: Option<Value>) -> Value {
    let mut object = object.clone();
    // The API server sets it in every CRD.
    let part = part(&object);
    if let (Some(place), Some(value)) = (object.pointer_mut(part), part_value) {
        *place = value;
    }
    object
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

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let number = (0..3).fold(0, |all, index| {
            all << 8 | usize::from(chunk.get(index).copied().unwrap_or_default())
        });
        for digit in 0..4 {
            text.push(match digit <= chunk.len() {
                true => char::from(DIGITS[number >> (18 - 6 * digit) & 63]),
                false => '=',
            });
        }
    }
    text
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

    fn registration(port: u16) -> Registration {
        let url = format!("https://127.0.0.1:{port}");
        Registration::new(vec![crd(conversion()), configuration()], &url, "CA")
    }

    #[test]
    fn what_was_found_is_restored_and_what_was_created_is_deleted() {
        let mut it = registration(1);
        let found = [crd(json!({"strategy": "None"}))];
        let mut placed = it.placed(&found);
        let client = &placed[0]["spec"]["conversion"]["webhook"]["clientConfig"];
        let expected = json!({"url": "https://127.0.0.1:1/convert", "caBundle": "Q0E="});
        assert_eq!(*client, expected);
        assert_eq!(it.placed(&placed), [Value::Null; 0], "it is there");
        let created = it.missing(&placed);
        placed.extend(created.clone());
        assert_eq!(it.missing(&placed), [Value::Null; 0]);
        assert_eq!(it.restored(&placed), (found.to_vec(), created));
    }

    #[test]
    fn what_a_killed_run_left_is_not_taken_for_the_original() {
        let mut killed = registration(1);
        let left = killed.placed(&[crd(conversion()), configuration()]);
        let mut it = registration(2);
        assert_eq!(
            it.restored(&left),
            (Vec::new(), Vec::new()),
            "it is of another"
        );
        let placed = it.placed(&left);
        let (restored, deleted) = it.restored(&placed);
        assert_eq!(restored, [crd(conversion()), configuration()]);
        assert_eq!(deleted, [Value::Null; 0]);
    }

    #[test]
    fn a_crd_of_one_version_is_left_alone() {
        let mut single = crd(json!({"strategy": "None"}));
        single["spec"]["versions"] = json!([{"name": "v1"}]);
        assert_eq!(registration(1).placed(&[single]), [Value::Null; 0]);
    }

    #[test]
    fn a_host_has_no_brackets_and_no_port() {
        for (url, expected) in [
            ("https://[::1]:9443", Some("::1")),
            ("https://[::1]", Some("::1")),
            ("https://172.17.0.1:9443", Some("172.17.0.1")),
            ("https://host.test/path", Some("host.test")),
            ("https://:9443", None),
            ("host", None),
        ] {
            assert_eq!(host(url), expected, "{url}");
        }
    }

    #[test]
    fn base64_has_padding() {
        let texts = ["", "f", "fo", "foo", "foob"].map(|text| base64(text.as_bytes()));
        assert_eq!(texts, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]);
    }
}
