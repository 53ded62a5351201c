//! The state of a conversion: converts one object after another, and collects the answer. Used by
//! `reading`, which parses the review.

use axum::http::StatusCode;

use crate::api::Kind;
use crate::api::conversion::{ConvertedText, convert_into};
use crate::api::raw::{Envelope, Members, write_json};
use crate::bounded::shortened;
use crate::budget::{OBJECT_BYTES, STEP_BYTES};
use crate::log_limit::LogLimit;
use crate::webhook::answer::{Answer, beginning_of};
use crate::webhook::body::{Buffer, Mapped};
use crate::webhook::memory::{NoMemory, Share};
use crate::webhook::metrics::{Conversion, UNKNOWN};

/// The answer before its objects, and between its objects and its uid.
const BEFORE_OBJECTS: &[u8] =
    br#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"convertedObjects":["#;
const AFTER_OBJECTS: &[u8] = br#"],"result":{"status":"Success"},"uid":"#;

/// The answer if there is no free memory.
pub(super) fn busy() -> Answer {
    let message = NoMemory::Busy.to_string();
    Answer::rejection(StatusCode::SERVICE_UNAVAILABLE, &message)
}

/// The state of a conversion.
pub(super) struct Work<'c> {
    kinds: &'c [&'static Kind],
    /// The memory of the answer, in addition to the body.
    share: &'c mut Share,
    body_bytes: usize,
    /// The answer before [`Work::out`]; `None` while it is short.
    before: Option<Mapped>,
    before_bytes: usize,
    /// The end of the answer, up to the last object.
    out: Vec<u8>,
    objects: u64,
    /// Numbers of converted objects, and of those that lost data. A short list: a call has one kind and
    /// usually one version.
    pub(super) converted: Vec<(Conversion, u64, u64)>,
    /// The error that ended it.
    pub(super) failure: Option<Failure>,
}

/// Why a call failed.
pub(super) enum Failure {
    /// An object could not be converted; the message names it.
    Object(Conversion, String),
    /// There is no free memory for the answer.
    Busy,
}

impl<'c> Work<'c> {
    pub(super) fn new(kinds: &'c [&'static Kind], body_bytes: usize, share: &'c mut Share) -> Self {
        // The answer is about as long as the request.
        let mut out = Vec::with_capacity(body_bytes.min(STEP_BYTES) + BEFORE_OBJECTS.len());
        out.extend_from_slice(BEFORE_OBJECTS);
        Self {
            kinds,
            share,
            body_bytes,
            before: None,
            before_bytes: 0,
            out,
            objects: 0,
            converted: Vec::new(),
            failure: None,
        }
    }

    pub(super) fn convert(&mut self, object: Envelope<'_>, desired: &str) -> Result<(), Failure> {
        static LEFT_OUT: LogLimit = LogLimit::new();
        let bytes = object.bytes;
        let place = place(&object.metadata);
        let name = object.members.text("kind").unwrap_or_default();
        let (group, version) = desired.split_once('/').unwrap_or(("", desired));
        let mut kinds = self.kinds.iter().copied();
        let kind = kinds.find(|kind| kind.group == group && kind.kind == name);
        let to = kind.and_then(|kind| kind.version(version));
        let failure = |message: String| {
            let conversion = Conversion {
                kind: kind.map_or(UNKNOWN, |kind| kind.kind),
                from: UNKNOWN,
                to: to.map_or(UNKNOWN, |to| to.name),
            };
            Failure::Object(conversion, format!("{place}: {message}"))
        };
        let (Some(kind), Some(to)) = (kind, to) else {
            return Err(failure(format!(
                "cannot convert a {:?} to {:?}: not a kind and version of this operator",
                shortened(&name),
                shortened(desired)
            )));
        };
        if bytes > OBJECT_BYTES {
            let message = format!("the object has more than {OBJECT_BYTES} bytes");
            return Err(failure(message));
        }
        if self.objects > 0 {
            self.out.push(b',');
        }
        let ConvertedText {
            from,
            data_left_out,
        } = convert_into(&mut self.out, kind, object, to)
            .map_err(|error| failure(beginning_of(&error)))?;
        self.objects += 1;
        if data_left_out && let Some(omitted) = LEFT_OUT.admit() {
            tracing::warn!(
                object = place,
                from,
                to = to.name,
                omitted,
                "the annotations have no room for the fields that the version lacks"
            );
        }
        let conversion = Conversion {
            kind: kind.kind,
            from,
            to: to.name,
        };
        let lost = u64::from(data_left_out);
        let mut known = self.converted.iter_mut();
        match known.find(|(known, ..)| *known == conversion) {
            Some((_, count, all_lost)) => (*count, *all_lost) = (*count + 1, *all_lost + lost),
            None => self.converted.push((conversion, 1, lost)),
        }
        self.store().map_err(|problem| match problem {
            NoMemory::Busy => Failure::Busy,
            NoMemory::OverLimit { limit } => failure(format!(
                "the answer would be too long: the review and its answer may have {limit} bytes \
                 together; ask for fewer objects at a time"
            )),
        })
    }

    /// Moves a long piece of the output to mapped memory.
    fn store(&mut self) -> Result<(), NoMemory> {
        if self.out.len() < STEP_BYTES {
            return Ok(());
        }
        let total = self.body_bytes + self.before_bytes + self.out.len();
        self.share.try_grow(total)?;
        let before = match &mut self.before {
            Some(before) => before,
            None => {
                let most = self.share.limit() + OBJECT_BYTES;
                let mapped = Mapped::new(most).map_err(|_| NoMemory::Busy)?;
                self.before.insert(mapped)
            }
        };
        if !before.push(&self.out) {
            return Err(NoMemory::Busy);
        }
        self.before_bytes += self.out.len();
        self.out.clear();
        // Releases the capacity of a long object.
        self.out.shrink_to(2 * STEP_BYTES);
        Ok(())
    }

    /// The complete answer.
    pub(super) fn end(mut self, uid: &str) -> Answer {
        self.out.extend_from_slice(AFTER_OBJECTS);
        write_json(&mut self.out, uid);
        self.out.extend_from_slice(b"}}");
        let Some(mut before) = self.before else {
            return Answer::text(Buffer::Collected(self.out));
        };
        match before.push(&self.out) {
            true => Answer::text(Buffer::Mapped(before)),
            false => busy(),
        }
    }
}

