//! JSON objects of which only some members are parsed: the others stay text and cost one pass. Limits what
//! reading a text can take in memory. Does not interpret the members.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
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
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The members of an object, as text. If a name occurs twice, the last one counts, as in
/// `serde_json::Value` and in Go.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Members<'a>(pub BTreeMap<Cow<'a, str>, &'a RawValue>);

impl<'a> Members<'a> {
    /// The members of the object that `text` is.
    ///
    /// # Errors
    /// It is not an object, or has more members than could be stored.
    pub fn of(text: &'a str) -> serde_json::Result<Self> {
        // The error of serde would quote the whole of a string.
        if !text.trim_start().starts_with('{') {
            return Err(serde_json::Error::custom("expected an object"));
        }
        serde_json::from_str(text)
    }

    /// The JSON text of a member.
    pub fn json(&self, name: &str) -> Option<&'a str> {
        Some(self.0.get(name)?.get())
    }

    /// The content of a member that is a string.
    pub fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        text(self.json(name)?)
    }

    /// Bytes of the names and of the content of those that are strings, without the member `other`.
    pub fn bytes_beside(&self, other: &str) -> usize {
        let members = self.0.iter().filter(|(name, _)| *name != other);
        members
            .map(|(name, value)| name.len() + text(value.get()).map_or(0, |it| it.len()))
            .sum()
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
        while let Some((Text(name), value)) = map.next_entry()? {
            members.insert(name, value);
            if members.len() > MOST_MEMBERS {
                return Err(A::Error::custom("too many members in one object"));
            }
        }
        Ok(Members(members))
    }
}

/// The content of a string.
fn text(json: &str) -> Option<Cow<'_, str>> {
    // Anything else may be long, and would be read to the end.
    let is_string = json.starts_with('"');
    let Text(text) = is_string.then(|| serde_json::from_str(json).ok())??;
    Some(text)
}

/// The JSON text of `value`, whose serialization cannot fail.
pub(crate) fn json(value: &(impl Serialize + ?Sized)) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_default()
}

/// Returns true only if `text` holds at most `limit` values.
pub fn has_at_most(limit: usize, text: &str) -> bool {
    // Every value except the first follows a byte of its own.
    text.len() <= limit || values_and_depth(text).0 <= limit
}

/// The number of values in `json`, where an empty list or object counts as two, and of the lists and objects
/// that are open at a time. Counted without parsing, since a tree takes many times the memory of its text.
/// Exact up to the first syntax error, where a parser stops.
pub fn values_and_depth(json: &str) -> (usize, usize) {
    let (mut values, mut depth, mut open) = (1, 0, 0_usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                values += 1;
                open += 1;
                depth = depth.max(open);
            }
            b']' | b'}' => open = open.saturating_sub(1),
            b',' => values += 1,
            _ => {}
        }
    }
    (values, depth)
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
            let members: Vec<String> = (0..count).map(|n| format!("\"{n}\":[0,1]")).collect();
            format!("{{{}}}", members.join(","))
        };
        assert!(Members::of(&object(MOST_MEMBERS)).is_ok());
        assert!(Members::of(&object(MOST_MEMBERS + 1)).is_err());
    }

    #[test]
    fn errors_do_not_quote_a_text_in_the_place_of_an_object() {
        let text = serde_json::to_string(&"x".repeat(1000)).unwrap();
        let error = Members::of(&text).unwrap_err().to_string();
        assert_eq!(error, "expected an object");
    }

    #[test]
    fn brackets_are_counted_where_they_are_open_and_no_text() {
        for (json, depth) in [
            ("1", 0),
            ("[[], {}, [[]]]", 3),
            (r#"{"a": {"[[[[": "]]]]"}}"#, 2),
            (r#"["\"[[[[", []]"#, 2),
            (r#"["\\", [[]]]"#, 3),
            ("[[[", 3),
            ("]]]]", 0),
        ] {
            assert_eq!(values_and_depth(json).1, depth, "{json}");
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
