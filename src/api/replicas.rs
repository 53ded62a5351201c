//! How many pods a spec asks for, and how many are too many: the rule that the webhook and
//! the reconcilers share. Pure; knows no kind, only where its numbers stand.

use serde_json::Value;

use super::conversion::at;

/// A path below `spec`.
pub type Path = &'static [&'static str];

/// Where a version of a kind says how many pods it wants.
#[derive(Debug, Clone, Copy)]
pub enum Pods {
    /// In this field.
    Counted(Path),
    /// As many as serve `target` queries per second, when each serves `per_pod`.
    Derived {
        /// Queries per second of all pods together.
        target: Path,
        /// Queries per second of one pod.
        per_pod: Path,
    },
}

/// A number of pods that a Deployment may not be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAllowed {
    /// Less than none.
    #[error("must be greater than or equal to 0")]
    Negative,
    /// More than the limit.
    #[error("must be less than or equal to {limit}, the operator's limit (--max-replicas)")]
    OverLimit {
        /// The limit.
        limit: i64,
    },
}

impl Pods {
    /// The pods that `spec` asks for. `None` if it does not say so in numbers of the right
    /// type and range, which validation tells.
    pub fn wanted(&self, spec: &Value) -> Option<i64> {
        let number = |path| at(spec, path).and_then(Value::as_i64);
        match self {
            Self::Counted(path) => number(path),
            Self::Derived { target, per_pod } => pods_for(
                i32::try_from(number(target).unwrap_or(0)).ok()?,
                i32::try_from(number(per_pod)?).ok()?,
            ),
        }
    }

    /// The field to blame for the number, and what it holds.
    pub fn blamed<'a>(&self, spec: &'a Value) -> (String, Option<&'a Value>) {
        let (Self::Counted(path) | Self::Derived { target: path, .. }) = *self;
        (format!("spec.{}", path.join(".")), at(spec, path))
    }

    /// The number of pods, and its path below `spec`, if it keeps the API server from writing
    /// anything of the object: what the scale subresource shows is checked at each write,
    /// changed or not. What is derived is not shown there, and what is absent not checked.
    pub fn unwritable<'a>(&self, spec: &'a Value) -> Option<(Path, &'a Value)> {
        let Self::Counted(path) = *self else {
            return None;
        };
        let number = at(spec, path)?;
        let is_writable = number
            .as_i64()
            .is_some_and(|it| within_limit(it, 0).is_ok());
        (!is_writable).then_some((path, number))
    }
}

/// ⌈`target` / `per_pod`⌉, the pods that serve `target` queries per second. Unsigned and
/// without the sum `target + per_pod - 1`, which passes `i32::MAX` for specs that are
/// allowed. `None` for a negative target, or pods that serve nothing.
pub fn pods_for(target: i32, per_pod: i32) -> Option<i64> {
    let target = u32::try_from(target).ok()?;
    let per_pod = u32::try_from(per_pod).ok().filter(|&queries| queries > 0)?;
    Some(target.div_ceil(per_pod).into())
}

/// `wanted`, if it is a number that a Deployment may be given: from 0 to `max_replicas`, or
/// to `i32::MAX` where that is 0, which lifts the limit.
///
/// # Errors
/// [`NotAllowed`], with the bound that it passes.
pub fn within_limit(wanted: i64, max_replicas: u32) -> Result<i32, NotAllowed> {
    let limit = match max_replicas {
        0 => i64::from(i32::MAX),
        limit => i64::from(limit).min(i32::MAX.into()),
    };
    if wanted < 0 {
        return Err(NotAllowed::Negative);
    }
    i32::try_from(wanted)
        .ok()
        .filter(|_| wanted <= limit)
        .ok_or(NotAllowed::OverLimit { limit })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const DERIVED: Pods = Pods::Derived {
        target: &["capacity", "targetQPS"],
        per_pod: &["capacity", "perPodQPS"],
    };

    #[test]
    fn pods_are_counted_or_derived() {
        assert_eq!(
            Pods::Counted(&["size"]).wanted(&json!({"size": 3})),
            Some(3)
        );
        let capacity =
            |target, per_pod| json!({"capacity": {"targetQPS": target, "perPodQPS": per_pod}});
        assert_eq!(DERIVED.wanted(&capacity(2400, 800)), Some(3));
        assert_eq!(DERIVED.wanted(&capacity(2401, 800)), Some(4));
        assert_eq!(DERIVED.wanted(&capacity(i32::MAX, 1)), Some(2_147_483_647));
        assert_eq!(DERIVED.wanted(&capacity(1, 0)), None);
        assert_eq!(
            DERIVED.wanted(&json!({"capacity": {"perPodQPS": 1}})),
            Some(0)
        );
        for spec in [json!({}), json!(1), json!({"size": "3"})] {
            assert_eq!(Pods::Counted(&["size"]).wanted(&spec), None);
        }
    }

    #[test]
    fn the_limit_itself_is_allowed_and_zero_lifts_it() {
        assert_eq!(within_limit(1000, 1000), Ok(1000));
        assert_eq!(
            within_limit(1001, 1000),
            Err(NotAllowed::OverLimit { limit: 1000 })
        );
        assert_eq!(within_limit(-1, 0), Err(NotAllowed::Negative));
        assert_eq!(within_limit(i32::MAX.into(), 0), Ok(i32::MAX));
        let beyond = i64::from(i32::MAX) + 1;
        for max_replicas in [0, u32::MAX] {
            assert_eq!(
                within_limit(beyond, max_replicas),
                Err(NotAllowed::OverLimit {
                    limit: i32::MAX.into()
                })
            );
        }
    }
}
