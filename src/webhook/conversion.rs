//! Conversion: reads a ConversionReview and writes its answer in one pass, object by object,
//! so that a list takes no more memory than its text. All or nothing: the first object that
//! cannot be converted fails the call, as the API asks.
//!
//! A call, shortened, and its answer:
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

use axum::http::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeSeed as _;

use super::answer::{Answer, beginning_of, is_uid};
use super::body::{Mapped, Text as Stored};
use super::memory::{NoMemory, Share};
use super::metrics::{Conversion, Metrics};
use crate::api::conversion::{ConvertedText, convert_into};
use crate::api::raw::{Members, Structured, Text, write_text};
use crate::api::{Kind, Version};
use crate::bounded::shortened;
use crate::budget::{OBJECT_BYTES, STEP_BYTES};
use crate::log_limit::LogLimit;
use reading::ReviewSeed;

const API_VERSION: &str = "apiextensions.k8s.io/v1";
const KIND: &str = "ConversionReview";
/// The answer up to its objects, and from them on to its uid.
const BEFORE_OBJECTS: &[u8] =
    br#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"convertedObjects":["#;
const AFTER_OBJECTS: &[u8] = br#"],"result":{"status":"Success"},"uid":"#;

/// The label of what is not known.
const UNKNOWN: &str = "unknown";

/// The endpoint of all kinds.
#[derive(Debug, Clone)]
pub(super) struct Converter {
    pub(super) kinds: Vec<&'static Kind>,
}

impl Converter {
    /// The answer to `body`. Whatever is a review with a uid is answered by a review, unless
    /// there is no memory for it now. `share` holds the body, and grows with the answer.
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
            // The parser was stopped on purpose; whether the rest is a review is still open.
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
            // Something within the request is not as it should be, or all of it.
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

/// What is answered when a conversion panics: as much as can be.
pub(super) fn panicked(body: &str) -> Answer {
    let message = "internal error occurred during conversion";
    match uid_in(body) {
        Ok(uid) => failed(&uid, message),
        Err(_) => Answer::refusal(StatusCode::INTERNAL_SERVER_ERROR, message),
    }
}

/// A review that tells of a failure.
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

/// The uid of the review that `body` is, or what it is not, without a look at its objects.
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

/// What is left of a review when its objects have been converted.
#[derive(Debug, Default)]
struct Review<'a> {
    api_version: Option<Text<'a>>,
    kind: Option<Text<'a>>,
    /// The request, if there was one; its uid, if that was there.
    uid: Option<Option<Text<'a>>>,
}

impl<'a> Review<'a> {
    /// The uid to answer to, if it is a review that can be answered.
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

/// What was done so far.
struct Work<'c> {
    converter: &'c Converter,
    /// What the whole answer takes is charged to this, on top of the body.
    share: &'c mut Share,
    body_bytes: usize,
    /// The answer, up to [`Work::out`]; `None` while it is short.
    before: Option<Mapped>,
    before_bytes: usize,
    /// The end of the answer, up to the last object.
    out: Vec<u8>,
    objects: u64,
    /// How many of each were converted, and how many of these lost data. Few, since a call has
    /// one kind and rarely more than one version.
    converted: Vec<(Conversion, u64, u64)>,
    /// What ended it.
    failure: Option<Failure>,
}

/// Why the call fails.
enum Failure {
    /// This object could not be converted.
    Of {
        conversion: Conversion,
        message: String,
    },
    /// Other calls have the memory for its answer.
    Busy,
}

impl<'c> Work<'c> {
    fn new(converter: &'c Converter, body_bytes: usize, share: &'c mut Share) -> Self {
        // An answer is about as long as what is asked.
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

    fn convert(&mut self, object: &Members<'_>, desired: &str) -> Result<(), Failure> {
        static LEFT_OUT: LogLimit = LogLimit::new();
        let name = object.text("kind").unwrap_or_default();
        let (group, version) = desired.split_once('/').unwrap_or(("", desired));
        let kind = self.converter.kind_of(group, &name);
        let to = kind.and_then(|kind| kind.version(version));
        let failure = |message: String| Failure::Of {
            conversion: Conversion {
                kind: kind.map_or(UNKNOWN, |kind| kind.kind),
                from: UNKNOWN,
                to: to.map_or(UNKNOWN, |to| to.name),
            },
            message: format!("{}: {message}", place(object)),
        };
        let (Some(kind), Some(to)) = (kind, to) else {
            return Err(failure(format!(
                "cannot convert a {:?} to {:?}: not a kind and version of this operator",
                shortened(&name),
                shortened(desired)
            )));
        };
        let bytes: usize = object.iter().map(|(_, value)| value.get().len()).sum();
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
                object = place(object),
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

    /// Takes memory for what was written since, if that is much, and moves it there.
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
        // That of one long object is not kept for the others.
        self.out.shrink_to(2 * STEP_BYTES);
        Ok(())
    }

    /// The whole answer.
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

/// `namespace/name` of an object, for people.
fn place(object: &Members<'_>) -> String {
    let metadata = object
        .get("metadata")
        .and_then(Members::of)
        .unwrap_or_default();
    let name = metadata.text("name").unwrap_or(Cow::Borrowed("?"));
    match metadata.text("namespace") {
        Some(namespace) => format!("{}/{}", shortened(&namespace), shortened(&name)),
        None => shortened(&name).into_owned(),
    }
}
