//! Conversion: reads a ConversionReview and writes its answer in one pass, object by object, so that a
//! list takes no more memory than its text. The first object that cannot be converted fails the whole
//! call, as the API requires.
//!
//! A request, shortened, and its response:
//!
//! ```json
//! {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": {
//!     "uid": "705ab4f5", "desiredAPIVersion": "cache.example.com/v1",
//!     "objects": [{"apiVersion": "cache.example.com/v1alpha1", "kind": "Cache",
//!                  "metadata": {"name": "a"}, "spec": {"size": 3}}]}}
//! {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": {
//!     "convertedObjects": [{"apiVersion": "cache.example.com/v1", "kind": "Cache",
//!                           "metadata": {"name": "a"}, "spec": {"replicas": 3}}],
//!     "result": {"status": "Success"}, "uid": "705ab4f5"}}
//! ```

use axum::http::StatusCode;
use serde_json::value::RawValue;
use serde_json::{Deserializer, json};

use super::answer::{Answer, beginning_of};
use super::metrics::{Metrics, UNKNOWN};
use crate::limits::OBJECT_BYTES;
use quartet_http::LogLimit;
use quartet_http::bounded::shortened;
use quartet_versions::Kind;
use quartet_versions::conversion::convert_into;
use quartet_versions::raw::Members;

/// apiVersion and kind of the reviews.
pub(super) const REVIEW: [&str; 2] = ["apiextensions.k8s.io/v1", "ConversionReview"];

/// The answer before its objects, and between its objects and its uid.
const BEFORE_OBJECTS: &[u8] =
    br#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"convertedObjects":["#;
const AFTER_OBJECTS: &[u8] = br#"],"result":{"status":"Success"},"uid":"#;

/// Converts objects, one after another, into one answer.
struct Work<'c> {
    kinds: &'c [&'static Kind],
    metrics: &'c Metrics,
    /// Maximum bytes of the answer.
    limit: usize,
    /// The answer, up to the last object.
    out: Vec<u8>,
}

