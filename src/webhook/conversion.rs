//! Conversion: reads a ConversionReview and writes its answer in one pass, object by object, so that a
//! list takes no more memory than its text. The first object that cannot be converted fails the whole
//! call, as the API requires.
//!
//! A request, shortened, and its response:
//!
//! ```json
//! {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": {
//!     "uid": "705ab4f5", "desiredAPIVersion": "cache.example.com/v1",
//!     "objects": [{"apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
//!                  "metadata": {"name": "a"}, "spec": {"size": 3}}]}}
//! {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": {
//!     "convertedObjects": [{"apiVersion": "cache.example.com/v1", "kind": "Memcached",
//!                           "metadata": {"name": "a"}, "spec": {"replicas": 3}}],
//!     "result": {"status": "Success"}, "uid": "705ab4f5"}}
//! ```

mod reading;

use std::borrow::Cow;
use std::fmt;

use axum::http::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeSeed as _;

use super::answer::{Answer, beginning_of, is_uid};
use super::body::{Mapped, Text as Stored};
use super::memory::{NoMemory, Share};
use super::metrics::{Conversion, Metrics};
use crate::api::conversion::{ConvertedText, convert_into};
use crate::api::raw::{Envelope, Structured, Text, write_text};
use crate::api::{Kind, Version};
use crate::bounded::shortened;
use crate::budget::{OBJECT_BYTES, STEP_BYTES};
use crate::json::Json;
use crate::log_limit::LogLimit;
use reading::ReviewSeed;

const API_VERSION: &str = "apiextensions.k8s.io/v1";
const KIND: &str = "ConversionReview";
/// The answer before its objects, and between its objects and its uid.
const BEFORE_OBJECTS: &[u8] =
    br#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"convertedObjects":["#;
const AFTER_OBJECTS: &[u8] = br#"],"result":{"status":"Success"},"uid":"#;

/// The label of an unknown kind or version.
const UNKNOWN: &str = "unknown";

/// The endpoint of all kinds.
#[derive(Debug, Clone)]
pub(super) struct Converter {
    pub(super) kinds: Vec<&'static Kind>,
}

impl Converter {
    /// The answer to `body`. A review with a uid gets a review, unless there is no free memory. `share`
    /// holds the body, and grows with the answer.
    pub(super) fn answer(&self, body: &str, metrics: &Metrics, share: &mut Share) -> Answer {
        static FAILED: LogLimit = LogLimit::new();
        let mut work = Work::new(self, body.len(), share);
        let mut deserializer = serde_json::Deserializer::from_str(body);
        let review = ReviewSeed { work: &mut work }
            .deserialize(&mut deserializer)
            .and_then(|review| deserializer.end().map(|()| review));
        match (review, work.failure.take()) {
            (Ok(review), None) => match review.uid() {
                Ok(uid) => {
                    work.count(metrics);
                    work.end(&uid)
                }
                Err(message) => Answer::refusal(StatusCode::BAD_REQUEST, message),
            },
            // The parser was stopped on purpose; the rest of the body has not been checked.
            (_, Some(Failure::Busy)) => {
                let code = StatusCode::SERVICE_UNAVAILABLE;
                Answer::refusal(code, NoMemory::Busy.to_string())
            }
            (
                _,
                Some(Failure::Of {
                    conversion,
                    message,
                }),
            ) => match uid_in(body) {
                Ok(uid) => {
                    metrics.converted(conversion, false, 1);
                    if let Some(omitted) = FAILED.admit() {
                        tracing::warn!(error = message, omitted, "a conversion failed");
                    }
                    failed(&uid, &message)
                }
                Err(message) => Answer::refusal(StatusCode::BAD_REQUEST, message),
            },
            // The request or the whole review is not valid.
            (Err(error), None) => {
                let error = beginning_of(&error);
                match uid_in(body) {
                    Ok(uid) => failed(&uid, &format!("cannot read the request: {error}")),
                    Err(message) => Answer::refusal(StatusCode::BAD_REQUEST, message),
                }
            }
        }
    }

    fn kind_of(&self, group: &str, name: &str) -> Option<&'static Kind> {
        let mut kinds = self.kinds.iter().copied();
        kinds.find(|kind| kind.group == group && kind.kind == name)
    }
}

/// The answer after a panic: a review if `body` has a uid.
pub(super) fn panicked(body: &str) -> Answer {
    let message = "internal error occurred during conversion";
    match uid_in(body) {
        Ok(uid) => failed(&uid, message),
        Err(_) => Answer::refusal(StatusCode::INTERNAL_SERVER_ERROR, message),
    }
}

/// A review that reports a failure.
fn failed(uid: &str, message: &str) -> Answer {
    Answer::review(&serde_json::json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "response": {
            "uid": uid,
            "convertedObjects": [],
            "result": {"status": "Failure", "message": message},
        },
    }))
}

/// The uid of the review in `body`, or why it is not a review. Does not read the objects.
fn uid_in(body: &str) -> Result<Cow<'_, str>, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Envelope<'a> {
        #[serde(borrow)]
        api_version: Option<Text<'a>>,
        #[serde(borrow)]
        kind: Option<Text<'a>>,
        #[serde(borrow)]
        request: Option<Structured<Request<'a>>>,
    }
    #[derive(Deserialize)]
    struct Request<'a> {
        #[serde(borrow)]
        uid: Option<Text<'a>>,
    }
    let Structured::<Envelope<'_>>(envelope) = serde_json::from_str(body).map_err(|error| {
        let error = beginning_of(&error);
        format!("cannot read the body as a ConversionReview: {error}")
    })?;
    let review = Review {
        api_version: envelope.api_version,
        kind: envelope.kind,
        uid: envelope.request.map(|Structured(request)| request.uid),
    };
    review.uid()
}

