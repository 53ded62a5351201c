//! Specs for the tests of all kinds: what a kind requires, from its sample.

use quartet_applied::merge;
use quartet_versions::Kind;
use quartet_versions::replicas::{Path, Pods};
use quartet_versions::validation::ServiceName;
use serde_json::{Value, json};

use super::sample_spec;

/// The required fields of the hub sample, and this number of pods.
pub(crate) fn smallest_spec(kind: &Kind, pods: i64) -> Value {
    let required = kind.schema_of(&kind.hub)["required"].as_array();
    let mut spec = sample_spec(kind);
    if let Value::Object(members) = &mut spec {
        members.retain(|name, _| required.is_some_and(|it| it.contains(&json!(name))));
    }
    merge(&mut spec, asking_for(kind, pods));
    spec
}

/// The fields of a hub spec that ask for this number of pods.
pub(crate) fn asking_for(kind: &Kind, pods: i64) -> Value {
    match kind.hub.pods {
        Pods::Counted(path) => at_path(path, pods),
        Pods::Derived { target, per_pod } => {
            let mut fields = at_path(target, pods);
            merge(&mut fields, at_path(per_pod, 1));
            fields
        }
        _ => json!({}),
    }
}

/// `{a: {b: number}}` for the path `a`, `b`.
pub(crate) fn at_path(path: Path, number: i64) -> Value {
    let names = path.iter().rev();
    names.fold(number.into(), |value, name| json!({ *name: value }))
}

/// The fields of a hub spec that ask for a Service and for none, where there is a choice.
pub(crate) fn service_on_and_off(kind: &Kind) -> Option<(Value, Value)> {
    let ServiceName::NeededWhen { has, enabled } = kind.hub.service_name else {
        return None;
    };
    let on = json!({"type": "ClusterIP", "port": 80});
    Some(match enabled {
        Some(flag) => [true, false].map(|is| json!({ has: { flag: is } })).into(),
        None => (json!({ has: on }), json!({ has: null })),
    })
}
