//! JSON objects of which only some members are parsed: the others stay text and cost one pass.
//! Does not interpret the members.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{
    DeserializeSeed as _, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::{Deserialize, Serialize};

pub use crate::json::Text;
use crate::json::{Json, Member, Reader, Reading};

/// Limit of the API server for all annotations of an object together, keys and values
/// (apimachinery's `TotalAnnotationSizeLimitB`).
pub const ANNOTATIONS_LIMIT_BYTES: usize = 256 * 1024;

/// Largest number of members of one object. More annotations cannot be stored: their names
/// differ, and together they have a limit in bytes. Without this limit, a hostile body would take
/// ten times its size in memory.
const MOST_MEMBERS: usize = ANNOTATIONS_LIMIT_BYTES / 4;

/// An object of the API of which little is parsed: the names of its members, and those of its metadata. All
/// else is left as text ([`Json::Unparsed`]). If a name occurs twice, the last one counts, as in
/// `serde_json::Value` and in Go.
#[derive(Debug)]
pub struct Envelope<'a>(pub Json<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for Envelope<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Unquoted(EnvelopeVisitor))
    }
}

struct EnvelopeVisitor;

impl<'de> Visitor<'de> for EnvelopeVisitor {
    type Value = Envelope<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Envelope<'de>, A::Error> {
        Reading(Depth::Object).visit_map(members).map(Envelope)
    }
}

impl Envelope<'_> {
    /// Bytes of its text, without white space around members.
    pub fn bytes(&self) -> usize {
        bytes(&self.0)
    }
}

fn bytes(json: &Json<'_>) -> usize {
    match json {
        Json::Object(members) => members
            .iter()
            .map(|(name, it)| name.len() + bytes(it))
            .sum(),
        Json::Unparsed(text) => text.len(),
        _ => 0,
    }
}

/// A JSON value; if it is an object, the names of its members are parsed, and all else is left as text.
#[derive(Debug)]
pub struct Members<'a>(pub Json<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Reading(Depth::Members).deserialize(deserializer).map(Self)
    }
}

/// What is read of a value.
#[derive(Debug, Clone, Copy)]
enum Depth {
    Object,
    Members,
}

impl Reader for Depth {
    fn member(self, name: &str, _before: &[(Cow<'_, str>, Json<'_>)]) -> Member<Self> {
        match (self, name) {
            (Self::Object, "metadata") => Member::Read(Self::Members),
            _ => Member::Leave,
        }
    }

    fn item(self) -> Member<Self> {
        Member::Leave
    }

    fn limit(self) -> usize {
        MOST_MEMBERS
    }
}

/// Appends `value` as JSON to `out`. `value` is one whose serialization cannot fail.
pub fn write_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    let _ = serde_json::to_writer(Tokens(out), value);
}

/// A writer for JSON tokens, three of four of which have one or two bytes. These are not copied with
/// `memcpy`: musl's takes as long for one byte as for a hundred.
struct Tokens<'a>(&'a mut Vec<u8>);

impl io::Write for Tokens<'_> {
    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match *bytes {
            [byte] => self.0.push(byte),
            [first, second] => self.0.extend([first, second]),
            _ => self.0.extend_from_slice(bytes),
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A visitor of objects, lists and null whose errors do not quote a string that is found instead.
/// serde's own errors quote all of it, and a hostile string may be long.
pub(crate) struct Unquoted<V>(pub(crate) V);

impl<'de, V: Visitor<'de>> Visitor<'de> for Unquoted<V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(formatter)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<V::Value, E> {
        Err(E::invalid_type(Unexpected::Other("a string"), &self))
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, values: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(values)
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(members)
    }
}

/// A value that must be a JSON object. The error for a string does not quote it, as in
/// [`Unquoted`].
#[derive(Debug)]
pub struct Structured<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Structured<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let visitor = Unquoted(StructuredVisitor(PhantomData));
        deserializer.deserialize_any(visitor).map(Self)
    }
}

struct StructuredVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for StructuredVisitor<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(members))
    }
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

    fn members(text: &str) -> Result<Json<'_>, serde_json::Error> {
        serde_json::from_str(text).map(|Members(members)| members)
    }

    #[test]
    fn of_two_members_with_one_name_the_last_counts() {
        let few = members(r#"{"a": 1, "b": 2, "\u0061": 3}"#).unwrap();
        assert_eq!(few.as_object().unwrap().len(), 2);
        assert_eq!(few.get("a"), Some(&Json::Unparsed("3")));
        let mut many: String = (0..40).map(|n| format!("\"k{n}\": 0,")).collect();
        many.push_str("\"k7\": 1");
        let many = format!("{{{many}}}");
        let many = members(&many).unwrap();
        assert_eq!(many.as_object().unwrap().len(), 40);
        assert_eq!(many.get("k7"), Some(&Json::Unparsed("1")));
    }

    #[test]
    fn objects_of_more_members_than_could_be_stored_are_refused() {
        let object = |count: usize| {
            let members: Vec<String> = (0..count).map(|n| format!("\"{n}\":0")).collect();
            format!("{{{}}}", members.join(","))
        };
        let list = |count: usize| format!("[{}0]", "0,".repeat(count - 1));
        assert!(members(&object(MOST_MEMBERS)).is_ok());
        assert!(members(&object(MOST_MEMBERS + 1)).is_err());
        assert!(members(&list(MOST_MEMBERS)).is_ok());
        assert!(members(&list(MOST_MEMBERS + 1)).is_err());
    }

    #[test]
    fn of_an_object_the_members_and_those_of_its_metadata_are_parsed() {
        let text =
            r#"{"kind":"K","metadata":{"labels":{"a":"b"},"name":"n"},"spec":{"metadata":{}}}"#;
        let Envelope(object) = serde_json::from_str(text).unwrap();
        assert_eq!(
            object.get("spec"),
            Some(&Json::Unparsed(r#"{"metadata":{}}"#))
        );
        assert_eq!(
            object.pointer("/metadata/labels"),
            Some(&Json::Unparsed(r#"{"a":"b"}"#))
        );
        assert_eq!(object.to_string(), text);
        let whole = "kindmetadatanamelabelsspec".len() + r#""K""n"{"a":"b"}{"metadata":{}}"#.len();
        assert_eq!(Envelope(object).bytes(), whole);
    }

    #[test]
    fn errors_do_not_quote_a_text_in_the_place_of_an_object() {
        let text = serde_json::to_string(&"x".repeat(1000)).unwrap();
        let escaped = text.replace('x', "\\u0078");
        for text in [text, escaped] {
            let envelope = serde_json::from_str::<Envelope<'_>>(&text).unwrap_err();
            let structured = serde_json::from_str::<Structured<Text<'_>>>(&text).unwrap_err();
            for error in [envelope, structured] {
                let error = error.to_string();
                let expected = "invalid type: a string, expected an object at line 1 column ";
                assert!(error.starts_with(expected), "{error}");
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
