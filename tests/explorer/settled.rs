//! The desired state of a resource, and whether it is reached.

use std::collections::BTreeMap;
use std::sync::Arc;

use modelapi::{ApiServer, ObjectId};
use serde_json::Value;

use super::compare::{lacking, unfinished_rollout};
use super::life::{NAME, NAMESPACE};
use super::plan::Plan;
use quartet_versions::conversion;
use quartet_workload::{Child, Resource, SERVICE, Settings};

/// Objects by name.
pub(super) type Objects = BTreeMap<ObjectId, Arc<Value>>;

/// The spec of a stored resource in the hub version.
pub(super) fn hub_spec(plan: &Plan, object: &Value) -> Value {
    let (kind, version) = (plan.subject().operator().kind(), plan.version());
    let annotations = object.pointer("/metadata/annotations");
    conversion::hub_spec(kind, version, &object["spec"], annotations)
}

/// A resource as the operators see it.
pub(super) fn resource(plan: &Plan, object: &Value) -> Resource {
    let kind = plan.subject().operator().kind();
    Resource {
        namespace: NAMESPACE.to_owned(),
        name: NAME.to_owned(),
        uid: object["metadata"]["uid"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        generation: object["metadata"]["generation"].as_i64().unwrap_or(0),
        api_version: kind.api_version(plan.version()),
        spec: hub_spec(plan, object),
        status: serde_json::from_value(object["status"].clone()).unwrap_or_default(),
        paused: is_paused(object).then(|| "true".to_owned()),
    }
}

/// The desired children of a resource.
pub(super) fn desired(plan: &Plan, object: &Value) -> Vec<Child> {
    let operator = plan.subject().operator();
    let desired = operator.desired(&resource(plan, object), &Settings::default());
    desired.expect("the lives ask for what is allowed")
}

pub(super) fn is_paused(object: &Value) -> bool {
    object["metadata"]["annotations"]["quartet-operator.example.com/paused"] == "true"
}

pub(super) fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|it| it["type"] == type_)
}

pub(super) fn ready(object: &Value) -> Option<&Value> {
    condition(object, "Ready")
}

/// The difference between a child and its desired state, if any.
pub(super) fn unlike(
    objects: &dyn Fn(&ObjectId) -> Option<Arc<Value>>,
    child: &Child,
) -> Option<String> {
    let id = ObjectId::new(child.kind.plural, NAMESPACE, &child.name);
    let Some(found) = objects(&id) else {
        return Some(format!("{} {} does not exist", id.plural, id.name));
    };
    if found["metadata"].get("deletionTimestamp").is_some() {
        return Some(format!("{} {} is being deleted", id.plural, id.name));
    }
    let lacking = lacking(&child.body, &found);
    if let Some((path, what)) = lacking.first() {
        return Some(format!("{} {}: {path}: {what}", id.plural, id.name));
    }
    if child.kind.has_pods {
        unfinished_rollout(&found)
    } else {
        None
    }
}

/// The difference between the state and the desired state of a resource, if any.
pub(super) fn unsettled(
    plan: &Plan,
    objects: &dyn Fn(&ObjectId) -> Option<Arc<Value>>,
) -> Option<String> {
    let Some(resource) = objects(&plan.subject().id()) else {
        let left = ["deployments", "services"]
            .into_iter()
            .find(|plural| objects(&ObjectId::new(plural, NAMESPACE, NAME)).is_some());
        return left
            .map(|plural| format!("the resource is deleted, but its {plural} still exists"));
    };
    if is_paused(&resource) {
        return None;
    }
    let generation = &resource["metadata"]["generation"];
    let is_ready = ready(&resource).is_some_and(|it| it["status"] == "True");
    if !is_ready || resource["status"]["observedGeneration"] != *generation {
        return Some(format!("the status is {}", resource["status"]));
    }
    let desired = desired(plan, &resource);
    if let Some(unlike) = desired.iter().find_map(|child| unlike(objects, child)) {
        return Some(unlike);
    }
    let wants_service = desired.iter().any(|it| it.kind == SERVICE);
    let service = objects(&ObjectId::new("services", NAMESPACE, NAME));
    (service.is_some() && !wants_service)
        .then(|| "a Service that the spec does not want".to_owned())
}

/// Whether the desired state is reached.
pub(super) fn is_settled(server: &ApiServer, plan: &Plan) -> bool {
    unsettled(plan, &|id| server.get(id)).is_none()
}
