//! The objects of one type as the JSON that the API server sends, and the last writes, for watches.
//! One lock a type. Knows nothing of what is in the objects but their metadata.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

/// Writes that a watch may be behind. It gets a 410 then, as from an API server, whose watch cache
/// has a limit, too (apiserver `storage/cacher/cacher.go`, up to 102 400).
const KEPT: usize = 20_000;

/// A type of objects.
#[derive(Debug, Clone, Copy)]
pub(super) struct Type {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    pub(super) plural: &'static str,
    /// A custom resource.
    pub(super) is_custom: bool,
    /// `metadata.generation` counts changes of its spec.
    pub(super) has_generation: bool,
}

impl Type {
    pub(super) fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The beginning of every object.
    fn head(&self) -> String {
        let (api_version, kind) = (self.api_version(), self.kind);
        format!("{{\"apiVersion\":\"{api_version}\",\"kind\":\"{kind}\",")
    }
}

/// A write, for watches.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) revision: u64,
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub(super) change: &'static str,
    body: Bytes,
}

#[derive(Debug, Default)]
struct Inner {
    /// By `namespace/name`, without apiVersion and kind, which all have in common.
    objects: BTreeMap<String, Bytes>,
    events: VecDeque<Event>,
    /// The revision of the last event that is no longer kept.
    forgotten: u64,
}

/// All objects of a type.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) of: Type,
    head: String,
    inner: Mutex<Inner>,
    /// Of the last write of any type.
    revision: Arc<AtomicU64>,
    newest: watch::Sender<u64>,
}

/// A watch is behind by more than what is kept.
#[derive(Debug)]
pub(super) struct Expired;

