//! The writes of the manager: server-side apply of children, and JSON patches of a status.

use bytes::Bytes;
use modelapi::{Answer, Call, Target};
use serde_json::{Value, json};

use super::cluster::{Cluster, DEPLOYMENTS};
use super::objects::{Manager, default_deployment, default_service, note_manager};
use super::table::{Table, now};

/// What a write came to.
pub(super) struct Done {
    pub(super) code: u16,
    pub(super) body: Bytes,
    /// It says that the object is Ready in its generation.
    pub(super) is_ready: bool,
}

impl From<Answer> for Done {
    fn from(answer: Answer) -> Self {
        Self {
            code: answer.code,
            body: answer.body.to_string().into(),
            is_ready: false,
        }
    }
}

/// What else than the spec an apply may change.
const DIFFERING: [&str; 3] = ["labels", "annotations", "ownerReferences"];

/// Obeys a write.
pub(super) fn obey(cluster: &Cluster, table: &Table, call: &Call, target: &Target) -> Done {
    let key = format!("{}/{}", target.namespace, target.name);
    match (target.verb, target.resource.strip_suffix("/status")) {
        ("apply", None) => apply(cluster, table, call, &key),
        ("patch", Some(_)) => patch_status(table, call, &key),
        _ => Answer::failure(
            405,
            "MethodNotAllowed",
            "this server's script has no such write",
        )
        .into(),
    }
}

/// Why nothing was written.
enum Unwritten {
    /// Nothing would be another.
    Same,
    Refused(Answer),
}

fn apply(cluster: &Cluster, table: &Table, call: &Call, key: &str) -> Done {
    let manager = call.parameter("fieldManager").unwrap_or_default();
    let is_forced = call.parameter("force") == Some("true");
    let mut is_new = false;
    let mut changed = None;
    let written = table.write(key, |live| {
        is_new = live.is_none();
        let live = live.unwrap_or_else(|| json!({"metadata": {}}));
        let merged = modelapi::apply(&live, &call.body, manager, is_forced, &now());
        let mut merged = merged.map_err(|conflicts| {
            let what = format!("Apply failed with {} conflicts", conflicts.len());
            Unwritten::Refused(Answer::failure(409, "Conflict", &what))
        })?;
        match table.of.plural {
            DEPLOYMENTS => default_deployment(&mut merged),
            _ => default_service(&mut merged, number(key)),
        }
        let differs = |field: &&str| live["metadata"][field] != merged["metadata"][field];
        let is_same = live["spec"] == merged["spec"] && !DIFFERING.iter().any(differs);
        if is_same && !is_new {
            return Err(Unwritten::Same);
        }
        if table.of.plural == DEPLOYMENTS && live["spec"] != merged["spec"] {
            changed = Some(live["metadata"]["generation"].as_i64().unwrap_or(0) + 1);
        }
        Ok(merged)
    });
    if let Some(generation) = changed {
        tokio::spawn(cluster.clone().roll_out(key.to_owned(), generation));
    }
    match written {
        Ok(body) => Done {
            code: if is_new { 201 } else { 200 },
            body,
            is_ready: false,
        },
        Err(Unwritten::Same) => Done {
            code: 200,
            body: table.get(key).unwrap_or_default(),
            is_ready: false,
        },
        Err(Unwritten::Refused(answer)) => answer.into(),
    }
}

fn patch_status(table: &Table, call: &Call, key: &str) -> Done {
    let api_version = table.of.api_version();
    let mut is_ready = false;
    let written: Result<_, Answer> = table.write(key, |live| {
        let live = live.ok_or_else(|| Answer::failure(404, "NotFound", "it is gone"))?;
        let operations: json_patch::Patch = serde_json::from_value(call.body.clone())
            .map_err(|error| Answer::failure(400, "BadRequest", &error.to_string()))?;
        let mut patched = live.clone();
        json_patch::patch(&mut patched, &operations.0).map_err(|_| Answer::failed_patch())?;
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        if version(&patched) != version(&live) {
            let what = "the object has been modified";
            return Err(Answer::failure(409, "Conflict", what));
        }
        let mut object = live;
        object["status"] = patched["status"].take();
        is_ready = says_ready(&object);
        let by = Manager {
            name: call.parameter("fieldManager").unwrap_or("unknown"),
            subresource: "status",
        };
        let parts = json!({"status": object["status"]});
        note_manager(&mut object, &api_version, &by, &parts);
        Ok(object)
    });
    match written {
        Ok(body) => Done {
            code: 200,
            body,
            is_ready,
        },
        Err(answer) => Done::from(answer),
    }
}

/// Whether the status says Ready of the generation that the object has.
fn says_ready(object: &Value) -> bool {
    let generation = &object["metadata"]["generation"];
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| {
        condition["type"] == "Ready"
            && condition["status"] == "True"
            && condition["observedGeneration"] == *generation
    })
}

/// What makes the address of a Service its own.
fn number(key: &str) -> u64 {
    let digits = key.chars().filter(char::is_ascii_digit).collect::<String>();
    digits.parse().unwrap_or(0)
}

/// An event, which is taken and forgotten: nothing reads it.
pub(super) fn created(call: &Call) -> Done {
    Done {
        code: 201,
        body: call.body.to_string().into(),
        is_ready: false,
    }
}

#[cfg(test)]
mod tests;
