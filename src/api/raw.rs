//! JSON objects of which only some members are parsed: the others stay text and cost one pass.
//! Does not interpret the members.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};
use serde_json::value::RawValue;

use super::conversion::ANNOTATIONS_LIMIT_BYTES;

/// Largest number of members of one object. More annotations cannot be stored: their names
/// differ, and together they have a limit in bytes. Without this limit, a hostile body would take
/// ten times its size in memory.
const MOST_MEMBERS: usize = ANNOTATIONS_LIMIT_BYTES / 4;

/// The members of a JSON object, in order, with their values as text. If a name occurs twice, the
/// last one counts, as in `serde_json::Value` and in Go.
#[derive(Debug, Default, Clone)]
pub struct Members<'a> {
    members: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'a> Members<'a> {
    /// Parses `text`. `None` if it is not an object, or has more members than could be stored.
    pub fn of(text: &'a RawValue) -> Option<Self> {
        serde_json::from_str(text.get()).ok()
    }

    /// The value of member `name`.
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        let (_, value) = self.members.iter().find(|(member, _)| member == name)?;
        Some(value)
    }

    /// The value of member `name`, if it is a string.
    pub fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        text(self.get(name)?)
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Cow<'a, str>, &'a RawValue)> {
        self.members.iter().map(|(name, value)| (name, *value))
    }

    /// Removes all but the last member of each name. Compares pairs if there are few members, and
    /// sorts if there are many.
    fn without_duplicates(mut self) -> Self {
        const FEW: usize = 16;
        let members = &self.members;
        let has_duplicates = if members.len() <= FEW {
            members.iter().enumerate().any(|(index, (name, _))| {
                members
                    .iter()
                    .take(index)
                    .any(|(earlier, _)| earlier == name)
            })
        } else {
            let mut names: Vec<&str> = members.iter().map(|(name, _)| name.as_ref()).collect();
            names.sort_unstable();
            names.windows(2).any(|pair| pair.first() == pair.last())
        };
        if has_duplicates {
            let mut seen = std::collections::HashSet::new();
            self.members.reverse();
            self.members.retain(|(name, _)| seen.insert(name.clone()));
            self.members.reverse();
        }
        self
    }
}

/// The string in `value`, borrowed if it has no escapes.
pub fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    // Deserializing a `Cow<str>` always copies.
    serde_json::from_str::<Text<'_>>(value.get())
        .ok()
        .map(|text| text.0)
}

/// Writes `text` as a JSON string.
pub fn write_text(out: &mut Vec<u8>, text: &str) {
    // Neither can fail: writing to a Vec, and serializing a str.
    let _ = serde_json::to_writer(out, text);
}

/// A string that borrows from its source if possible.
#[derive(Debug)]
pub struct Text<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Unquoted(MembersVisitor))
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

/// Reads the members of an object.
pub(crate) struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        // Kubernetes objects have five: apiVersion, kind, metadata, spec, status.
        let mut members = Vec::with_capacity(5);
        while let Some((Text(name), value)) = map.next_entry()? {
            if members.len() == MOST_MEMBERS {
                return Err(A::Error::custom("too many members in one object"));
            }
            members.push((name, value));
        }
        Ok(Members { members }.without_duplicates())
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

    fn members(text: &str) -> Members<'_> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn of_two_members_with_one_name_the_last_counts() {
        let few = members(r#"{"a": 1, "b": 2, "\u0061": 3}"#);
        assert_eq!(few.iter().count(), 2);
        assert_eq!(few.get("a").unwrap().get(), "3");
        let mut many: String = (0..40).map(|n| format!("\"k{n}\": 0,")).collect();
        many.push_str("\"k7\": 1");
        let many = format!("{{{many}}}");
        let many = members(&many);
        assert_eq!(many.iter().count(), 40);
        assert_eq!(many.get("k7").unwrap().get(), "1");
    }

    #[test]
    fn objects_of_more_members_than_could_be_stored_are_refused() {
        let object = |count: usize| {
            let members: Vec<String> = (0..count).map(|n| format!("\"{n}\":0")).collect();
            format!("{{{}}}", members.join(","))
        };
        assert!(serde_json::from_str::<Members<'_>>(&object(MOST_MEMBERS)).is_ok());
        assert!(serde_json::from_str::<Members<'_>>(&object(MOST_MEMBERS + 1)).is_err());
    }

    #[test]
    fn errors_do_not_quote_a_text_in_the_place_of_an_object() {
        let text = serde_json::to_string(&"x".repeat(1000)).unwrap();
        let escaped = text.replace('x', "\\u0078");
        for text in [text, escaped] {
            let members = serde_json::from_str::<Members<'_>>(&text).unwrap_err();
            let structured = serde_json::from_str::<Structured<Text<'_>>>(&text).unwrap_err();
            for error in [members, structured] {
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
