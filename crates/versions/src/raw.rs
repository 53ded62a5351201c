//! JSON objects of which only some members are parsed: the others stay text and cost one pass.
//! Does not interpret the members.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

/// Limit of the API server for all annotations of an object together, keys and values
/// (apimachinery's `TotalAnnotationSizeLimitB`).
pub const ANNOTATIONS_LIMIT_BYTES: usize = 256 * 1024;

/// Largest number of members of one object. More annotations cannot be stored: their names
/// differ, and together they have a limit in bytes. Without this limit, a hostile body would take
/// ten times its size in memory.
const MOST_MEMBERS: usize = ANNOTATIONS_LIMIT_BYTES / 4;

/// A string that borrows from its source if possible.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

/// The members of an object, as text. If a name occurs twice, the last one counts, as in
/// `serde_json::Value` and in Go.
#[derive(Debug, Default, Serialize)]
pub struct Members<'a>(BTreeMap<Cow<'a, str>, Cow<'a, RawValue>>);

impl<'a> Members<'a> {
    /// The members of the object that `text` is.
    ///
    /// # Errors
    /// It is not an object, or has more members than could be stored.
    pub fn of(text: &'a str) -> serde_json::Result<Self> {
        let Structured(members) = serde_json::from_str(text)?;
        Ok(members)
    }

    /// The JSON text of a member.
    pub fn json(&self, name: &str) -> Option<&str> {
        Some(self.0.get(name)?.get())
    }

    /// The content of a member that is a string.
    pub fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        text(self.0.get(name)?)
    }

    /// Bytes of the names and of the content of those that are strings, without the member `other`.
    pub fn bytes_beside(&self, other: &str) -> usize {
        let members = self.0.iter().filter(|(name, _)| *name != other);
        members
            .map(|(name, value)| name.len() + text(value).map_or(0, |value| value.len()))
            .sum()
    }

    /// Adds or replaces a member.
    pub fn set(&mut self, name: &'a str, value: Box<RawValue>) {
        self.0.insert(Cow::Borrowed(name), Cow::Owned(value));
    }

    /// Removes a member.
    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut members = BTreeMap::new();
        while let Some((Text(name), value)) = map.next_entry::<_, &RawValue>()? {
            members.insert(name, Cow::Borrowed(value));
            if members.len() > MOST_MEMBERS {
                return Err(A::Error::custom("too many members in one object"));
            }
        }
        Ok(Members(members))
    }
}

/// An object of the API of which little is parsed: the names of its members, and those of its metadata.
#[derive(Debug)]
pub struct Envelope<'a> {
    /// Bytes of its text, without white space around members.
    pub bytes: usize,
    /// Its members, without `metadata` if that is an object or null.
    pub members: Members<'a>,
    /// The members of its metadata.
    pub metadata: Members<'a>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Envelope<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Structured(mut members) = Structured::<Members<'de>>::deserialize(deserializer)?;
        let bytes =
            |(name, json): (&Cow<'_, str>, &Cow<'_, RawValue>)| name.len() + json.get().len();
        let bytes = members.0.iter().map(bytes).sum();
        let metadata = match members.0.remove("metadata") {
            Some(Cow::Borrowed(json)) if json.get().starts_with('{') => {
                Members::of(json.get()).map_err(D::Error::custom)?
            }
            Some(json) if json.get() != "null" => {
                members.0.insert("metadata".into(), json);
                Members::default()
            }
            _ => Members::default(),
        };
        Ok(Self {
            bytes,
            members,
            metadata,
        })
    }
}

/// A value that must be a JSON object. The error for a string does not quote it, unlike those of serde: a
/// hostile string may be long.
#[derive(Debug)]
pub struct Structured<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Structured<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let visitor = StructuredVisitor(PhantomData);
        deserializer.deserialize_any(visitor).map(Self)
    }
}

struct StructuredVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for StructuredVisitor<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<T, E> {
        Err(E::invalid_type(Unexpected::Other("a string"), &self))
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(members))
    }
}

/// The content of a string.
pub fn text(json: &RawValue) -> Option<Cow<'_, str>> {
    // Anything else may be long, and would be read to the end.
    let is_string = json.get().starts_with('"');
    let Text(text) = is_string.then(|| serde_json::from_str(json.get()).ok())??;
    Some(text)
}

