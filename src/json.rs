//! A JSON tree that borrows its texts from what was read. An object is a sorted list: the objects of
//! the API have few members, and a `BTreeMap` (`serde_json::Map`) takes 640 bytes for one member. The
//! methods have the names of `serde_json::Value`, and the same meaning.
//!
//! The crate serde_json_borrow has such a tree, but cannot skip parts of a document.
//! Used by `api`, `controller`, `operators` and `webhook`.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Number, Value};

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub enum Json<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text, copied only if it has an escape sequence.
    String(Cow<'a, str>),
    /// A list.
    Array(Vec<Json<'a>>),
    /// The members of an object. Of two with the same name, the later one.
    Object(Fields<'a>),
    /// A value that a [`Reader`] left as text: valid JSON.
    Unparsed(&'a str),
}

/// Names and values, sorted by name.
pub type Fields<'a> = Vec<(Cow<'a, str>, Json<'a>)>;

/// The index of the field `name`, or else the index at which it would be inserted.
pub fn position(fields: &Fields<'_>, name: &str) -> Result<usize, usize> {
    fields.binary_search_by(|(field, _)| field.as_ref().cmp(name))
}

impl<'a> Json<'a> {
    /// The member of an object; `None` of any other value.
    pub fn get(&self, name: &str) -> Option<&Json<'a>> {
        let members = self.as_object()?;
        // Faster than a binary search for a handful of members.
        Some(&members.iter().find(|(it, _)| it == name)?.1)
    }

    /// A text, also if it was left unparsed.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        match self {
            Json::String(text) => Some(Cow::Borrowed(text)),
            Json::Unparsed(text) if text.starts_with('"') => match serde_json::from_str(text) {
                Ok(Json::String(text)) => Some(text),
                _ => None,
            },
            _ => None,
        }
    }

    /// The member at a path such as `/metadata/name`, without escape sequences.
    pub fn pointer(&self, path: &str) -> Option<&Json<'a>> {
        path.split('/')
            .skip(1)
            .try_fold(self, |json, name| json.get(name))
    }

    /// This value, parsed if it was left as text.
    pub fn parsed(&self) -> Cow<'_, Json<'a>> {
        match self {
            Json::Unparsed(text) => Cow::Owned(serde_json::from_str(text).unwrap_or(Json::Null)),
            json => Cow::Borrowed(json),
        }
    }

    /// A text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::String(text) => Some(text),
            _ => None,
        }
    }

    /// An integer.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Json::Number(number) => number.as_i64(),
            _ => None,
        }
    }

    /// The items of a list.
    pub fn as_array(&self) -> Option<&[Json<'a>]> {
        match self {
            Json::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The members of an object.
    pub fn as_object(&self) -> Option<&[(Cow<'a, str>, Json<'a>)]> {
        match self {
            Json::Object(members) => Some(members),
            _ => None,
        }
    }

    fn object(mut members: Fields<'a>) -> Self {
        // The API server writes most objects in the order of names.
        if members.is_sorted_by(|(one, _), (other, _)| one < other) {
            return Json::Object(members);
        }
        // Stable, so that the last of several with one name stays the last.
        members.sort_by(|(one, _), (other, _)| one.cmp(other));
        members.dedup_by(|later, earlier| {
            let is_same = later.0 == earlier.0;
            if is_same {
                std::mem::swap(later, earlier);
            }
            is_same
        });
        Json::Object(members)
    }
}

impl<'a> From<&'a Value> for Json<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Null => Json::Null,
            Value::Bool(truth) => Json::Bool(*truth),
            Value::Number(number) => Json::Number(number.clone()),
            Value::String(text) => Json::String(Cow::Borrowed(text)),
            Value::Array(items) => Json::Array(items.iter().map(Json::from).collect()),
            // Sorted.
            Value::Object(members) => Json::Object(
                members
                    .iter()
                    .map(|(name, member)| (Cow::Borrowed(name.as_str()), Json::from(member)))
                    .collect(),
            ),
        }
    }
}

impl From<&Json<'_>> for Value {
    fn from(json: &Json<'_>) -> Self {
        match json {
            Json::Null => Value::Null,
            Json::Bool(truth) => Value::Bool(*truth),
            Json::Number(number) => Value::Number(number.clone()),
            Json::String(text) => Value::String(text.to_string()),
            Json::Array(items) => items.iter().map(Value::from).collect(),
            Json::Object(members) => members
                .iter()
                .map(|(name, member)| (name.to_string(), Value::from(member)))
                .collect(),
            Json::Unparsed(text) => serde_json::from_str(text).unwrap_or_default(),
        }
    }
}