/// `namespace/name` of an object, for messages.
fn place(metadata: &Members<'_>) -> String {
    let text = |field: &str| Some(shortened(&metadata.text(field)?).into_owned());
    let name = text("name").unwrap_or_else(|| "?".to_owned());
    match text("namespace") {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use serde_json::json;

    use super::*;
    use crate::budget::{SHARED_BODY, SHARED_BYTES};
    use crate::operators::{Operator as _, memcached::Memcached};
    use crate::webhook::memory::Memory;

    /// Converts Memcacheds of these lengths in one call, whose body has `body_bytes`; returns the last
    /// error.
    async fn converted(body_bytes: usize, lengths: &[usize]) -> Option<String> {
        let memory = Memory::default();
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let mut share = memory.share(SHARED_BODY, peer).await.unwrap();
        let kinds = [Memcached.kind()];
        let mut work = Work::new(&kinds, body_bytes, &mut share);
        let mut failure = None;
        for length in lengths {
            let object = |padding: usize| {
                let object = json!({
                    "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
                    "metadata": {"namespace": "ns", "name": "cache"},
                    "spec": {"size": 1}, "status": {"selector": "x".repeat(padding)},
                });
                object.to_string()
            };
            let short = object(0);
            let short: Envelope<'_> = serde_json::from_str(&short).unwrap();
            let text = object(length - short.bytes);
            let object = serde_json::from_str(&text).unwrap();
            failure = match work.convert(object, "cache.example.com/v1") {
                Ok(()) => None,
                Err(Failure::Object(_, message)) => Some(message),
                Err(Failure::Busy) => Some("busy".to_owned()),
            };
        }
        failure
    }

    #[tokio::test]
    async fn an_object_may_have_seven_mebibytes() {
        assert_eq!(converted(OBJECT_BYTES, &[OBJECT_BYTES]).await, None);
        let over = converted(OBJECT_BYTES, &[OBJECT_BYTES + 1]).await.unwrap();
        assert!(
            over.contains("ns/cache: the object has more than"),
            "{over}"
        );
    }

    #[tokio::test]
    async fn an_answer_is_charged_with_all_that_was_written_of_it() {
        let (long, body) = (4 * STEP_BYTES, SHARED_BYTES - 6 * STEP_BYTES);
        assert_eq!(converted(body, &[long]).await, None);
        let over = converted(body, &[long, long]).await.unwrap();
        assert!(over.contains("the answer would be too long"), "{over}");
    }
}