/// The JSON text of `value`, whose serialization cannot fail.
pub fn json(value: &(impl Serialize + ?Sized)) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_default()
}

/// Appends `value` as JSON to `out`. `value` is one whose serialization cannot fail.
pub fn write_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    let _ = serde_json::to_writer(out, value);
}

/// Returns true only if `text` holds at most `limit` values. Counts without parsing, since a tree
/// takes many times the memory of its text. An empty list or object counts as two.
pub fn has_at_most(limit: usize, text: &str) -> bool {
    // Every value except the first follows one of these bytes. Strings may contain them, too.
    if text.len() <= limit {
        return true;
    }
    let (mut values, mut in_string, mut escaped) = (1, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => values += 1,
            _ => {}
        }
    }
    values <= limit
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn of_two_members_with_one_name_the_last_counts() {
        let few = Members::of(r#"{"a": 1, "b": 2, "\u0061": 3}"#).unwrap();
        assert_eq!(few.0.len(), 2);
        assert_eq!(few.json("a"), Some("3"));
        let mut many: String = (0..40).map(|n| format!("\"k{n}\": 0,")).collect();
        many.push_str("\"k7\": 1");
        let many = format!("{{{many}}}");
        let many = Members::of(&many).unwrap();
        assert_eq!(many.0.len(), 40);
        assert_eq!(many.json("k7"), Some("1"));
    }

    #[test]
    fn objects_of_more_members_than_could_be_stored_are_refused() {
        let object = |count: usize| {
            let members: Vec<String> = (0..count).map(|n| format!("\"{n}\":0")).collect();
            format!("{{{}}}", members.join(","))
        };
        let envelope = |text: &str| serde_json::from_str::<Envelope<'_>>(text).map(drop);
        let (most, more) = (object(MOST_MEMBERS), object(MOST_MEMBERS + 1));
        assert!(Members::of(&most).is_ok());
        assert!(Members::of(&more).is_err());
        assert!(envelope(&format!(r#"{{"metadata":{most}}}"#)).is_ok());
        assert!(envelope(&format!(r#"{{"metadata":{more}}}"#)).is_err());
    }

    #[test]
    fn of_an_object_the_members_and_those_of_its_metadata_are_parsed() {
        let text =
            r#"{"kind":"K","metadata":{"labels":{"a":"b"},"name":"n"},"spec":{"metadata":{}}}"#;
        let object: Envelope<'_> = serde_json::from_str(text).unwrap();
        assert_eq!(object.members.json("spec"), Some(r#"{"metadata":{}}"#));
        assert_eq!(object.members.json("metadata"), None);
        assert_eq!(object.metadata.json("labels"), Some(r#"{"a":"b"}"#));
        assert_eq!(object.metadata.text("name").as_deref(), Some("n"));
        assert_eq!(object.metadata.text("labels"), None);
        let whole =
            "kindmetadataspec".len() + r#""K"{"labels":{"a":"b"},"name":"n"}{"metadata":{}}"#.len();
        assert_eq!(object.bytes, whole);
    }

    #[test]
    fn errors_do_not_quote_a_text_in_the_place_of_an_object() {
        let text = serde_json::to_string(&"x".repeat(1000)).unwrap();
        let escaped = text.replace('x', "\\u0078");
        for text in [text, escaped] {
            let envelope = serde_json::from_str::<Envelope<'_>>(&text).unwrap_err();
            let members = Members::of(&text).unwrap_err();
            for error in [envelope, members] {
                let error = error.to_string();
                assert!(
                    error.starts_with("invalid type: a string, expected an object"),
                    "{error}"
                );
                assert!(error.len() < 100, "{error}");
            }
        }
    }

    #[test]
    fn values_are_counted_outside_of_strings_only() {
        assert!(has_at_most(2, r#"["a,b,[{\",\""]"#));
        assert!(!has_at_most(2, "[1,[]]"));
        assert!(has_at_most(5, "[1,[],2]"));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_count_pass_what_it_is(text in ".{0,64}") {
            let quoted = serde_json::to_string(&text).unwrap();
            prop_assert!(has_at_most(1, &quoted));
        }
    }
}
