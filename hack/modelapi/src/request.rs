//! One request and its answer, watches excepted.

use http::Method;
use serde_json::{Value, json};

use crate::apply;
use crate::storage::{ApiServer, Definition, ObjectId};

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
    fn ok(body: Value) -> Self {
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

    fn with_causes(mut self, causes: Vec<Value>) -> Self {
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

    fn id(&self) -> ObjectId {
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

impl ApiServer {
    /// Answers a request. A list is that of `snapshot` if that is given, else the latest.
    pub fn answer(&self, call: &Call, snapshot: Option<u64>) -> Answer {
        let target = call.target();
        if target.verb == "discover" {
            return self.discovery(&call.path);
        }
        let Some(definition) = self.definition(target.plural()) else {
            return Answer::failure(404, "NotFound", "the server could not find the resource");
        };
        if !is_served(definition, &call.path) {
            return Answer::failure(404, "NotFound", "the server could not find the resource");
        }
        match target.verb {
            "list" => self.list(definition, call, &target, snapshot),
            "get" => match self.get(&target.id()) {
                Some(object) => Answer::ok((*object).clone()),
                None => not_found(definition, &target),
            },
            "create" => self.create(definition, call, &target),
            "apply" => self.apply(definition, call, &target),
            "patch" => self.patch(definition, call, &target),
            _ => self.delete_as_asked(definition, call, &target),
        }
    }

    fn discovery(&self, path: &str) -> Answer {
        let served = self.definitions.iter().filter(|it| root(it) == path);
        let resources: Vec<_> = served
            .map(|it| {
                json!({
                    "name": it.plural, "singularName": "", "namespaced": true, "kind": it.kind,
                    "verbs": ["get", "list", "watch"],
                    "storageVersionHash": it.storage_version_hash,
                })
            })
            .collect();
        match resources.is_empty() {
            true => Answer::failure(404, "NotFound", "the server could not find the resource"),
            false => Answer::ok(json!({
                "kind": "APIResourceList", "apiVersion": "v1",
                "groupVersion": path.trim_start_matches("/apis/"), "resources": resources,
            })),
        }
    }

    fn list(
        &self,
        definition: &Definition,
        call: &Call,
        target: &Target,
        snapshot: Option<u64>,
    ) -> Answer {
        let revision = snapshot.unwrap_or_else(|| self.revision());
        let objects = match snapshot {
            Some(revision) => self.snapshot(&definition.plural, revision),
            None => self.all(&definition.plural),
        };
        let field = call.parameter("fieldSelector").unwrap_or_default();
        let name = field.strip_prefix("metadata.name=");
        let items = objects.iter().filter(|object| {
            let metadata = &object["metadata"];
            (target.namespace.is_empty() || metadata["namespace"] == *target.namespace)
                && name.is_none_or(|name| metadata["name"] == name)
                && is_selected(object, call.parameter("labelSelector"))
        });
        let items: Vec<_> = items
            .map(|object| {
                let mut item = (**object).clone();
                // As the real one does, which leaves them out of the items of what it knows.
                if let Some(members) = item.as_object_mut().filter(|_| !definition.is_custom) {
                    members.remove("apiVersion");
                    members.remove("kind");
                }
                item
            })
            .collect();
        Answer::ok(json!({
            "apiVersion": definition.api_version(), "kind": format!("{}List", definition.kind),
            "metadata": {"resourceVersion": revision.to_string()}, "items": items,
        }))
    }

    fn create(&self, definition: &Definition, call: &Call, target: &Target) -> Answer {
        let mut object = call.body.clone();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let id = ObjectId::new(&definition.plural, &target.namespace, name);
        if self.get(&id).is_some() {
            let what = format!("{} {:?} already exists", definition.resource(), id.name);
            return Answer::failure(409, "AlreadyExists", &what);
        }
        let manager = call.parameter("fieldManager").unwrap_or("unknown");
        if !definition.is_custom {
            apply::updated(None, &mut object, manager, &self.stamp());
        }
        Answer {
            code: 201,
            ..Answer::ok((*self.put(&id, object, manager)).clone())
        }
    }

    fn apply(&self, definition: &Definition, call: &Call, target: &Target) -> Answer {
        let manager = call.parameter("fieldManager").unwrap_or_default();
        let is_forced = call.parameter("force") == Some("true");
        let id = target.id();
        let found = self.get(&id);
        let null = json!({"metadata": {}});
        let live = found.as_deref().unwrap_or(&null);
        let merged = apply::apply(live, &call.body, manager, is_forced, &self.stamp());
        let merged = match merged {
            Ok(merged) => merged,
            Err(conflicts) => return conflicting(&conflicts),
        };
        // After the conflicts, as the real one does.
        if let Some(refusal) = precondition(definition, &id, found.as_deref(), &call.body) {
            return refusal;
        }
        if let Some(refusal) = self.invalid(definition, &id, found.as_deref(), &merged) {
            return refusal;
        }
        let is_new = found.is_none();
        Answer {
            code: if is_new { 201 } else { 200 },
            ..Answer::ok((*self.put(&id, merged, manager)).clone())
        }
    }

    /// The rules that the controllers meet.
    fn invalid(
        &self,
        definition: &Definition,
        id: &ObjectId,
        live: Option<&Value>,
        new: &Value,
    ) -> Option<Answer> {
        let invalid = |field: &str, reason: &str, what: &str| {
            let (kind, name) = (&definition.kind, &id.name);
            let message = format!("{kind} {name:?} is invalid: {field}: Invalid value: {what}");
            let cause = json!({"reason": reason, "message": what, "field": field});
            Answer::failure(422, "Invalid", &message).with_causes(vec![cause])
        };
        if definition.kind == "Deployment"
            && live.is_some_and(|live| live["spec"]["selector"] != new["spec"]["selector"])
        {
            let what = "field is immutable";
            return Some(invalid("spec.selector", "FieldValueInvalid", what));
        }
        let ports = |service: &Value| -> Vec<i64> {
            let ports = service["spec"]["ports"].as_array();
            let ports = ports.into_iter().flatten();
            ports.filter_map(|port| port["nodePort"].as_i64()).collect()
        };
        if definition.kind == "Service" {
            let wanted = ports(new);
            let taken = self.all("services").into_iter().any(|other| {
                (&other["metadata"]["name"], &other["metadata"]["namespace"])
                    != (&json!(id.name), &json!(id.namespace))
                    && ports(&other).iter().any(|port| wanted.contains(port))
            });
            if taken {
                let what = "provided port is already allocated";
                return Some(invalid("spec.ports[0].nodePort", "FieldValueInvalid", what));
            }
        }
        None
    }

    fn patch(&self, definition: &Definition, call: &Call, target: &Target) -> Answer {
        let id = target.id();
        let Some(found) = self.get(&id) else {
            return not_found(definition, target);
        };
        let mut object = (*found).clone();
        if call.content_type.contains("merge-patch") {
            json_patch::merge(&mut object, &call.body);
        } else {
            let operations = serde_json::from_value(call.body.clone());
            let Ok(operations) = operations else {
                return Answer::failure(400, "BadRequest", "this is no JSON patch");
            };
            let operations: json_patch::Patch = operations;
            if let Err(error) = json_patch::patch(&mut object, &operations.0) {
                let what = "the server rejected our request due to an error in our request";
                let path = error.path;
                let message = format!("{what}: testing path {path}: {}", error.kind);
                return Answer::failure(422, "Invalid", &message);
            }
        }
        let manager = call.parameter("fieldManager").unwrap_or("unknown");
        if definition.is_custom {
            let is_status = target.resource.ends_with("/status");
            let (kept, taken) = (&found["status"], &object["status"]);
            let status = if is_status { taken } else { kept }.clone();
            if is_status {
                object = (*found).clone();
            }
            match status {
                Value::Null => object.as_object_mut().map(|it| it.remove("status")),
                status => {
                    object["status"] = status;
                    None
                }
            };
        } else {
            apply::updated(Some(&found), &mut object, manager, &self.stamp());
        }
        Answer::ok((*self.put(&id, object, manager)).clone())
    }

    fn delete_as_asked(&self, definition: &Definition, call: &Call, target: &Target) -> Answer {
        let id = target.id();
        let Some(found) = self.get(&id) else {
            return not_found(definition, target);
        };
        let wanted = &call.body["preconditions"];
        let differs = |field: &str| {
            let wanted = &wanted[field];
            !wanted.is_null() && *wanted != found["metadata"][field]
        };
        if differs("uid") {
            return wrong_uid(definition, &id, &wanted["uid"], &found);
        }
        if differs("resourceVersion") {
            let (resource, name) = (definition.resource(), &id.name);
            let message = format!(
                "Operation cannot be fulfilled on {resource} {name:?}: Precondition failed: \
                 ResourceVersion in precondition: {}, ResourceVersion in object meta: {}",
                wanted["resourceVersion"], found["metadata"]["resourceVersion"]
            );
            return Answer::failure(409, "Conflict", &message);
        }
        match self.remove(&id, "delete") {
            // A Service that is gone is told as it was, other objects by a Status.
            Some(object)
                if definition.kind == "Service"
                    || object["metadata"].get("deletionTimestamp").is_some() =>
            {
                Answer::ok((*object).clone())
            }
            _ => Answer::ok(json!({"kind": "Status", "apiVersion": "v1", "status": "Success"})),
        }
    }
}

fn root(definition: &Definition) -> String {
    match definition.group.as_str() {
        "" => format!("/api/{}", definition.version),
        group => format!("/apis/{group}/{}", definition.version),
    }
}

/// Whether a path is of one of the versions that are served.
fn is_served(definition: &Definition, path: &str) -> bool {
    let Some(rest) = path.strip_prefix(&format!("/apis/{}/", definition.group)) else {
        return definition.group.is_empty() && path.starts_with(&root(definition));
    };
    let version = rest.split('/').next().unwrap_or_default();
    version == definition.version || definition.others.iter().any(|it| it == version)
}

fn not_found(definition: &Definition, target: &Target) -> Answer {
    let what = format!("{} {:?} not found", definition.resource(), target.name);
    Answer::failure(404, "NotFound", &what)
}

fn wrong_uid(definition: &Definition, id: &ObjectId, wanted: &Value, found: &Value) -> Answer {
    let (resource, name, uid) = (definition.resource(), &id.name, &found["metadata"]["uid"]);
    let message = format!(
        "Operation cannot be fulfilled on {resource} {name:?}: Precondition failed: UID in \
         precondition: {wanted}, UID in object meta: {uid}"
    );
    Answer::failure(409, "Conflict", &message)
}

/// What an apply names of the object that it is for.
fn precondition(
    definition: &Definition,
    id: &ObjectId,
    found: Option<&Value>,
    wanted: &Value,
) -> Option<Answer> {
    let null = Value::Null;
    let named = |field: &str| match &wanted["metadata"][field] {
        Value::Null => None,
        value => Some(value.clone()),
    };
    let of = |field: &str| found.map_or(&null, |found| &found["metadata"][field]);
    let (resource, name) = (definition.resource(), &id.name);
    let cannot = |why: &str| {
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        Some(Answer::failure(409, "Conflict", &message))
    };
    let Some(_) = found else {
        // Where there is nothing, the version that is named counts for nothing.
        let uid = named("uid")?;
        return cannot(&format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        ));
    };
    if named("resourceVersion").is_some_and(|version| *of("resourceVersion") != version) {
        return cannot(
            "the object has been modified; please apply your changes to the latest version and \
             try again",
        );
    }
    let uid = named("uid").filter(|uid| of("uid") != uid)?;
    let what = format!("Invalid value: {uid}: field is immutable");
    let message = format!(
        "{} {name:?} is invalid: metadata.uid: {what}",
        definition.kind
    );
    let cause = json!({"reason": "FieldValueInvalid", "message": what, "field": "metadata.uid"});
    Some(Answer::failure(422, "Invalid", &message).with_causes(vec![cause]))
}

fn conflicting(conflicts: &[apply::Conflict]) -> Answer {
    let causes = conflicts.iter().map(|it| {
        json!({
            "reason": "FieldManagerConflict", "message": format!("conflict with {:?}", it.manager),
            "field": it.field,
        })
    });
    let count = conflicts.len();
    Answer::failure(
        409,
        "Conflict",
        &format!("Apply failed with {count} conflicts"),
    )
    .with_causes(causes.collect())
}

/// The parameters of a query, decoded.
pub(crate) fn parameters(query: &str) -> Vec<(String, String)> {
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
