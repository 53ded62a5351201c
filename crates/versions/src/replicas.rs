//! The number of pods that a spec asks for, and its limits. The webhook and the reconcilers share
//! these rules. Pure; does not depend on a kind, only on the paths of its fields.

use serde_json::Value;

/// A path relative to `spec`.
pub type Path = &'static [&'static str];

/// Where a version of a kind sets the number of pods.
#[non_exhaustive]
#[derive(Debug, Clone, Copy)]
pub enum Pods {
    /// The resources have no pods.
    Absent,
    /// This field holds the number.
    Counted(Path),
    /// The number follows from queries per second: ⌈`target` / `per_pod`⌉.
    Derived {
        /// Path of the queries per second of all pods together.
        target: Path,
        /// Path of the queries per second of one pod.
        per_pod: Path,
    },
}

/// The number of pods is out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAllowed {
    /// Less than 0.
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
    /// The number of pods that `spec` asks for. `None` if the fields have a wrong type or range,
    /// which validation reports.
    pub fn wanted(&self, spec: &Value) -> Option<i64> {
        let number = |path| at(spec, path).and_then(Value::as_i64);
        match self {
            Self::Absent => None,
            Self::Counted(path) => number(path),
            Self::Derived { target, per_pod } => pods_for(
                i32::try_from(number(target).unwrap_or(0)).ok()?,
                i32::try_from(number(per_pod)?).ok()?,
            ),
        }
    }

    /// The field that an error about the number names, and its value.
    pub fn blamed<'a>(&self, spec: &'a Value) -> (String, Option<&'a Value>) {
        match *self {
            Self::Absent => ("spec".to_owned(), None),
            Self::Counted(path) | Self::Derived { target: path, .. } => {
                (format!("spec.{}", path.join(".")), at(spec, path))
            }
        }
    }

    /// The number of pods, and its path below `spec`, if the API server rejects every write of
    /// the object because of it: the API server checks the field of the scale subresource at each
    /// write, changed or not. `None` for a derived or absent number, which is not checked.
    pub fn unwritable<'a>(&self, spec: &'a Value) -> Option<(Path, &'a Value)> {
        let Self::Counted(path) = *self else {
            return None;
        };
        let number = at(spec, path)?;
        let whole = number.as_i64();
        let is_writable = whole.is_some_and(|it| within_limit(it, 0).is_ok());
        (!is_writable).then_some((path, number))
    }
}

/// The value at `path` below `spec`.
pub fn at<'a>(spec: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter()
        .try_fold(spec, |value, name| value.as_object()?.get(*name))
}

/// ⌈`target` / `per_pod`⌉: the pods that serve `target` queries per second. Computed without the
/// sum `target + per_pod - 1`, which exceeds `i32::MAX` for valid specs. `None` for a negative
/// target, or if `per_pod` is less than 1.
pub fn pods_for(target: i32, per_pod: i32) -> Option<i64> {
    let target = u32::try_from(target).ok()?;
    let per_pod = u32::try_from(per_pod).ok().filter(|&queries| queries > 0)?;
    Some(target.div_ceil(per_pod).into())
}

/// Returns `wanted` if it is in range: from 0 to `max_replicas`, or to `i32::MAX` if that is 0,
/// which means no limit.
///
/// # Errors
/// [`NotAllowed`]: the bound that is exceeded.
pub fn within_limit(wanted: i64, max_replicas: u32) -> Result<i32, NotAllowed> {
    let limit = i32::try_from(max_replicas).unwrap_or(i32::MAX);
    let limit = if limit == 0 { i32::MAX } else { limit };
    match i32::try_from(wanted) {
        _ if wanted < 0 => Err(NotAllowed::Negative),
        Ok(wanted) if wanted <= limit => Ok(wanted),
        _ => Err(NotAllowed::OverLimit {
            limit: limit.into(),
        }),
    }
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
        let found = Pods::Counted(&["size"]).wanted(&json!({"size": 3}));
        assert_eq!(found, Some(3));
        let capacity =
            |target, per_pod| json!({"capacity": {"targetQPS": target, "perPodQPS": per_pod}});
        assert_eq!(DERIVED.wanted(&capacity(2400, 800)), Some(3));
        assert_eq!(DERIVED.wanted(&capacity(2401, 800)), Some(4));
        assert_eq!(DERIVED.wanted(&capacity(i32::MAX, 1)), Some(2_147_483_647));
        assert_eq!(DERIVED.wanted(&capacity(1, 0)), None);
        let found = DERIVED.wanted(&json!({"capacity": {"perPodQPS": 1}}));
        assert_eq!(found, Some(0));
        for spec in [json!({}), json!(1), json!({"size": "3"})] {
            assert_eq!(Pods::Counted(&["size"]).wanted(&spec), None);
        }
    }

    #[test]
    fn the_limit_itself_is_allowed_and_zero_lifts_it() {
        assert_eq!(within_limit(1000, 1000), Ok(1000));
        let expected = Err(NotAllowed::OverLimit { limit: 1000 });
        assert_eq!(within_limit(1001, 1000), expected);
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
