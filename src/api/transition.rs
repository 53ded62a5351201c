//! Fields that are immutable, or may only grow: in CEL for the API server and as a function for
//! the manager.

use serde_json::{Value, json};

/// How a field may change once it is set: `extend("x-kubernetes-validations" = …in_schema())` at
/// the field. The field must be required or have a default: CEL does not check an update that
/// unsets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// The value may not change.
    Immutable,
    /// The value, a whole number, may only become larger.
    OnlyGrows,
}

impl Transition {
    const ALL: [Self; 2] = [Self::Immutable, Self::OnlyGrows];

    /// The form of `x-kubernetes-validations`.
    pub fn in_schema(self) -> Value {
        json!([{"rule": self.cel(), "message": self.message()}])
    }

    fn cel(self) -> &'static str {
        match self {
            Self::Immutable => "self == oldSelf",
            Self::OnlyGrows => "self >= oldSelf",
        }
    }

    /// The error message for a change that is not allowed.
    pub(super) fn message(self) -> &'static str {
        match self {
            Self::Immutable => "may not be changed; delete the resource and create it anew",
            Self::OnlyGrows => "may not become smaller",
        }
    }

    /// Reports whether the value may change from `old` to `new`.
    pub(super) fn allows(self, old: &Value, new: &Value) -> bool {
        match self {
            Self::Immutable => old == new,
            Self::OnlyGrows => new.as_i64() >= old.as_i64(),
        }
    }

    /// The transition with this CEL expression, if any.
    pub(super) fn of_cel(cel: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.cel() == cel)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Transition::{Immutable, OnlyGrows};
    use crate::api::schema::of_schema;
    use crate::api::shape::{Characters, Shape};
    use crate::api::validation::{spec_errors, update_errors};

    #[test]
    fn an_update_keeps_the_rules_of_fields_that_were_set_before() {
        let schema = json!({"type": "object", "properties": {
            "databases": {
                "type": "integer", "minimum": 1, "maximum": 1024,
                "x-kubernetes-validations": OnlyGrows.in_schema(),
            },
            "storage": {
                "type": "string", "maxLength": 32, "x-kubernetes-validations": Immutable.in_schema(),
            },
        }});
        let shape = of_schema(&serde_json::from_value(schema).expect("a schema"));
        let stored = json!({"databases": 16, "storage": "1Gi"});
        let broken_by = |new: serde_json::Value, old: &serde_json::Value| -> Vec<String> {
            let errors = update_errors(&shape, &new, || Some(old));
            errors.iter().map(ToString::to_string).collect()
        };
        let larger = json!({"databases": 32, "storage": "1Gi"});
        assert_eq!(broken_by(larger.clone(), &stored), Vec::<String>::new());
        let smaller = json!({"databases": 8, "storage": "2Gi"});
        assert_eq!(
            broken_by(smaller.clone(), &stored),
            [
                "spec.databases: Invalid value: 8: may not become smaller",
                "spec.storage: Invalid value: \"2Gi\": may not be changed; delete the resource and create it anew",
            ]
        );
        let unset = json!({});
        assert_eq!(broken_by(smaller.clone(), &unset), Vec::<String>::new());
        assert_eq!(
            spec_errors(&shape, &smaller),
            [],
            "a new one is as it likes"
        );
        // For a value of the wrong type, only that error is reported.
        let errors = broken_by(json!({"databases": "8", "storage": "1Gi"}), &stored);
        assert_eq!(errors.len(), 1, "{errors:?}");
    }

    #[test]
    fn a_rule_is_found_at_any_depth() {
        let shape = |field: serde_json::Value| {
            let schema = json!({"type": "object", "properties": {"a": field}});
            of_schema(&serde_json::from_value(schema).expect("a schema"))
        };
        let ruled = json!({"type": "object", "properties": {"size": {
            "type": "integer", "minimum": 1, "maximum": 9,
            "x-kubernetes-validations": OnlyGrows.in_schema(),
        }}});
        let map = Shape::Map {
            max: 2,
            key_max: 9,
            key_characters: Characters::Any,
            values: Box::new(shape(ruled.clone())),
        };
        let list = shape(json!({"type": "array", "maxItems": 2, "items": ruled}));
        assert!(map.has_transitions() && list.has_transitions());
        assert!(!shape(json!({"type": "boolean"})).has_transitions());
    }

    #[test]
    fn a_field_stays_or_grows_as_its_rule_says() {
        assert!(Immutable.allows(&json!("1Gi"), &json!("1Gi")));
        assert!(!Immutable.allows(&json!("1Gi"), &json!("2Gi")));
        assert!(OnlyGrows.allows(&json!(2), &json!(2)) && OnlyGrows.allows(&json!(2), &json!(3)));
        assert!(!OnlyGrows.allows(&json!(2), &json!(1)));
    }
}
