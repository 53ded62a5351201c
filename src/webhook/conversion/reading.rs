//! Reads a ConversionReview and passes on each object when it is read, so that only one parsed object is
//! in memory at a time. Converts nothing itself.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer as _, Error as _, SeqAccess, Visitor};
use serde_json::Error;
use serde_json::value::RawValue;

use super::work::Work;
use crate::api::raw::{Structured, Text, text};
use crate::webhook::answer::{beginning_of, uid_of};

pub(super) const API_VERSION: &str = "apiextensions.k8s.io/v1";
pub(super) const KIND: &str = "ConversionReview";
/// The uid of a review, or why it is not a review.
type Uid<'a> = Result<Cow<'a, str>, String>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
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
    #[serde(borrow, rename = "desiredAPIVersion")]
    desired: Option<&'a RawValue>,
    #[serde(borrow)]
    objects: Option<&'a RawValue>,
}

/// Reads the whole review, and converts its objects with `work`.
pub(super) fn read<'a>(body: &'a str, work: Option<&mut Work<'_>>) -> serde_json::Result<Uid<'a>> {
    let Structured::<Review<'_>>(review) = serde_json::from_str(body)?;
    let mut request = review.request.map(|Structured(request)| request);
    let uid = request.as_mut().map(|request| request.uid.take());
    let uid = uid_of([API_VERSION, KIND], [review.api_version, review.kind], uid);
    if let (Ok(_), Some(request), Some(work)) = (&uid, request, work) {
        let desired = request.desired.and_then(text);
        let desired = &desired.ok_or_else(|| Error::missing_field("desiredAPIVersion"))?;
        // Go encodes an empty slice as null.
        if let Some(objects) = request.objects {
            if !objects.get().starts_with('[') {
                return Err(Error::custom("expected a list of objects"));
            }
            let mut objects = serde_json::Deserializer::from_str(objects.get());
            objects.deserialize_seq(ObjectsVisitor { work, desired })?;
        }
    }
    Ok(uid)
}

/// The uid of the review in `body`. Does not read the objects.
pub(super) fn uid_in(body: &str) -> Uid<'_> {
    read(body, None).unwrap_or_else(|error| {
        let error = beginning_of(&error);
        Err(format!("cannot read the body as a {KIND}: {error}"))
    })
}

/// Reads `request.objects`, and converts each to the version `desired`.
struct ObjectsVisitor<'w, 'c> {
    work: &'w mut Work<'c>,
    desired: &'w str,
}

impl<'de> Visitor<'de> for ObjectsVisitor<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut objects: A) -> Result<(), A::Error> {
        while let Some(object) = objects.next_element()? {
            if let Err(failure) = self.work.convert(object, self.desired) {
                self.work.failure = Some(failure);
                return Err(A::Error::custom("the call has failed"));
            }
        }
        Ok(())
    }
}