impl Table {
    pub(super) fn new(of: Type, revision: &Arc<AtomicU64>) -> Self {
        Self {
            of,
            head: of.head(),
            inner: Mutex::default(),
            revision: Arc::clone(revision),
            newest: watch::Sender::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The revision of the last write of this type.
    pub(super) fn newest(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// The object with what all have in common, as an answer.
    pub(super) fn get(&self, key: &str) -> Option<Bytes> {
        let body = self.lock().objects.get(key).cloned()?;
        Some(self.whole(&body))
    }

    fn whole(&self, body: &Bytes) -> Bytes {
        let body = body.get(1..).unwrap_or_default();
        [self.head.as_bytes(), body].concat().into()
    }

    /// Makes of an object, `None` if there is none, another: what `change` makes of it. Sets what the
    /// API server sets in its metadata. Returns what is stored.
    ///
    /// # Errors
    /// Those of `change`; nothing is written then.
    pub(super) fn write<E>(
        &self,
        key: &str,
        change: impl FnOnce(Option<Value>) -> Result<Value, E>,
    ) -> Result<Bytes, E> {
        let mut inner = self.lock();
        let live = inner.objects.get(key);
        let live: Option<Value> = live.and_then(|body| serde_json::from_slice(body).ok());
        let spec = live.as_ref().map(|live| live["spec"].clone());
        let old = live.as_ref().map(|live| live["metadata"].clone());
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let mut object = change(live)?;
        let revision = self.revision.fetch_add(1, Ordering::SeqCst) + 1;
        let metadata = &mut object["metadata"];
        metadata["namespace"] = namespace.into();
        metadata["name"] = name.into();
        metadata["resourceVersion"] = revision.to_string().into();
        match &old {
            Some(old) => {
                for field in ["uid", "creationTimestamp"] {
                    metadata[field] = old[field].clone();
                }
            }
            None => {
                metadata["uid"] = format!("5ca1e000-0000-4000-8000-{revision:012x}").into();
                metadata["creationTimestamp"] = now().into();
            }
        }
        if self.of.has_generation {
            let last = old.as_ref().and_then(|old| old["generation"].as_i64());
            let differs = spec.is_some_and(|spec| spec != object["spec"]);
            object["metadata"]["generation"] = match last {
                Some(last) => (last + i64::from(differs)).into(),
                None => 1.into(),
            };
        }
        let body = encoded(object);
        let change = match inner.objects.insert(key.to_owned(), body.clone()) {
            Some(_) => "MODIFIED",
            None => "ADDED",
        };
        self.note(&mut inner, revision, change, body.clone());
        Ok(self.whole(&body))
    }

    /// Removes an object, if it is there.
    pub(super) fn remove(&self, key: &str) {
        let mut inner = self.lock();
        let Some(body) = inner.objects.remove(key) else {
            return;
        };
        let revision = self.revision.fetch_add(1, Ordering::SeqCst) + 1;
        let mut object: Value = serde_json::from_slice(&body).unwrap_or_default();
        object["metadata"]["resourceVersion"] = revision.to_string().into();
        self.note(&mut inner, revision, "DELETED", encoded(object));
    }

    fn note(&self, inner: &mut Inner, revision: u64, change: &'static str, body: Bytes) {
        inner.events.push_back(Event {
            revision,
            change,
            body,
        });
        if inner.events.len() > KEPT
            && let Some(oldest) = inner.events.pop_front()
        {
            inner.forgotten = oldest.revision;
        }
        self.newest.send_replace(revision);
    }

    /// At most `limit` objects of the namespace, or of all if that is empty, behind `after`, which is
    /// what the page before says in `continue`.
    pub(super) fn page(&self, namespace: &str, limit: usize, after: Option<&str>) -> Bytes {
        let (at, after) = match after.and_then(|token| token.split_once(':')) {
            Some((revision, key)) => (revision.parse().ok(), Bound::Excluded(key)),
            None => (None, Bound::Unbounded),
        };
        let inner = self.lock();
        // No write of this type is under way, so the list is not behind.
        let revision = at.unwrap_or_else(|| self.revision.load(Ordering::SeqCst));
        let mut rest = inner.objects.range::<str, _>((after, Bound::Unbounded));
        let is_here = |key: &str| {
            namespace.is_empty() || key.split_once('/').is_some_and(|(it, _)| it == namespace)
        };
        let mut items: Vec<Bytes> = Vec::new();
        let mut last = None;
        for (key, body) in rest.by_ref().filter(|(key, _)| is_here(key)) {
            items.push(body.clone());
            if items.len() == limit {
                last = Some(key.clone());
                break;
            }
        }
        let has_more = rest.any(|(key, _)| is_here(key));
        drop(inner);
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if let Some(last) = last.filter(|_| has_more) {
            metadata["continue"] = format!("{revision}:{last}").into();
        }
        self.list(&metadata, &items)
    }

    /// A list of the object alone, if it is there.
    pub(super) fn list_of_one(&self, key: &str) -> Bytes {
        let inner = self.lock();
        let revision = self.revision.load(Ordering::SeqCst);
        let items: Vec<_> = inner.objects.get(key).cloned().into_iter().collect();
        drop(inner);
        self.list(&json!({"resourceVersion": revision.to_string()}), &items)
    }

    fn list(&self, metadata: &Value, items: &[Bytes]) -> Bytes {
        let (api_version, kind) = (self.of.api_version(), self.of.kind);
        let head = format!(
            "{{\"kind\":\"{kind}List\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":["
        );
        let size: usize = items.iter().map(|body| body.len() + self.head.len()).sum();
        let mut body = Vec::with_capacity(head.len() + size + 4);
        body.extend_from_slice(head.as_bytes());
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                body.push(b',');
            }
            // The API server leaves type and version out of the items of what it knows.
            match self.of.is_custom {
                true => {
                    body.extend_from_slice(self.head.as_bytes());
                    body.extend_from_slice(item.get(1..).unwrap_or_default());
                }
                false => body.extend_from_slice(item),
            }
        }
        body.extend_from_slice(b"]}\n");
        body.into()
    }

    /// Up to `limit` writes after `after`, the oldest first.
    pub(super) fn events(&self, after: u64, limit: usize) -> Result<Vec<Event>, Expired> {
        let inner = self.lock();
        if after < inner.forgotten {
            return Err(Expired);
        }
        let first = inner.events.partition_point(|it| it.revision <= after);
        Ok(inner
            .events
            .iter()
            .skip(first)
            .take(limit)
            .cloned()
            .collect())
    }

    /// A write as a line of a watch.
    pub(super) fn line(&self, event: &Event) -> Bytes {
        let body = event.body.get(1..).unwrap_or_default();
        let change = event.change;
        let start = format!("{{\"type\":\"{change}\",\"object\":{}", self.head);
        [start.as_bytes(), body, b"}\n"].concat().into()
    }

    /// What a watch has been told of up to now, if it was told of all writes of this type.
    pub(super) fn bookmark(&self) -> (u64, Bytes) {
        let _no_write = self.lock();
        let revision = self.revision.load(Ordering::SeqCst);
        let line = format!(
            "{{\"type\":\"BOOKMARK\",\"object\":{}\"metadata\":{{\"resourceVersion\":\"{revision}\",\
             \"creationTimestamp\":null}}}}}}\n",
            self.head
        );
        (revision, line.into())
    }
}

/// The object without apiVersion and kind.
fn encoded(mut object: Value) -> Bytes {
    if let Some(members) = object.as_object_mut() {
        members.remove("apiVersion");
        members.remove("kind");
    }
    object.to_string().into()
}

/// The time of day as objects are stamped with it.
pub(super) fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests;
