//! The answers to all requests but watches.

use serde_json::{Value, json};

use crate::apply;
use crate::refusals::{conflicting, precondition, wrong_uid};
use crate::request::{Answer, Call, Target, is_selected};
use crate::storage::{ApiServer, Definition, ObjectId};

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
        if resources.is_empty() {
            Answer::failure(404, "NotFound", "the server could not find the resource")
        } else {
            Answer::ok(json!({
                "kind": "APIResourceList", "apiVersion": "v1",
                "groupVersion": path.trim_start_matches("/apis/"), "resources": resources,
            }))
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
            if json_patch::patch(&mut object, &operations.0).is_err() {
                return Answer::failed_patch();
            }
        }
        if let Some(refusal) = precondition(definition, &id, Some(&found), &object) {
            return refusal;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_of_the_version_that_it_names_and_a_failed_test_has_no_text() {
        let server = ApiServer::new(Vec::new());
        let id = ObjectId::new("deployments", "ns", "one");
        server.write(&id, &json!({"spec": {"replicas": 1}}), "user");
        let patch = |operation: &str, version: &str| {
            let answer = server.answer(
                &Call {
                    method: http::Method::PATCH,
                    path: "/apis/apps/v1/namespaces/ns/deployments/one".to_owned(),
                    query: Vec::new(),
                    content_type: "application/json-patch+json".to_owned(),
                    body: json!([
                        {"op": operation, "path": "/metadata/resourceVersion", "value": version},
                        {"op": "replace", "path": "/spec/replicas", "value": 2},
                    ]),
                },
                None,
            );
            let text = |field: &str| answer.body[field].as_str().map(str::to_owned);
            (answer.code, text("reason"), text("message"))
        };
        let failure = |code: u16, reason: &str, message: &str| {
            let text = |text: &str| Some(text.to_owned());
            (code, text(reason), text(message))
        };
        let message = "the server rejected our request due to an error in our request";
        assert_eq!(patch("test", "7"), failure(422, "Invalid", message));
        let message = "Operation cannot be fulfilled on deployments.apps \"one\": the object has been \
                       modified; please apply your changes to the latest version and try again";
        assert_eq!(patch("replace", "7"), failure(409, "Conflict", message));
        assert_eq!(patch("replace", "1").0, 200);
    }
}