/// As `serde_json` writes it, without white space; what was left as text is written as it is.
impl fmt::Display for Json<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_string(self).map_err(|_| fmt::Error)?;
        formatter.write_str(&text)
    }
}

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Json::Null => serializer.serialize_unit(),
            Json::Bool(truth) => serializer.serialize_bool(*truth),
            Json::Number(number) => number.serialize(serializer),
            Json::String(text) => serializer.serialize_str(text),
            Json::Array(items) => serializer.collect_seq(items),
            Json::Object(members) => {
                serializer.collect_map(members.iter().map(|(name, member)| (name, member)))
            }
            // As it is, by way of `RawValue`'s own protocol.
            Json::Unparsed(text) => {
                let mut raw = serializer.serialize_struct(RAW_VALUE, 1)?;
                raw.serialize_field(RAW_VALUE, text)?;
                raw.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Json<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Reading(Everything).deserialize(deserializer)
    }
}

/// What becomes of the member of an object, or of the item of a list.
pub enum Member<R> {
    /// It is not read.
    Skip,
    /// It is left as text, [`Json::Unparsed`]. It may be parsed all the same, if the document is not
    /// read from JSON text.
    Leave,
    /// It is read with this reader.
    Read(R),
}

/// Which parts of a document are read.
pub trait Reader: Copy {
    /// How to read the member `name` of an object, given the members before it.
    fn member(self, name: &str, before: &[(Cow<'_, str>, Json<'_>)]) -> Member<Self>;

    /// How to read the items of a list.
    fn item(self) -> Member<Self>;

    /// Largest number of members of one object, and of items in one list. More are an error.
    fn limit(self) -> usize {
        usize::MAX
    }
}

/// Reads everything.
#[derive(Debug, Clone, Copy)]
struct Everything;

impl Reader for Everything {
    fn member(self, _name: &str, _before: &[(Cow<'_, str>, Json<'_>)]) -> Member<Self> {
        Member::Read(self)
    }

    fn item(self) -> Member<Self> {
        Member::Read(self)
    }
}

/// Reads the parts that the reader selects.
pub struct Reading<R>(pub R);

impl<'de, R: Reader> DeserializeSeed<'de> for Reading<R> {
    type Value = Json<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// Room for the members of most objects.
const MEMBERS: usize = 8;

/// A string that borrows from its source if possible.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

impl<'de, R: Reader> Visitor<'de> for Reading<R> {
    type Value = Json<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some(Text(name)) = map.next_key()? {
            let member = match self.0.member(&name, &members) {
                Member::Skip => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
                Member::Leave => map.next_value_seed(Leaving)?,
                Member::Read(reader) => map.next_value_seed(Reading(reader))?,
            };
            if members.len() == self.0.limit() {
                return Err(A::Error::custom("too many members in one object"));
            }
            if members.is_empty() {
                members.reserve(MEMBERS);
            }
            members.push((name, member));
        }
        Ok(Json::object(members))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json<'de>, A::Error> {
        let mut all = Vec::new();
        loop {
            let item = match self.0.item() {
                Member::Skip => items.next_element::<IgnoredAny>()?.map(|_| None),
                Member::Leave => items.next_element_seed(Leaving)?.map(Some),
                Member::Read(reader) => items.next_element_seed(Reading(reader))?.map(Some),
            };
            match item {
                None => return Ok(Json::Array(all)),
                Some(_) if all.len() == self.0.limit() => {
                    return Err(A::Error::custom("too many items in one list"));
                }
                Some(item) => all.extend(item),
            }
        }
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::String(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Json<'de>, E> {
        Ok(Json::String(Cow::Owned(text.to_owned())))
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<Json<'de>, E> {
        Ok(Json::Bool(truth))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Json<'de>, E> {
        Ok(Json::Number(number.into()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Json<'de>, E> {
        Ok(Json::Number(number.into()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Json<'de>, E> {
        Ok(Number::from_f64(number).map_or(Json::Null, Json::Number))
    }

    fn visit_unit<E: Error>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }
}

/// Leaves a value as text, by the name under which `serde_json`'s deserializer hands its text to
/// [`serde_json::value::RawValue`]. Unlike that type, it accepts every deserializer: those that do not
/// know the name, such as that of a buffered document, give the value itself, which is parsed.
struct Leaving;

/// `serde_json::raw::TOKEN`.
const RAW_VALUE: &str = "$serde_json::private::RawValue";

impl<'de> DeserializeSeed<'de> for Leaving {
    type Value = Json<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json<'de>, D::Error> {
        deserializer.deserialize_newtype_struct(RAW_VALUE, self)
    }
}

impl<'de> Visitor<'de> for Leaving {
    type Value = Json<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<Json<'de>, D::Error> {
        Json::deserialize(value)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json<'de>, A::Error> {
        map.next_key::<IgnoredAny>()?;
        match map.next_value::<Json<'de>>()? {
            Json::String(Cow::Borrowed(text)) => Ok(Json::Unparsed(text)),
            // From a stream: no part of it can be borrowed.
            Json::String(Cow::Owned(text)) => {
                let value: Value = serde_json::from_str(&text).map_err(A::Error::custom)?;
                Json::deserialize(value).map_err(A::Error::custom)
            }
            _ => Err(A::Error::custom("no text of a value")),
        }
    }
}

#[cfg(test)]
mod tests;
