//! Reads a ConversionReview in one pass and passes on each object when it is read, so that only one
//! parsed object is in memory at a time. Converts nothing itself.

use std::fmt;

use serde::Deserialize as _;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

use super::{Review, Work};
use crate::api::raw::{Envelope, Text, Unquoted};

/// Reads the whole review.
pub(super) struct ReviewSeed<'w, 'c> {
    pub(super) work: &'w mut Work<'c>,
}

/// Reads `request` and its uid.
struct RequestSeed<'w, 'c> {
    work: &'w mut Work<'c>,
}

/// Reads `request.objects`, and converts each to this version.
struct ObjectsSeed<'w, 'c> {
    work: &'w mut Work<'c>,
    desired: &'w str,
}

/// Reads one object and converts it.
struct ObjectSeed<'w, 'c> {
    work: &'w mut Work<'c>,
    desired: &'w str,
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

impl<'de> DeserializeSeed<'de> for ReviewSeed<'_, '_> {
    type Value = Review<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Review<'de>, D::Error> {
        deserializer.deserialize_any(Unquoted(self))
    }
}

impl<'de> Visitor<'de> for ReviewSeed<'_, '_> {
    type Value = Review<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a ConversionReview")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Review<'de>, A::Error> {
        let mut review = Review::default();
        while let Some(Text(name)) = map.next_key()? {
            match name.as_ref() {
                "apiVersion" => {
                    set_once(&mut review.api_version, map.next_value()?, "apiVersion")?;
                }
                "kind" => set_once(&mut review.kind, map.next_value()?, "kind")?,
                "request" => {
                    let request = RequestSeed { work: self.work };
                    set_once(&mut review.uid, map.next_value_seed(request)?, "request")?;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(review)
    }
}

impl<'de> DeserializeSeed<'de> for RequestSeed<'_, '_> {
    type Value = Option<Text<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(Unquoted(self))
    }
}

impl<'de> Visitor<'de> for RequestSeed<'_, '_> {
    type Value = Option<Text<'de>>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a ConversionRequest")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut uid = None;
        let mut desired: Option<Text<'de>> = None;
        let mut early: Option<&'de RawValue> = None;
        let mut has_objects = false;
        while let Some(Text(name)) = map.next_key()? {
            match name.as_ref() {
                "uid" => set_once(&mut uid, map.next_value()?, "uid")?,
                "desiredAPIVersion" => {
                    set_once(&mut desired, map.next_value()?, "desiredAPIVersion")?;
                }
                "objects" if has_objects => return Err(A::Error::duplicate_field("objects")),
                "objects" => {
                    has_objects = true;
                    match &desired {
                        Some(Text(desired)) => map.next_value_seed(ObjectsSeed {
                            work: self.work,
                            desired,
                        })?,
                        // Go writes the version first, but members of JSON objects have no order.
                        None => early = Some(map.next_value()?),
                    }
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let Some(Text(desired)) = desired else {
            return Err(A::Error::missing_field("desiredAPIVersion"));
        };
        if let Some(objects) = early {
            let objects_seed = ObjectsSeed {
                work: self.work,
                desired: &desired,
            };
            objects_seed
                .deserialize(&mut serde_json::Deserializer::from_str(objects.get()))
                .map_err(A::Error::custom)?;
        }
        Ok(uid)
    }
}

impl<'de> DeserializeSeed<'de> for ObjectsSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(Unquoted(self))
    }
}

impl<'de> Visitor<'de> for ObjectsSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of objects")
    }

    /// Go encodes an empty slice as null.
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut objects: A) -> Result<(), A::Error> {
        loop {
            let object = ObjectSeed {
                work: self.work,
                desired: self.desired,
            };
            if objects.next_element_seed(object)?.is_none() {
                return Ok(());
            }
        }
    }
}

impl<'de> DeserializeSeed<'de> for ObjectSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let object = Envelope::deserialize(deserializer)?;
        self.work.convert(object, self.desired).map_err(|failure| {
            self.work.failure = Some(failure);
            D::Error::custom("the call has failed")
        })
    }
}
