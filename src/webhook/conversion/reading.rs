//! Reads a ConversionReview in one pass and passes on each object when it is read, so that only one
//! parsed object is in memory at a time. Converts nothing itself.

use std::borrow::Cow;
use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

use super::work::Work;
use crate::api::raw::{Text, Unquoted};
use crate::webhook::answer::{beginning_of, uid_of};

pub(super) const API_VERSION: &str = "apiextensions.k8s.io/v1";
pub(super) const KIND: &str = "ConversionReview";
/// The uid of a review, or why it is not a review.
type Uid<'a> = Result<Cow<'a, str>, String>;

/// Reads the whole review, and converts its objects with `work`.
pub(super) fn read<'a>(body: &'a str, work: Option<&mut Work<'_>>) -> serde_json::Result<Uid<'a>> {
    let mut deserializer = serde_json::Deserializer::from_str(body);
    let uid = Unquoted(ReviewVisitor(work)).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(uid)
}

/// The uid of the review in `body`. Does not read the objects.
pub(super) fn uid_in(body: &str) -> Uid<'_> {
    read(body, None).unwrap_or_else(|error| {
        let error = beginning_of(&error);
        Err(format!("cannot read the body as a {KIND}: {error}"))
    })
}

/// Reads the review; returns its uid. Without [`Work`], the objects are not read.
struct ReviewVisitor<'w, 'c>(Option<&'w mut Work<'c>>);

/// Reads `request`; returns its uid, if they exist.
struct RequestVisitor<'w, 'c>(Option<&'w mut Work<'c>>);

/// Reads `request.objects`, and converts each to the version `desired`.
struct ObjectsVisitor<'w, 'c> {
    work: &'w mut Work<'c>,
    desired: &'w str,
}

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for Unquoted<V> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// Sets a field that may occur once, as serde's derived code does.
fn set_once<T, E: serde::de::Error>(
    place: &mut Option<T>,
    value: T,
    name: &'static str,
) -> Result<(), E> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(E::duplicate_field(name)),
    }
}

impl<'de> Visitor<'de> for ReviewVisitor<'_, '_> {
    type Value = Uid<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a ConversionReview")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Uid<'de>, A::Error> {
        let (mut api_version, mut kind, mut request) = (None, None, None);
        while let Some(Text(name)) = map.next_key()? {
            match name.as_ref() {
                "apiVersion" => set_once(&mut api_version, map.next_value()?, "apiVersion")?,
                "kind" => set_once(&mut kind, map.next_value()?, "kind")?,
                "request" => {
                    let visitor = RequestVisitor(self.0.as_deref_mut());
                    set_once(
                        &mut request,
                        map.next_value_seed(Unquoted(visitor))?,
                        "request",
                    )?;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let found = [api_version.flatten(), kind.flatten()];
        Ok(uid_of([API_VERSION, KIND], found, request.flatten()))
    }
}

impl<'de> Visitor<'de> for RequestVisitor<'_, '_> {
    type Value = Option<Option<Text<'de>>>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a ConversionRequest")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut uid, mut desired, mut objects) = (None, None::<Text<'de>>, None);
        while let Some(Text(name)) = map.next_key()? {
            match (name.as_ref(), self.0.as_deref_mut()) {
                ("uid", _) => set_once(&mut uid, map.next_value()?, "uid")?,
                ("desiredAPIVersion", Some(_)) => {
                    set_once(&mut desired, map.next_value()?, "desiredAPIVersion")?;
                }
                ("objects", Some(work)) => {
                    // Go writes the version first, but members of JSON objects have no order.
                    let early: Option<&'de RawValue> = match &desired {
                        Some(Text(desired)) => {
                            map.next_value_seed(Unquoted(ObjectsVisitor { work, desired }))?;
                            None
                        }
                        None => Some(map.next_value()?),
                    };
                    set_once(&mut objects, early, "objects")?;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if let Some(work) = self.0 {
            let Text(desired) =
                &desired.ok_or_else(|| A::Error::missing_field("desiredAPIVersion"))?;
            if let Some(objects) = objects.flatten() {
                Unquoted(ObjectsVisitor { work, desired })
                    .deserialize(&mut serde_json::Deserializer::from_str(objects.get()))
                    .map_err(A::Error::custom)?;
            }
        }
        Ok(Some(uid.flatten()))
    }
}

impl<'de> Visitor<'de> for ObjectsVisitor<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of objects")
    }

    /// Go encodes an empty slice as null.
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
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
