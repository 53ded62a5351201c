//! The state of a conversion: converts one object after another, and collects the answer. Used by
//! `reading`, which parses the review.

use crate::api::Kind;
use crate::api::conversion::{ConvertedText, convert_into};
use crate::api::raw::{Envelope, Members, write_json};
use crate::bounded::shortened;
use crate::budget::OBJECT_BYTES;
use crate::log_limit::LogLimit;
use crate::webhook::answer::{Answer, beginning_of};
use crate::webhook::metrics::{Conversion, UNKNOWN};

/// The answer before its objects, and between its objects and its uid.
const BEFORE_OBJECTS: &[u8] =
    br#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"convertedObjects":["#;
const AFTER_OBJECTS: &[u8] = br#"],"result":{"status":"Success"},"uid":"#;

/// The state of a conversion.
pub(super) struct Work<'c> {
    kinds: &'c [&'static Kind],
    /// Maximum bytes of the answer.
    limit: usize,
    /// The answer, up to the last object.
    out: Vec<u8>,
    objects: u64,
    /// Numbers of converted objects, and of those that lost data. A short list: a call has one kind and
    /// usually one version.
    pub(super) converted: Vec<(Conversion, u64, u64)>,
    /// The error that ended it.
    pub(super) failure: Option<Failure>,
}

/// An object that could not be converted; the message names it.
pub(super) struct Failure(pub(super) Conversion, pub(super) String);

impl<'c> Work<'c> {
    pub(super) fn new(kinds: &'c [&'static Kind], limit: usize) -> Self {
        // The kernel provides memory when it is written.
        let mut out = Vec::with_capacity(limit);
        out.extend_from_slice(BEFORE_OBJECTS);
        Self {
            kinds,
            limit,
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
            Failure(conversion, format!("{place}: {message}"))
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
        if self.out.len() > self.limit {
            return Err(failure(format!(
                "the answer would be too long: it may have {} bytes; ask for fewer objects at a time",
                self.limit
            )));
        }
        Ok(())
    }

    /// The complete answer.
    pub(super) fn end(mut self, uid: &str) -> Answer {
        self.out.extend_from_slice(AFTER_OBJECTS);
        write_json(&mut self.out, uid);
        self.out.extend_from_slice(b"}}");
        Answer::text(self.out)
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
    use serde_json::json;

    use super::*;
    use crate::budget::FREE_BYTES;
    use crate::operators::{Operator as _, memcached::Memcached};

    /// Converts Memcacheds of these lengths in one call; returns the last error.
    fn converted(limit: usize, lengths: &[usize]) -> Option<String> {
        let kinds = [Memcached.kind()];
        let mut work = Work::new(&kinds, limit);
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
            let converted = work.convert(object, "cache.example.com/v1");
            failure = converted.err().map(|Failure(_, message)| message);
        }
        failure
    }

    #[test]
    fn an_object_may_have_seven_mebibytes() {
        assert_eq!(converted(2 * OBJECT_BYTES, &[OBJECT_BYTES]), None);
        let over = converted(2 * OBJECT_BYTES, &[OBJECT_BYTES + 1]).unwrap();
        assert!(
            over.contains("ns/cache: the object has more than"),
            "{over}"
        );
    }

    #[test]
    fn all_objects_of_an_answer_count() {
        let limit = 3 * FREE_BYTES;
        assert_eq!(converted(limit, &[FREE_BYTES; 2]), None);
        let over = converted(limit, &[FREE_BYTES; 3]).unwrap();
        assert!(over.contains("the answer would be too long"), "{over}");
    }
}