/// The rest of a review, without its objects.
#[derive(Debug, Default)]
struct Review<'a> {
    api_version: Option<Text<'a>>,
    kind: Option<Text<'a>>,
    /// The request and its uid, if they exist.
    uid: Option<Option<Text<'a>>>,
}

impl<'a> Review<'a> {
    /// The uid for the answer, if the review is valid.
    fn uid(self) -> Result<Cow<'a, str>, String> {
        let is = |text: &Option<Text<'_>>, wanted: &str| {
            text.as_ref().is_some_and(|Text(text)| text == wanted)
        };
        if !is(&self.kind, KIND) || !is(&self.api_version, API_VERSION) {
            return Err(format!(
                "this endpoint answers reviews of apiVersion {API_VERSION} and kind {KIND} only"
            ));
        }
        match self.uid {
            None => Err("the review has no request".to_owned()),
            Some(Some(Text(uid))) if is_uid(&uid) => Ok(uid),
            Some(_) => Err("request.uid is missing, empty or too long".to_owned()),
        }
    }
}

/// The state of a conversion.
struct Work<'c> {
    converter: &'c Converter,
    /// The memory of the answer, in addition to the body.
    share: &'c mut Share,
    body_bytes: usize,
    /// The answer before [`Work::out`]; `None` while it is short.
    before: Option<Mapped>,
    before_bytes: usize,
    /// The end of the answer, up to the last object.
    out: Vec<u8>,
    objects: u64,
    /// Numbers of converted objects, and of those that lost data. Short: a call has one kind and
    /// usually one version.
    converted: Vec<(Conversion, u64, u64)>,
    /// The error that ended it.
    failure: Option<Failure>,
}

/// Why a call failed.
enum Failure {
    /// This object could not be converted.
    Of {
        conversion: Conversion,
        message: String,
    },
    /// There is no free memory for the answer.
    Busy,
}

impl<'c> Work<'c> {
    fn new(converter: &'c Converter, body_bytes: usize, share: &'c mut Share) -> Self {
        // The answer is about as long as the request.
        let mut out = Vec::with_capacity(body_bytes.min(STEP_BYTES) + BEFORE_OBJECTS.len());
        out.extend_from_slice(BEFORE_OBJECTS);
        Self {
            converter,
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

    fn convert(&mut self, object: Envelope<'_>, desired: &str) -> Result<(), Failure> {
        static LEFT_OUT: LogLimit = LogLimit::new();
        let bytes = object.bytes();
        let Envelope(object) = object;
        let place = Place::of(&object);
        let name = object.get("kind").and_then(Json::text).unwrap_or_default();
        let (group, version) = desired.split_once('/').unwrap_or(("", desired));
        let kind = self.converter.kind_of(group, &name);
        let to = kind.and_then(|kind| kind.version(version));
        let failure = |message: String| Failure::Of {
            conversion: Conversion {
                kind: kind.map_or(UNKNOWN, |kind| kind.kind),
                from: UNKNOWN,
                to: to.map_or(UNKNOWN, |to| to.name),
            },
            message: format!("{place}: {message}"),
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
        self.note(kind, from, to, data_left_out);
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
    fn end(mut self, uid: &str) -> Answer {
        self.out.extend_from_slice(AFTER_OBJECTS);
        write_text(&mut self.out, uid);
        self.out.extend_from_slice(b"}}");
        match self.before {
            None => Answer::text(Stored::Collected(self.out)),
            Some(mut before) => match before.push(&self.out) {
                true => Answer::text(Stored::Mapped(before)),
                false => {
                    let code = StatusCode::SERVICE_UNAVAILABLE;
                    Answer::refusal(code, NoMemory::Busy.to_string())
                }
            },
        }
    }

    fn note(&mut self, kind: &Kind, from: &'static str, to: &Version, data_left_out: bool) {
        let conversion = Conversion {
            kind: kind.kind,
            from,
            to: to.name,
        };
        let lost = u64::from(data_left_out);
        let known = self
            .converted
            .iter_mut()
            .find(|(known, ..)| *known == conversion);
        match known {
            Some((_, count, all_lost)) => {
                *count += 1;
                *all_lost += lost;
            }
            None => self.converted.push((conversion, 1, lost)),
        }
    }

    fn count(&self, metrics: &Metrics) {
        for (conversion, objects, lost) in &self.converted {
            metrics.converted(*conversion, true, *objects);
            if *lost > 0 {
                metrics.data_left_out(*conversion, *lost);
            }
        }
    }
}

/// `namespace/name` of an object, for messages; as JSON until then.
struct Place<'a> {
    namespace: Option<Json<'a>>,
    name: Option<Json<'a>>,
}

impl<'a> Place<'a> {
    fn of(object: &Json<'a>) -> Self {
        let metadata = object.get("metadata");
        let field = |name| match metadata?.get(name)? {
            Json::Unparsed(text) => Some(Json::Unparsed(text)),
            _ => None,
        };
        Self {
            namespace: field("namespace"),
            name: field("name"),
        }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = self.namespace.as_ref().and_then(Json::text) {
            write!(formatter, "{}/", shortened(&namespace))?;
        }
        let name = self.name.as_ref().and_then(Json::text);
        formatter.write_str(&shortened(&name.unwrap_or(Cow::Borrowed("?"))))
    }
}
