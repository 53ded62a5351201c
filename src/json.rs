//! A JSON tree that borrows its texts from what was read. An object is a sorted list: the objects of
//! the API have few members, and a `BTreeMap` (`serde_json::Map`) takes 640 bytes for one member. The
//! methods have the names of `serde_json::Value`, and the same meaning.
//!
//! The crate serde_json_borrow has such a tree, but cannot skip parts of a document.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
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
    /// The members of an object, sorted by name. Of two with the same name, the later one.
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

impl<'a> Json<'a> {
    /// The member of an object; `None` of any other value.
    pub fn get(&self, name: &str) -> Option<&Json<'a>> {
        let members = self.as_object()?;
        // Faster than a binary search for a handful of members.
        Some(&members.iter().find(|(it, _)| it == name)?.1)
    }

    /// The member at a path such as `/metadata/name`, without escape sequences.
    pub fn pointer(&self, path: &str) -> Option<&Json<'a>> {
        path.split('/')
            .skip(1)
            .try_fold(self, |json, name| json.get(name))
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

    fn object(mut members: Vec<(Cow<'a, str>, Json<'a>)>) -> Self {
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
        }
    }
}

/// As `serde_json` writes it, without white space.
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
        }
    }
}

impl<'de> Deserialize<'de> for Json<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Reading(Everything).deserialize(deserializer)
    }
}

/// Which parts of a document are read.
pub trait Reader: Copy {
    /// How to read the member `name` of an object, given the members before it; `None` to skip it.
    fn member(self, name: &str, before: &[(Cow<'_, str>, Json<'_>)]) -> Option<Self>;

    /// How to read the items of a list.
    fn item(self) -> Self;
}

/// Reads everything.
#[derive(Debug, Clone, Copy)]
struct Everything;

impl Reader for Everything {
    fn member(self, _name: &str, _before: &[(Cow<'_, str>, Json<'_>)]) -> Option<Self> {
        Some(self)
    }

    fn item(self) -> Self {
        self
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

impl<'de, R: Reader> Visitor<'de> for Reading<R> {
    type Value = Json<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some(name) = map.next_key_seed(Reading(Everything))? {
            let Json::String(name) = name else {
                return Err(A::Error::custom("the name of a member is no text"));
            };
            match self.0.member(&name, &members) {
                None => _ = map.next_value::<IgnoredAny>()?,
                Some(reader) => {
                    let member = map.next_value_seed(Reading(reader))?;
                    members.push((name, member));
                }
            }
        }
        Ok(Json::object(members))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json<'de>, A::Error> {
        let reader = self.0.item();
        let mut all = Vec::new();
        while let Some(item) = items.next_element_seed(Reading(reader))? {
            all.push(item);
        }
        Ok(Json::Array(all))
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e9..1e9).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map("\\PC{0,3}", inner, 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_tree_is_that_of_serde_json(value in any_value()) {
            let text = value.to_string();
            let json: Json<'_> = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&json, &Json::from(&value));
            prop_assert_eq!(&json.to_string(), &text);
            prop_assert_eq!(Value::from(&json), value);
        }
    }

    #[test]
    fn members_are_sorted_and_of_two_with_one_name_the_later_one_stays() {
        let text = r#"{"b":1,"a":2,"b":3,"\u0062":4}"#;
        let json: Json<'_> = serde_json::from_str(text).unwrap();
        assert_eq!(Value::from(&json), json!({"a": 2, "b": 4}));
        assert_eq!(json.to_string(), r#"{"a":2,"b":4}"#);
    }

    #[test]
    fn a_text_is_copied_only_if_it_has_an_escape_sequence() {
        let json: Json<'_> = serde_json::from_str(r#"["plain","a\"b"]"#).unwrap();
        let is_borrowed = |item: &Json<'_>| matches!(item, Json::String(Cow::Borrowed(_)));
        let items = json.as_array().unwrap();
        assert!(is_borrowed(&items[0]) && !is_borrowed(&items[1]));
    }
}
