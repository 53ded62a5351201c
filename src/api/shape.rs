//! What a field may hold: type and bounds, written once as constants and read twice, by the
//! schema that the API server checks (`schema`) and by our own rules
//! (`validation`). Data only; no JSON, no schema types here.

/// Fields of an object, in groups so that the shared vocabulary is listed only once.
pub type Fields = &'static [&'static [Field]];

/// One field of an object.
#[derive(Debug)]
pub struct Field {
    /// Its JSON name.
    pub name: &'static str,
    /// An object without it is refused.
    pub required: bool,
    /// What it may hold.
    pub shape: Shape,
    /// What the schema tells of it, where the doc comment of the Rust type will not do.
    pub description: Option<&'static str>,
}

/// What a value may be.
#[derive(Debug)]
pub enum Shape {
    /// `true` or `false`.
    Boolean,
    /// A whole number, both bounds included. `int32` where the bounds fit, else `int64`.
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
    Choice(&'static [&'static str]),
    /// A resource quantity that is not negative: a string or a whole number.
    Quantity,
    /// A list.
    List {
        /// What its items may be.
        items: &'static Shape,
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
        values: &'static Shape,
    },
    /// An object with these fields, no others, that keeps these rules.
    Object {
        /// Its fields.
        fields: Fields,
        /// What no single field can say.
        rules: &'static [Rule],
    },
    /// A field of another version, kept in the schema so that writing it is refused with
    /// the way out in place of being dropped without a word.
    Tombstone {
        /// The field to use instead, e.g. `spec.replicas`.
        instead: &'static str,
        /// The version that has the field, as kubectl names it, e.g.
        /// `memcacheds.v1alpha1.cache.example.com`.
        old_version: &'static str,
    },
}

/// Which characters a string may hold.
#[derive(Debug, Clone, Copy)]
pub enum Characters {
    /// Any.
    Any,
    /// Those in one of these ranges, both ends included. ASCII only: the bound on the size
    /// of conversion data counts a character as a byte.
    In(&'static [(char, char)]),
    /// Those that match a regular expression, which only the API server checks: for status,
    /// which nobody but the manager writes.
    Matching(&'static str),
}

/// How server-side apply merges a list, `x-kubernetes-list-type`.
#[derive(Debug, Clone, Copy)]
pub enum Merge {
    /// Replaced as a whole.
    Atomic,
    /// Each item at most once.
    Set,
    /// Items are told apart by the values of these fields.
    Map(&'static [&'static str]),
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

/// Largest `int32`.
pub const INT32_MAX: i64 = i32::MAX as i64;
/// Largest `int64` that a JSON reader with 64-bit floats keeps exact, 2^53 − 1, as the
/// Kubernetes API conventions ask.
pub const INT64_MAX: i64 = (1 << 53) - 1;

/// Printable ASCII without the space: image references.
pub const VISIBLE: Characters = Characters::In(&[('!', '~')]);
/// Label keys and values, taint keys, names.
pub const LABEL: Characters = Characters::In(&[
    ('A', 'Z'),
    ('a', 'z'),
    ('0', '9'),
    ('-', '-'),
    ('.', '.'),
    ('/', '/'),
    ('_', '_'),
]);
/// Names of objects: DNS subdomains.
pub const NAME: Characters = Characters::In(&[('a', 'z'), ('0', '9'), ('-', '-'), ('.', '.')]);

/// Longest DNS subdomain (RFC 1123), the limit for names of most objects.
pub const NAME_MAX: u16 = 253;
/// Longest DNS label: label values, names of Services.
pub const LABEL_MAX: u16 = 63;
/// Longest qualified name: an optional DNS subdomain, `/`, and a label.
pub const QUALIFIED_NAME_MAX: u16 = NAME_MAX + 1 + LABEL_MAX;

/// A TCP port.
pub const PORT: Shape = Shape::Integer {
    min: 1,
    max: 65_535,
};
/// A number of pods or requests: no upper limit but the type's; how many replicas are too
/// many is the administrator's choice (`--max-replicas`), not the API's.
pub const COUNT: Shape = Shape::Integer {
    min: 0,
    max: INT32_MAX,
};
/// A number of requests per second that is divided by: at least 1.
pub const POSITIVE: Shape = Shape::Integer {
    min: 1,
    max: INT32_MAX,
};

impl Field {
    /// A field that may be left out.
    pub const fn optional(name: &'static str, shape: Shape) -> Self {
        Self {
            name,
            required: false,
            shape,
            description: None,
        }
    }

    /// A field that must be there.
    pub const fn required(name: &'static str, shape: Shape) -> Self {
        Self {
            name,
            required: true,
            shape,
            description: None,
        }
    }

    /// The same field, described in other words than its Rust type's.
    pub const fn described(mut self, description: &'static str) -> Self {
        self.description = Some(description);
        self
    }
}

/// What is told to somebody who writes a field that moved: both ways out.
pub(super) fn way_out(instead: &str, old_version: &str) -> String {
    format!("use {instead}, or write the old version: kubectl patch {old_version}")
}

impl Shape {
    /// An object with one group of fields.
    pub const fn object(fields: Fields) -> Self {
        Self::Object { fields, rules: &[] }
    }
}

impl Characters {
    /// Whether every character of `text` is among these.
    pub fn allow(&self, text: &str) -> bool {
        match self {
            Self::Any | Self::Matching(_) => true,
            Self::In(ranges) => text.chars().all(|character| {
                ranges
                    .iter()
                    .any(|(first, last)| (*first..=*last).contains(&character))
            }),
        }
    }

    /// The same as a regular expression, if there is something to check.
    pub fn pattern(&self) -> Option<String> {
        match self {
            Self::Any => None,
            Self::Matching(pattern) => Some((*pattern).to_owned()),
            Self::In(ranges) => Some(format!("^[{}]*$", character_class(ranges))),
        }
    }
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
