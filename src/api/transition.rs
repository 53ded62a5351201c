//! Fields that may not change, or only grow: in CEL for the API server and as a function for the
//! manager.

use serde_json::{Value, json};

/// How a field may change once it is set: `extend("x-kubernetes-validations" = …in_schema())` at the
/// field. The field must be required or have a default, since to unset it is no change to CEL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// Not at all.
    Immutable,
    /// A whole number may become larger.
    OnlyGrows,
}

impl Transition {
    const ALL: [Self; 2] = [Self::Immutable, Self::OnlyGrows];

    /// As `x-kubernetes-validations` has it.
    pub fn in_schema(self) -> Value {
        json!([{"rule": self.cel(), "message": self.message()}])
    }

    fn cel(self) -> &'static str {
        match self {
            Self::Immutable => "self == oldSelf",
            Self::OnlyGrows => "self >= oldSelf",
        }
    }

    /// What is wrong with a change that is not allowed.
    pub(super) fn message(self) -> &'static str {
        match self {
            Self::Immutable => "may not be changed; delete the resource and create it anew",
            Self::OnlyGrows => "may not become smaller",
        }
    }

    /// Whether `old` may become `new`.
    pub(super) fn allows(self, old: &Value, new: &Value) -> bool {
        match self {
            Self::Immutable => old == new,
            Self::OnlyGrows => new.as_i64() >= old.as_i64(),
        }
    }

    /// The transition that `cel` is, if it is one.
    pub(super) fn of_cel(cel: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.cel() == cel)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Transition::{Immutable, OnlyGrows};

    #[test]
    fn a_field_stays_or_grows_as_its_rule_says() {
        assert!(Immutable.allows(&json!("1Gi"), &json!("1Gi")));
        assert!(!Immutable.allows(&json!("1Gi"), &json!("2Gi")));
        assert!(OnlyGrows.allows(&json!(2), &json!(2)) && OnlyGrows.allows(&json!(2), &json!(3)));
        assert!(!OnlyGrows.allows(&json!(2), &json!(1)));
    }
}
