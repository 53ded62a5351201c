//! The state of a conversion: converts one object after another, and collects the answer. Used by
//! `reading`, which parses the review.

use std::borrow::Cow;
use std::fmt;

use axum::http::StatusCode;

use crate::api::Kind;
use crate::api::conversion::{ConvertedText, convert_into};
use crate::api::raw::{Envelope, write_json};
use crate::bounded::shortened;
use crate::budget::{CALL_BYTES, OBJECT_BYTES, STEP_BYTES};
use crate::json::Json;
use crate::log_limit::LogLimit;
use crate::webhook::answer::{Answer, beginning_of};
use crate::webhook::body::{NoMemory, Share};
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
    /// Bytes of the body and of `pieces`.
    bytes: usize,
    /// The answer before [`Work::out`].
    pieces: Vec<Vec<u8>>,
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
            bytes: body_bytes,
            pieces: Vec::new(),
            out,
            objects: 0,
            converted: Vec::new(),
            failure: None,
        }
    }

    pub(super) fn convert(&mut self, object: Envelope<'_>, desired: &str) -> Result<(), Failure> {
        static LEFT_OUT: LogLimit = LogLimit::new();
        let bytes = object.bytes();
        let Envelope(object) = object;
        let place = Place::of(&object);
        let name = object.get("kind").and_then(Json::text).unwrap_or_default();
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
                object = %place,
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
            NoMemory::OverLimit => failure(format!(
                "the answer would be too long: the review and its answer may have {CALL_BYTES} bytes \
                 together; ask for fewer objects at a time"
            )),
        })
    }

    /// Charges the output, and begins another piece if it is long.
    fn store(&mut self) -> Result<(), NoMemory> {
        self.share.grow(self.bytes + self.out.len())?;
        if self.out.len() >= STEP_BYTES {
            self.bytes += self.out.len();
            let next = Vec::with_capacity(STEP_BYTES + STEP_BYTES / 4);
            let mut piece = std::mem::replace(&mut self.out, next);
            piece.shrink_to_fit();
            self.pieces.push(piece);
        }
        Ok(())
    }

    /// The complete answer.
    pub(super) fn end(mut self, uid: &str) -> Answer {
        self.out.extend_from_slice(AFTER_OBJECTS);
        write_json(&mut self.out, uid);
        self.out.extend_from_slice(b"}}");
        self.pieces.push(self.out);
        Answer::text(self.pieces)
    }
}

/// `namespace/name` of an object, for messages; as JSON until then.
struct Place<'a>([Option<Json<'a>>; 2]);

impl<'a> Place<'a> {
    fn of(object: &Json<'a>) -> Self {
        let metadata = object.get("metadata");
        Self(["namespace", "name"].map(|field| metadata?.get(field).cloned()))
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [namespace, name] = self.0.each_ref().map(|field| field.as_ref()?.text());
        if let Some(namespace) = namespace {
            write!(formatter, "{}/", shortened(&namespace))?;
        }
        formatter.write_str(&shortened(&name.unwrap_or(Cow::Borrowed("?"))))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::operators::{Operator as _, memcached::Memcached};

    /// Converts Memcacheds of these lengths in one call, whose body has `body_bytes`; returns the last
    /// error.
    fn converted(body_bytes: usize, lengths: &[usize]) -> Option<String> {
        let memory = Arc::new(Semaphore::new(CALL_BYTES));
        let mut share = Share::new(&memory);
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
            let text = object(length - short.bytes());
            let object = serde_json::from_str(&text).unwrap();
            failure = match work.convert(object, "cache.example.com/v1") {
                Ok(()) => None,
                Err(Failure::Object(_, message)) => Some(message),
                Err(Failure::Busy) => Some("busy".to_owned()),
            };
        }
        failure
    }

    #[test]
    fn an_object_may_have_seven_mebibytes() {
        assert_eq!(converted(OBJECT_BYTES, &[OBJECT_BYTES]), None);
        let over = converted(OBJECT_BYTES, &[OBJECT_BYTES + 1]).unwrap();
        assert!(
            over.contains("ns/cache: the object has more than"),
            "{over}"
        );
    }

    #[test]
    fn an_answer_is_charged_with_all_that_was_written_of_it() {
        let (long, body) = (4 * STEP_BYTES, CALL_BYTES - 6 * STEP_BYTES);
        assert_eq!(converted(body, &[long]), None);
        let over = converted(body, &[long, long]).unwrap();
        assert!(over.contains("the answer would be too long"), "{over}");
    }
}
