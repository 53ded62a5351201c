//! From a custom resource to its children and its status, for any JSON. Invariants: a spec that
//! breaks a rule gives that rule and no children; children and status keep the bounds of the API
//! server.
#![no_main]

use arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use quartet_operator::operators::{
    ChildKind, DEPLOYMENT, Desired, OPERATORS, Observed, Operator, Reason, Resource, SERVICE,
    Settings, ValidationError, summary,
};
use quartet_operator_fuzz::{is_json, resources};
use serde_json::{Map, Value};

/// The largest integer in a status, by its schema: 2^53 − 1.
const LARGEST: i64 = (1 << 53) - 1;

fuzz_target!(|input: &[u8]| {
    if is_json(input) {
        let Ok(object) = serde_json::from_slice::<Value>(input) else {
            return;
        };
        let observed = Observed {
            now: "2026-11-21T12:00:00Z".to_owned(),
            ..Observed::default()
        };
        for operator in OPERATORS {
            let resource = resources::resource(operator.kind(), &object);
            check(*operator, &resource, &Settings::default(), &observed);
        }
    } else {
        let mut bytes = Unstructured::new(input);
        let Ok(sample) = resources::sample(&mut bytes) else {
            return;
        };
        let settings = Settings {
            max_replicas: *bytes.choose(&[1000, 0, 1, u32::MAX]).unwrap_or(&1000),
            ..Settings::default()
        };
        let Ok(observed) = resources::observed(&mut bytes) else {
            return;
        };
        let resource = resources::resource(sample.kind, &sample.object);
        check(sample.operator, &resource, &settings, &observed);
    }
});

fn check(operator: &dyn Operator, resource: &Resource, settings: &Settings, observed: &Observed) {
    let errors = operator.kind().hub.validate(&resource.spec);
    for error in &errors {
        assert!(error.field.starts_with("spec"), "{error}");
        assert!(!error.body().is_empty());
    }
    let desired = operator.desired(resource, settings);
    match &desired {
        Ok(children) => {
            assert!(errors.is_empty(), "{errors:?}");
            let kinds: Vec<ChildKind> = children.iter().map(|child| child.kind).collect();
            assert!(kinds == [DEPLOYMENT] || kinds == [DEPLOYMENT, SERVICE]);
            for child in children {
                check_child(&child.body, resource);
                assert_eq!(child.body["metadata"]["name"], child.name.as_str());
            }
            let limit = match settings.max_replicas {
                0 => i32::MAX.into(),
                limit => i64::from(limit).min(i32::MAX.into()),
            };
            let replicas = children[0].body["spec"]["replicas"].as_i64();
            let replicas = replicas.expect("a Deployment has a number of pods");
            assert!((0..=limit).contains(&replicas), "{replicas}");
        }
        Err(ValidationError::Invalid(rules)) => {
            assert!(!rules.is_empty());
            // Errors of a kind's own arithmetic or of the name are reported as well.
            assert!(errors.is_empty() || *rules == errors);
        }
        Err(ValidationError::ReplicasOverLimit { wanted, limit }) => assert!(wanted > limit),
    }
    assert_eq!(operator.desired(resource, settings), desired);
    check_status(operator, resource, observed, &desired);
}

fn check_child(body: &Value, resource: &Resource) {
    assert_eq!(body["metadata"]["namespace"], resource.namespace.as_str());
    let text = serde_json::to_string(body).expect("a child has a text");
    let read: Value = serde_json::from_str(&text).expect("its text is JSON");
    assert_eq!(read, *body);
    let labels = body["metadata"]["labels"].as_object();
    for value in labels.expect("a child has labels").values() {
        assert!(value.as_str().is_some_and(|value| value.len() <= 63));
    }
    assert_nothing_absent("", body);
}

/// Server-side apply would own absent values.
fn assert_nothing_absent(path: &str, value: &Value) {
    match value {
        Value::Null => panic!("{path}: null"),
        Value::Array(items) => {
            assert!(!items.is_empty(), "{path}: an empty list");
            // A user's `tolerations: [{}]` is passed on, because the API server validates it; an
            // empty list item is not absent.
            for item in items
                .iter()
                .filter(|item| **item != Value::Object(Map::new()))
            {
                assert_nothing_absent(path, item);
            }
        }
        Value::Object(members) => {
            assert!(!members.is_empty(), "{path}: an empty object");
            for (name, member) in members {
                assert_nothing_absent(&format!("{path}.{name}"), member);
            }
        }
        _ => {}
    }
}

fn check_status(
    operator: &dyn Operator,
    resource: &Resource,
    observed: &Observed,
    desired: &Desired,
) {
    let status = operator.status(resource, &summary(desired), observed);
    assert!(status.nodes.len() <= 1000 && status.nodes.is_sorted());
    assert!(
        status
            .real_qps
            .is_none_or(|qps| (0..=LARGEST).contains(&qps))
    );
    assert!(status.selector.as_ref().is_some_and(|it| it.len() <= 1024));
    assert_eq!(status.conditions.len(), 4);
    for condition in &status.conditions {
        assert!(condition.message.len() <= 1024);
        assert!(["True", "False", "Unknown"].contains(&condition.status.as_str()));
        assert!(!condition.reason.is_empty() && !condition.last_transition_time.is_empty());
    }
    let condition = |type_: &str| status.conditions.iter().find(|it| it.type_ == type_);
    let ready = condition("Ready").expect("is always there");
    let degraded = condition("Degraded").expect("is always there");
    if let Err(refused) = desired {
        assert_ne!(ready.status, "True");
        let is_pause = |reason: Reason| reason == Reason::Paused;
        if observed
            .problem
            .as_ref()
            .is_none_or(|it| is_pause(it.reason))
        {
            assert_eq!(degraded.status, "True");
            assert_eq!(degraded.reason, refused.problem().reason.as_str());
        }
    }
    // A second reconcile with the same observation writes nothing.
    let resource = Resource {
        status: status.clone(),
        ..resource.clone()
    };
    let later = Observed {
        now: "2026-11-21T12:00:01Z".to_owned(),
        ..observed.clone()
    };
    assert_eq!(
        operator.status(&resource, &summary(desired), &later),
        status
    );
    let text = serde_json::to_string(&status).expect("a status has a text");
    assert_eq!(
        serde_json::from_str::<Value>(&text).ok(),
        serde_json::to_value(&status).ok()
    );
}
