//! What a manager asked of the API server, as the API server's audit log tells it. Reads
//! the log; asks nothing.

use std::path::Path;

use serde_json::Value;

/// Every manager of ours says so in its user agent; nobody else does.
const USER_AGENT: &str = "\"userAgent\":\"quartet-operator/";

/// A request of a manager.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) verb: String,
    /// API group; empty for the core.
    pub(crate) group: String,
    /// Plural, and after a slash the subresource.
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) code: u64,
    /// Who asked, e.g. `system:serviceaccount:ns:name`.
    pub(crate) user: String,
    /// The body, of deletions only.
    pub(crate) body: Value,
}

impl Request {
    /// Not one that fills a cache.
    pub(crate) fn is_single(&self) -> bool {
        !matches!(self.verb.as_str(), "watch" | "list")
    }

    fn of(event: &Value) -> Self {
        let text = |path: &str| {
            let value = event.pointer(path).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let (resource, subresource) = (text("/objectRef/resource"), text("/objectRef/subresource"));
        let slash = if subresource.is_empty() { "" } else { "/" };
        Request {
            verb: text("/verb"),
            group: text("/objectRef/apiGroup"),
            resource: format!("{resource}{slash}{subresource}"),
            namespace: text("/objectRef/namespace"),
            name: text("/objectRef/name"),
            code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
            user: text("/user/username"),
            body: event["requestObject"].clone(),
        }
    }
}

/// What managers asked about `namespace`, or about any; a watch counts when it is answered,
/// all else when it is done.
pub(crate) fn requests(log: &Path, namespace: Option<&str>) -> Vec<Request> {
    let text = std::fs::read_to_string(log).expect("the audit log");
    let concerns = |line: &&str| {
        // Before parsing, which is what costs time here.
        line.contains(USER_AGENT) && namespace.is_none_or(|namespace| line.contains(namespace))
    };
    let events = text
        .lines()
        .filter(concerns)
        .filter_map(|line| serde_json::from_str(line).ok());
    events
        .filter(|event: &Value| {
            (event["stage"] == "ResponseComplete") != (event["verb"] == "watch")
        })
        .map(|event| Request::of(&event))
        .filter(|request| namespace.is_none_or(|namespace| request.namespace == namespace))
        .filter(|request| !request.resource.is_empty())
        .collect()
}
