//! Rules that a type cannot express: in CEL for the API server, and as functions for the manager.
//! A test compares both on random values.

use serde_json::{Map, Value, json};

/// All rules over several fields. The API server alone checks a rule of a schema that is not
/// listed here.
pub static ALL: [&Rule; 1] = [&NODE_PORT_HAS_ITS_TYPE];

/// Only some types of Service have a node port.
pub static NODE_PORT_HAS_ITS_TYPE: Rule = Rule {
    cel: "!has(self.nodePort) || (has(self.type) && self.type != 'ClusterIP')",
    holds: |service| {
        let set = |field| service.get(field).filter(|value| !value.is_null());
        set("nodePort").is_none() || set("type").is_some_and(|kind| kind != "ClusterIP")
    },
    field: "nodePort",
    message: "may only be set when type is NodePort or LoadBalancer",
};

/// A rule over several fields of one object: in CEL for the schema, and as a Rust function for
/// the manager.
#[derive(Debug)]
pub struct Rule {
    /// CEL expression on `self`; true if the object is valid.
    pub cel: &'static str,
    /// The same rule in Rust.
    pub holds: fn(&Map<String, Value>) -> bool,
    /// The field that the error names, relative to the object.
    pub field: &'static str,
    /// The error message.
    pub message: &'static str,
}

impl Rule {
    /// The form of `x-kubernetes-validations`.
    pub(super) fn in_schema(&self) -> Value {
        json!([{
            "rule": self.cel,
            "fieldPath": format!(".{}", self.field),
            "message": self.message,
        }])
    }
}

/// A rule for every key of a map: at most `max` characters, and matches `pattern`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KeyRule<'a> {
    pub(super) max: u16,
    pub(super) pattern: &'a str,
}

impl<'a> KeyRule<'a> {
    /// CEL expression on the map.
    pub(super) fn cel(&self) -> String {
        let KeyRule { max, pattern } = self;
        format!("self.all(key, size(key) <= {max} && key.matches(r'{pattern}'))")
    }

    pub(super) fn message(&self) -> String {
        let KeyRule { max, pattern } = self;
        format!("keys may not be more than {max} characters, and must match {pattern}")
    }

    /// Parses the CEL expression of such a rule; `None` for any other expression.
    pub(super) fn of_cel(cel: &'a str) -> Option<Self> {
        let rule = cel.strip_prefix("self.all(key, size(key) <= ")?;
        let (max, rest) = rule.split_once(" && key.matches(r'")?;
        Some(KeyRule {
            max: max.parse().ok()?,
            pattern: rest.strip_suffix("'))")?,
        })
    }
}
