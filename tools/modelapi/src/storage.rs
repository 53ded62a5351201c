//! What is stored, every version of it, and the rules by which a write becomes one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::counter::Counter;

/// The first moment of every run: 2026-01-01T00:00:00Z.
const EPOCH: i64 = 1_767_225_600;

/// A resource type that is served.
#[derive(Debug, Clone)]
pub struct Definition {
    /// Group, empty for the core.
    pub group: String,
    /// The version in which it is stored.
    pub version: String,
    /// Other versions that are served. There is no conversion: their lists must be empty.
    pub others: Vec<String>,
    /// Kind.
    pub kind: String,
    /// Plural.
    pub plural: String,
    /// Whether it is a custom resource, whose status is a subresource.
    pub is_custom: bool,
    /// What discovery says of the version that is stored.
    pub storage_version_hash: String,
}

impl Definition {
    /// A type that is part of Kubernetes.
    pub fn built_in(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        Definition {
            group: group.to_owned(),
            version: version.to_owned(),
            others: Vec::new(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            is_custom: false,
            storage_version_hash: String::new(),
        }
    }

    /// `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// As errors name it, e.g. `deployments.apps`.
    pub(crate) fn resource(&self) -> String {
        match self.group.as_str() {
            "" => self.plural.clone(),
            group => format!("{}.{group}", self.plural),
        }
    }
}

/// Which object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    /// Plural of its type.
    pub plural: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectId {
    /// `plural` `namespace`/`name`.
    pub fn new(plural: &str, namespace: &str, name: &str) -> Self {
        ObjectId {
            plural: plural.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

/// How an object changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Added,
    /// It is another.
    Modified,
    /// It is gone.
    Deleted,
}

/// One write that took effect.
#[derive(Debug, Clone)]
pub struct Stored {
    /// Resource version of the write.
    pub revision: u64,
    /// When, since the beginning.
    pub at: Duration,
    /// Of which object.
    pub id: ObjectId,
    /// How.
    pub change: Change,
    /// The object afterwards; of a deletion the last there was, with the revision of its end.
    pub object: Arc<Value>,
    /// The object before.
    pub before: Option<Arc<Value>>,
    /// Who wrote: the name of a field manager or of an actor.
    pub by: String,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) objects: BTreeMap<ObjectId, Arc<Value>>,
    pub(crate) log: Vec<Stored>,
    revision: u64,
    uids: u64,
}

/// The API server. Clones are the same one.
#[derive(Debug, Clone)]
pub struct ApiServer {
    pub(crate) definitions: Arc<Vec<Definition>>,
    state: Arc<Mutex<State>>,
    revision: Arc<Counter>,
    began: Instant,
}

impl ApiServer {
    /// An empty one that serves Deployments, Services, Pods, Events and `custom` resources.
    pub fn new(custom: Vec<Definition>) -> Self {
        let mut definitions = vec![
            Definition::built_in("apps", "v1", "Deployment", "deployments"),
            Definition::built_in("", "v1", "Service", "services"),
            Definition::built_in("", "v1", "Pod", "pods"),
            Definition::built_in("events.k8s.io", "v1", "Event", "events"),
        ];
        definitions.extend(custom);
        ApiServer {
            definitions: Arc::new(definitions),
            state: Arc::default(),
            revision: Arc::default(),
            began: Instant::now(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something is written after `revision`.
    pub async fn written_after(&self, revision: u64) {
        self.revision.reaches(revision + 1).await;
    }

    /// The revision of the last write.
    pub fn revision(&self) -> u64 {
        self.revision.get()
    }

    /// The time of day, whole seconds of which objects are stamped with.
    pub fn now(&self) -> Timestamp {
        let elapsed = self.began.elapsed();
        let epoch = Timestamp::from_second(EPOCH).unwrap_or(Timestamp::UNIX_EPOCH);
        epoch + jiff::SignedDuration::try_from(elapsed).unwrap_or(jiff::SignedDuration::ZERO)
    }

    /// Time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn stamp(&self) -> String {
        self.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// The object, if it is there.
    pub fn get(&self, id: &ObjectId) -> Option<Arc<Value>> {
        self.lock().objects.get(id).cloned()
    }

    /// All objects of a type.
    pub fn all(&self, plural: &str) -> Vec<Arc<Value>> {
        let state = self.lock();
        let of_type = state.objects.iter().filter(|(id, _)| id.plural == plural);
        of_type.map(|(_, object)| Arc::clone(object)).collect()
    }

    /// Every write since the beginning, in order, from the `from`-th.
    pub fn log(&self, from: usize) -> Vec<Stored> {
        self.lock().log.get(from..).unwrap_or_default().to_vec()
    }

    /// The objects of a type as they were at `revision`.
    pub(crate) fn snapshot(&self, plural: &str, revision: u64) -> Vec<Arc<Value>> {
        let state = self.lock();
        let mut objects = BTreeMap::new();
        for stored in &state.log {
            if stored.revision > revision || stored.id.plural != plural {
                continue;
            }
            match stored.change {
                Change::Deleted => objects.remove(&stored.id),
                Change::Added | Change::Modified => {
                    objects.insert(stored.id.clone(), Arc::clone(&stored.object))
                }
            };
        }
        objects.into_values().collect()
    }

    pub(crate) fn definition(&self, plural: &str) -> Option<&Definition> {
        self.definitions.iter().find(|it| it.plural == plural)
    }

    /// Stores `object` as `id`; it replaces what is there. Metadata that the API server sets is
    /// set here. Returns what is stored, which is what was there if nothing differs.
    pub(crate) fn put(&self, id: &ObjectId, mut object: Value, by: &str) -> Arc<Value> {
        // What is empty is not stored.
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            metadata.retain(|_, member| *member != json!({}) && *member != json!([]));
        }
        let mut state = self.lock();
        let before = state.objects.get(id).cloned();
        if before
            .as_ref()
            .is_some_and(|before| is_same(before, &object))
        {
            return before.unwrap_or_default();
        }
        let now = self.stamp();
        state.revision += 1;
        let revision = state.revision;
        let definition = self.definition(&id.plural);
        if let (Some(definition), Some(members)) = (definition, object.as_object_mut()) {
            members.insert("apiVersion".into(), definition.api_version().into());
            members.insert("kind".into(), definition.kind.clone().into());
        }
        let generation = generation(before.as_deref(), &object, &id.plural);
        let uid = match &before {
            Some(before) => before["metadata"]["uid"].clone(),
            None => {
                state.uids += 1;
                format!("uid-{}-{}", state.uids, id.plural).into()
            }
        };
        let created = match &before {
            Some(before) => before["metadata"]["creationTimestamp"].clone(),
            None => now.into(),
        };
        let metadata = &mut object["metadata"];
        metadata["name"] = id.name.clone().into();
        metadata["namespace"] = id.namespace.clone().into();
        metadata["uid"] = uid;
        metadata["creationTimestamp"] = created;
        metadata["resourceVersion"] = revision.to_string().into();
        if let Some(generation) = generation {
            metadata["generation"] = generation.into();
        }
        // The one default that the Deployment controller of this model depends on.
        if id.plural == "deployments" && object["spec"].get("replicas").is_none() {
            object["spec"]["replicas"] = 1.into();
        }
        let metadata = &object["metadata"];
        let is_finished = metadata.get("deletionTimestamp").is_some()
            && metadata["finalizers"].as_array().is_none_or(Vec::is_empty);
        let object = Arc::new(object);
        let change = match (&before, is_finished) {
            (_, true) => Change::Deleted,
            (None, _) => Change::Added,
            (Some(_), _) => Change::Modified,
        };
        match change {
            Change::Deleted => state.objects.remove(id),
            Change::Added | Change::Modified => {
                state.objects.insert(id.clone(), Arc::clone(&object))
            }
        };
        self.note(&mut state, id, change, &object, before, by);
        object
    }

    /// Removes an object, or marks it as being deleted where a finalizer holds it.
    pub(crate) fn remove(&self, id: &ObjectId, by: &str) -> Option<Arc<Value>> {
        let found = self.get(id)?;
        let finalizers = found["metadata"]["finalizers"].as_array();
        let mut object = (*found).clone();
        if finalizers.is_some_and(|finalizers| !finalizers.is_empty()) {
            if object["metadata"].get("deletionTimestamp").is_none() {
                object["metadata"]["deletionTimestamp"] = self.stamp().into();
                return Some(self.put(id, object, by));
            }
            return Some(found);
        }
        let mut state = self.lock();
        state.revision += 1;
        object["metadata"]["resourceVersion"] = state.revision.to_string().into();
        state.objects.remove(id);
        let object = Arc::new(object);
        self.note(&mut state, id, Change::Deleted, &object, Some(found), by);
        Some(object)
    }

    fn note(
        &self,
        state: &mut State,
        id: &ObjectId,
        change: Change,
        object: &Arc<Value>,
        before: Option<Arc<Value>>,
        by: &str,
    ) {
        let revision = state.revision;
        state.log.push(Stored {
            revision,
            at: self.elapsed(),
            id: id.clone(),
            change,
            object: Arc::clone(object),
            before,
            by: by.to_owned(),
        });
        self.revision.set(revision);
    }

    /// As a user, or any other client, whose name is `by`: creates or replaces the members of
    /// the object that `members` has, as `kubectl apply` or `kubectl patch` does.
    pub fn write(&self, id: &ObjectId, members: &Value, by: &str) -> Arc<Value> {
        let before = self.get(id);
        let mut object = before.as_deref().cloned().unwrap_or_else(|| json!({}));
        json_patch::merge(&mut object, members);
        if object.get("metadata").is_none() {
            object["metadata"] = json!({});
        }
        if self.definition(&id.plural).is_some_and(|it| !it.is_custom) {
            if let Some(definition) = self.definition(&id.plural) {
                object["apiVersion"] = definition.api_version().into();
            }
            crate::apply::updated(before.as_deref(), &mut object, by, &self.stamp());
        }
        self.put(id, object, by)
    }

    /// As a user: deletes the object.
    pub fn delete(&self, id: &ObjectId, by: &str) {
        self.remove(id, by);
    }
}

/// Whether a write changes nothing: the times of `managedFields` do not count.
fn is_same(before: &Value, after: &Value) -> bool {
    let stripped = |object: &Value| {
        let mut object = object.clone();
        let entries = object.pointer_mut("/metadata/managedFields");
        for entry in entries.and_then(Value::as_array_mut).into_iter().flatten() {
            entry["time"] = Value::Null;
        }
        if let Some(entries) = object.pointer_mut("/metadata/managedFields")
            && let Some(entries) = entries.as_array_mut()
        {
            entries.sort_by_key(ToString::to_string);
        }
        object
    };
    stripped(before) == stripped(after)
}

/// The generation after a write. A Deployment's counts changes of its annotations, too
/// (`pkg/registry/apps/deployment/strategy.go`); a Service and an Event have none.
fn generation(before: Option<&Value>, after: &Value, plural: &str) -> Option<i64> {
    if matches!(plural, "services" | "events" | "pods") {
        return None;
    }
    let Some(before) = before else { return Some(1) };
    let number = before["metadata"]["generation"].as_i64().unwrap_or(1);
    let is_deleted = |object: &Value| object["metadata"].get("deletionTimestamp").is_some();
    let annotations = |object: &Value| object["metadata"]["annotations"].clone();
    let differs = before["spec"] != after["spec"]
        || is_deleted(before) != is_deleted(after)
        || (plural == "deployments" && annotations(before) != annotations(after));
    Some(number + i64::from(differs))
}
