//! What a request and an answer are.

use http::Method;
use serde_json::{Value, json};

use crate::storage::ObjectId;

/// A request.
#[derive(Debug, Clone)]
pub struct Call {
    /// Method.
    pub method: Method,
    /// Path, e.g. `/api/v1/namespaces/ns/services/a`.
    pub path: String,
    /// Query, decoded.
    pub query: Vec<(String, String)>,
    /// `Content-Type`, or empty.
    pub content_type: String,
    /// Body; `Value::Null` if there is none.
    pub body: Value,
}

/// What a request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// `get`, `list`, `watch`, `create`, `apply`, `patch`, `delete` or `discover`.
    pub verb: &'static str,
    /// Plural, with `/status` for the subresource.
    pub resource: String,
    /// Namespace; empty for all.
    pub namespace: String,
    /// Name; empty for a collection.
    pub name: String,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// HTTP status.
    pub code: u16,
    /// `Retry-After` in seconds.
    pub retry_after: Option<u64>,
    /// Body.
    pub body: Value,
}

impl Answer {
    pub(crate) fn ok(body: Value) -> Self {
        Answer {
            code: 200,
            retry_after: None,
            body,
        }
    }

    /// An error as the API server words it.
    pub fn failure(code: u16, reason: &str, message: &str) -> Self {
        Answer {
            code,
            retry_after: None,
            body: json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": message, "reason": reason, "code": code,
            }),
        }
    }

    /// A JSON patch of which an operation fails, also a `test`. The API server does not tell which
    /// (apimachinery `NewGenericServerResponse`).
    pub fn failed_patch() -> Self {
        let message = "the server rejected our request due to an error in our request";
        let mut answer = Answer::failure(422, "Invalid", message);
        answer.body["details"] = json!({});
        answer
    }

    pub(crate) fn with_causes(mut self, causes: Vec<Value>) -> Self {
        self.body["details"] = json!({"causes": causes});
        self
    }
}

impl Call {
    /// A parameter of the query.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// What it is about.
    pub fn target(&self) -> Target {
        let parts: Vec<_> = self.path.trim_matches('/').split('/').collect();
        let rest = match parts.as_slice() {
            ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
            _ => &[],
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            _ => ("", rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (*plural, "", ""),
            [plural, name] => (*plural, *name, ""),
            [plural, name, subresource] => (*plural, *name, *subresource),
            _ => ("", "", ""),
        };
        let verb = match self.method.as_str() {
            _ if plural.is_empty() => "discover",
            "GET" if self.parameter("watch").is_some() => "watch",
            "GET" if name.is_empty() => "list",
            "GET" => "get",
            "POST" => "create",
            "DELETE" => "delete",
            _ if self.content_type.contains("apply-patch") => "apply",
            _ => "patch",
        };
        Target {
            verb,
            resource: match subresource {
                "" => plural.to_owned(),
                subresource => format!("{plural}/{subresource}"),
            },
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

impl Target {
    /// Whether it changes something.
    pub fn is_write(&self) -> bool {
        !matches!(self.verb, "get" | "list" | "watch" | "discover")
    }

    /// The plural without a subresource.
    pub fn plural(&self) -> &str {
        let resource = &self.resource;
        resource
            .split_once('/')
            .map_or(resource, |(plural, _)| plural)
    }

    pub(crate) fn id(&self) -> ObjectId {
        ObjectId::new(self.plural(), &self.namespace, &self.name)
    }
}

/// Whether an object's labels are as a selector asks: `key=value` or `key`, by commas.
pub(crate) fn is_selected(object: &Value, selector: Option<&str>) -> bool {
    let terms = selector.unwrap_or_default().split(',');
    terms.filter(|term| !term.is_empty()).all(|term| {
        let label = |key: &str| object["metadata"]["labels"].get(key);
        match term.split_once('=') {
            Some((key, value)) => label(key).is_some_and(|found| found == value),
            None => label(term).is_some(),
        }
    })
}

/// The parameters of a query, decoded.
pub fn parameters(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let split = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    split
        .map(|(key, value)| (key.to_owned(), decoded(value)))
        .collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = after.get(..2).filter(|_| first == b'%');
        let value = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match value {
            Some(value) => {
                bytes.push(value);
                rest = &after[2..];
            }
            None => {
                bytes.push(if first == b'+' { b' ' } else { first });
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