/// The answer to the request with this uid, of at most `limit` bytes.
pub(super) fn answer(
    kinds: &[&'static Kind],
    uid: &str,
    request: &Members<'_>,
    limit: usize,
    metrics: &Metrics,
) -> Answer {
    static FAILED: LogLimit = LogLimit::new();
    let mut work = Work {
        kinds,
        metrics,
        limit,
        // The kernel provides memory when it is written.
        out: Vec::with_capacity(limit),
    };
    work.out.extend_from_slice(BEFORE_OBJECTS);
    match work.convert_all(request) {
        Ok(()) => {
            work.out.extend_from_slice(AFTER_OBJECTS);
            work.out
                .extend_from_slice(json!(uid).to_string().as_bytes());
            work.out.extend_from_slice(b"}}");
            Answer::new(StatusCode::OK, work.out)
        }
        Err(message) => {
            if let Some(omitted) = FAILED.admit() {
                tracing::warn!(error = message, omitted, "a conversion failed");
            }
            failed(uid, &message)
        }
    }
}

/// A review that reports a failure.
pub(super) fn failed(uid: &str, message: &str) -> Answer {
    let result = json!({"status": "Failure", "message": message});
    let response = json!({"uid": uid, "convertedObjects": [], "result": result});
    Answer::review(REVIEW, &response)
}

impl Work<'_> {
    /// Parses and converts each object before the next, so that only one parsed object is in memory.
    fn convert_all(&mut self, request: &Members<'_>) -> Result<(), String> {
        let unreadable = |problem: &str| format!("cannot read the request: {problem}");
        let desired = request.text("desiredAPIVersion");
        let desired = desired.ok_or_else(|| unreadable("missing field `desiredAPIVersion`"))?;
        // Go encodes an empty slice as null.
        let objects = request.json("objects").filter(|it| *it != "null");
        let list = objects.unwrap_or("[]").strip_prefix('[');
        let list = list.and_then(|list| list.strip_suffix(']'));
        let list = list.ok_or_else(|| unreadable("expected a list of objects"))?;
        let mut rest = list.trim();
        while !rest.is_empty() {
            let mut objects = Deserializer::from_str(rest).into_iter::<&RawValue>();
            if let Some(object) = objects.next() {
                let object = object.map_err(|error| unreadable(&beginning_of(&error)))?;
                self.convert(object.get(), &desired)?;
            }
            let (_, after) = rest.split_at(objects.byte_offset());
            rest = after.trim_start();
            if let Some(next) = rest.strip_prefix(',') {
                self.out.push(b',');
                rest = next.trim_start();
            }
        }
        Ok(())
    }

    fn convert(&mut self, object: &str, desired: &str) -> Result<(), String> {
        static LEFT_OUT: LogLimit = LogLimit::new();
        let in_place = |message| format!("{}: {message}", place(object));
        let members = Members::of(object).map_err(|error| in_place(beginning_of(&error)))?;
        let name = members.text("kind").unwrap_or_default();
        let (group, version) = desired.split_once('/').unwrap_or(("", desired));
        let mut kinds = self.kinds.iter();
        let kind = kinds.find(|kind| kind.group == group && kind.kind == name);
        let Some((kind, to)) = kind.and_then(|kind| Some((kind, kind.version(version)?))) else {
            let unknown = [UNKNOWN; 3];
            self.metrics.converted(unknown, "failure").inc();
            return Err(in_place(format!(
                "cannot convert a {:?} to {:?}: not a kind and version of this operator",
                shortened(&name),
                shortened(desired)
            )));
        };
        let converted = if object.len() <= OBJECT_BYTES {
            convert_into(&mut self.out, kind, members, to).map_err(|it| beginning_of(&it))
        } else {
            Err(format!("the object has more than {OBJECT_BYTES} bytes"))
        };
        let converted = match converted {
            Ok(_) if self.out.len() > self.limit => Err(format!(
                "the answer would be too long: it may have {} bytes; ask for fewer objects at a time",
                self.limit
            )),
            converted => converted,
        };
        let (kind, to) = (kind.kind, to.name);
        let (from, data_left_out) = converted.map_err(|message| {
            self.metrics.converted([kind, UNKNOWN, to], "failure").inc();
            in_place(message)
        })?;
        self.metrics.converted([kind, from, to], "success").inc();
        if data_left_out {
            self.metrics.data_left_out([kind, from, to]).inc();
            if let Some(omitted) = LEFT_OUT.admit() {
                let message = "the annotations have no room for the fields that the version lacks";
                tracing::warn!(object = place(object), from, to, omitted, message);
            }
        }
        Ok(())
    }
}

/// `namespace/name` of an object, for messages.
fn place(object: &str) -> String {
    let members = Members::of(object).unwrap_or_default();
    let metadata = Members::of(members.json("metadata").unwrap_or_default());
    let metadata = metadata.unwrap_or_default();
    let text = |field: &str| Some(shortened(&metadata.text(field)?).into_owned());
    let name = text("name").unwrap_or_else(|| "?".to_owned());
    match text("namespace") {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;
    use serde_json::Value;

    use super::*;
    use crate::limits::FREE_BYTES;
    use crate::review;
    use crate::tests::kinds;

    /// Converts objects of these lengths in one call; returns its error.
    fn converted(limit: usize, lengths: &[usize]) -> Option<String> {
        let object = |padding: usize| {
            let object = json!({
                "apiVersion": "cache.example.com/v1alpha1", "kind": "Cache",
                "metadata": {"namespace": "ns", "name": "cache"},
                "spec": {"size": 1}, "status": {"selector": "x".repeat(padding)},
            });
            object.to_string()
        };
        let bytes = object(0).len();
        let objects: Vec<_> = lengths.iter().map(|it| object(it - bytes)).collect();
        let body = format!(
            r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":
                {{"uid":"u","desiredAPIVersion":"cache.example.com/v1","objects":[{}]}}}}"#,
            objects.join(" , ")
        );
        let (uid, request) = review::parse(body.as_bytes(), REVIEW).unwrap();
        let metrics = Metrics::register(&mut Registry::default(), "quartet_operator");
        let answer = answer(&kinds(), &uid, &request, limit, &metrics);
        let answer: Value = serde_json::from_slice(&answer.body).unwrap();
        let message = answer["response"]["result"]["message"].as_str();
        message.map(str::to_owned)
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
