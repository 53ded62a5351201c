//! Type and bounds of a field, read from the schema of a version. Used to check and to generate
//! values; see [`super::schema`] for the schema itself.

use std::iter::Peekable;
use std::str::Chars;

use super::rules::Rule;
use super::transition::Transition;

/// One field of an object.
#[derive(Debug)]
pub struct Field {
    /// Its JSON name.
    pub name: String,
    /// Whether the field is required.
    pub required: bool,
    /// Type and bounds of its value.
    pub shape: Shape,
    /// How it may change once it is set; `None` is no restriction.
    pub transition: Option<Transition>,
}

/// Type and bounds of a value.
#[derive(Debug)]
pub enum Shape {
    /// `true` or `false`.
    Boolean,
    /// A whole number. Both bounds are inclusive.
    Integer {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// A string.
    Text {
        /// Smallest number of characters.
        min: u16,
        /// Largest number of characters.
        max: u16,
        /// The allowed characters.
        characters: Characters,
    },
    /// An RFC 3339 time with seconds, as `metav1.Time` writes it.
    Time,
    /// One of these strings.
    Choice(Vec<String>),
    /// A non-negative resource quantity: a string or a whole number.
    Quantity,
    /// A list.
    List {
        /// Shape of its items.
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
        /// The allowed characters of a key.
        key_characters: Characters,
        /// Shape of its values.
        values: Box<Shape>,
    },
    /// An object with these fields, no others, and these rules.
    Object {
        /// Its fields, sorted by name.
        fields: Vec<Field>,
        /// Rules over several fields.
        rules: Vec<&'static Rule>,
    },
    /// Any value: only the API server checks it.
    Unchecked,
}

/// The characters that a string may contain.
#[derive(Debug, Clone)]
pub enum Characters {
    /// Any.
    Any,
    /// Those that a pattern of the form `^[…]*$` allows. ASCII only: the limit on conversion data
    /// counts a character as a byte.
    In {
        /// The pattern.
        pattern: String,
        /// The inclusive ranges of its characters.
        ranges: Vec<(char, char)>,
    },
    /// Only the API server checks this regular expression.
    Matching,
}

/// How server-side apply merges a list, `x-kubernetes-list-type`.
#[derive(Debug, Clone)]
pub enum Merge {
    /// The list is replaced as a whole.
    Atomic,
    /// Each item occurs at most once.
    Set,
    /// These fields identify an item.
    Map(Vec<String>),
}

/// Largest integer that a JSON reader with 64-bit floats represents exactly, 2^53 − 1. The
/// Kubernetes API conventions ask for this limit.
pub const INT64_MAX: i64 = (1 << 53) - 1;

impl Shape {
    /// Reports whether an update of a field, at any depth, has a [`Transition`] to follow.
    pub fn has_transitions(&self) -> bool {
        match self {
            Self::Object { fields, .. } => fields
                .iter()
                .any(|field| field.transition.is_some() || field.shape.has_transitions()),
            Self::List { items, .. } => items.has_transitions(),
            Self::Map { values, .. } => values.has_transitions(),
            _ => false,
        }
    }
}

impl Characters {
    /// The characters that `pattern` allows.
    pub(super) fn of_pattern(pattern: &str) -> Self {
        let class = pattern
            .strip_prefix("^[")
            .and_then(|it| it.strip_suffix("]*$"));
        class
            .and_then(ranges)
            .map_or(Self::Matching, |ranges| Self::In {
                pattern: pattern.to_owned(),
                ranges,
            })
    }

    /// Reports whether every character of `text` is allowed.
    pub fn allow(&self, text: &str) -> bool {
        match self {
            Self::Any | Self::Matching => true,
            Self::In { ranges, .. } => text.chars().all(|character| {
                let mut ranges = ranges.iter();
                ranges.any(|(first, last)| (*first..=*last).contains(&character))
            }),
        }
    }

    /// The pattern; `None` unless [`Characters::In`].
    pub fn pattern(&self) -> Option<&str> {
        match self {
            Self::Any | Self::Matching => None,
            Self::In { pattern, .. } => Some(pattern),
        }
    }
}

/// The ranges in a character class `[…]` of a regular expression; `None` if it contains anything
/// else.
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

#[cfg(test)]
pub(crate) mod tests;
