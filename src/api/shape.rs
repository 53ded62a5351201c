//! What a field may hold: type and bounds, read from the schema of a version, which follows from
//! its Rust types. For whoever checks or makes values; see [`super::schema`] for the schema.

mod of_schema;

use std::iter::Peekable;
use std::str::Chars;

pub use of_schema::of_schema;

use super::transition::Transition;

/// One field of an object.
#[derive(Debug)]
pub struct Field {
    /// Its JSON name.
    pub name: String,
    /// An object without it is rejected.
    pub required: bool,
    /// What it may hold.
    pub shape: Shape,
    /// How it may change once it is set, if not in any way.
    pub transition: Option<Transition>,
}

/// What a value may be.
#[derive(Debug)]
pub enum Shape {
    /// `true` or `false`.
    Boolean,
    /// A whole number, both bounds included.
    Integer {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// A string.
    Text {
        /// Least number of characters.
        min: u16,
        /// Largest number of characters.
        max: u16,
        /// Which characters.
        characters: Characters,
    },
    /// An RFC 3339 time with seconds, as `metav1.Time` writes it.
    Time,
    /// One of these words.
    Choice(Vec<String>),
    /// A resource quantity that is not negative: a string or a whole number.
    Quantity,
    /// A list.
    List {
        /// What its items may be.
        items: Box<Shape>,
        /// Largest number of items.
        max: u16,
        /// How lists are merged by server-side apply.
        merge: Merge,
    },
    /// A map with free keys.
    Map {
        /// Largest number of entries.
        max: u16,
        /// Largest number of characters in a key.
        key_max: u16,
        /// Characters of a key.
        key_characters: Characters,
        /// What its values may be.
        values: Box<Shape>,
    },
    /// An object with these fields, no others, that keeps these rules.
    Object {
        /// Its fields, sorted by name.
        fields: Vec<Field>,
        /// What no single field can say.
        rules: Vec<&'static Rule>,
    },
    /// A field of another version, kept in the schema so that writing it is rejected with
    /// this message, in place of being dropped without a word.
    Moved {
        /// What to do instead.
        message: String,
    },
    /// Anything, as far as the manager is concerned: only the API server checks it.
    Unchecked,
}

/// Which characters a string may hold.
#[derive(Debug, Clone)]
pub enum Characters {
    /// Any.
    Any,
    /// Those in one of these ranges, both ends included. ASCII only: the bound on the size
    /// of conversion data counts a character as a byte.
    In(Vec<(char, char)>),
    /// Those that match a regular expression, which only the API server checks.
    Matching,
}

/// How server-side apply merges a list, `x-kubernetes-list-type`.
#[derive(Debug, Clone)]
pub enum Merge {
    /// Replaced as a whole.
    Atomic,
    /// Each item at most once.
    Set,
    /// Items are told apart by the values of these fields.
    Map(Vec<String>),
}

/// A rule over several fields of one object: in CEL for the schema, as a function for us.
#[derive(Debug)]
pub struct Rule {
    /// CEL over `self`, true when the rule is kept.
    pub cel: &'static str,
    /// The same in Rust.
    pub kept: fn(&serde_json::Map<String, serde_json::Value>) -> bool,
    /// The field that is blamed, below the object.
    pub field: &'static str,
    /// What is wrong with it.
    pub message: &'static str,
}

/// Largest `int64` that a JSON reader with 64-bit floats keeps exact, 2^53 − 1, as the
/// Kubernetes API conventions ask.
pub const INT64_MAX: i64 = (1 << 53) - 1;

impl Characters {
    /// Those that a pattern of the form `^[…]*$` allows.
    pub(super) fn of_pattern(pattern: &str) -> Self {
        let class = pattern
            .strip_prefix("^[")
            .and_then(|it| it.strip_suffix("]*$"));
        class.and_then(ranges).map_or(Self::Matching, Self::In)
    }

    /// Whether every character of `text` is among these.
    pub fn allow(&self, text: &str) -> bool {
        match self {
            Self::Any | Self::Matching => true,
            Self::In(ranges) => text.chars().all(|character| {
                ranges
                    .iter()
                    .any(|(first, last)| (*first..=*last).contains(&character))
            }),
        }
    }

    /// The same as a regular expression, if it is known.
    pub fn pattern(&self) -> Option<String> {
        match self {
            Self::Any | Self::Matching => None,
            Self::In(ranges) => Some(format!("^[{}]*$", character_class(ranges))),
        }
    }
}

/// The ranges in the inside of a regular expression's `[…]`; none if it has more than these.
fn ranges(class: &str) -> Option<Vec<(char, char)>> {
    let mut ranges = Vec::new();
    let mut rest = class.chars().peekable();
    let character = |rest: &mut Peekable<Chars<'_>>| match rest.next()? {
        '\\' => rest.next().filter(char::is_ascii_punctuation),
        '[' | ']' | '^' | '-' => None,
        plain => Some(plain).filter(char::is_ascii),
    };
    while rest.peek().is_some() {
        let first = character(&mut rest)?;
        let last = match rest.next_if_eq(&'-') {
            Some(_) => character(&mut rest)?,
            None => first,
        };
        ranges.push((first, last));
    }
    Some(ranges)
}

/// The inside of a regular expression's `[…]`, with what is special in it escaped.
fn character_class(ranges: &[(char, char)]) -> String {
    let escaped = |character: char| match character {
        '-' | ']' | '[' | '^' | '\\' => format!("\\{character}"),
        _ => character.to_string(),
    };
    let of_range = |(first, last): &(char, char)| {
        if first == last {
            escaped(*first)
        } else {
            format!("{}-{}", escaped(*first), escaped(*last))
        }
    };
    ranges.iter().map(of_range).collect()
}

#[cfg(test)]
pub(crate) mod tests;
