//! Properties for every spec and observation, with generated values.

use proptest::prelude::*;
use serde_json::Map;

use super::generators::{
    any_observed, any_operator, any_resource, valid_resource, valid_resource_of,
};
use super::*;
use crate::tests::api::validation::within;
use quartet_versions::replicas::Pods;
use quartet_workload::Reason;
use quartet_workload::status::is_at_rest;

/// Calls `check` with every value in `value`, at any depth.
fn each_value(value: &Value, check: &mut impl FnMut(&Value)) {
    check(value);
    match value {
        Value::Object(members) => members
            .values()
            .for_each(|member| each_value(member, check)),
        Value::Array(items) => items.iter().for_each(|item| each_value(item, check)),
        _ => {}
    }
}

fn labels(value: &Value) -> &Map<String, Value> {
    value.as_object().expect("labels")
}

fn contains(all: &Value, some: &Value) -> bool {
    labels(some)
        .iter()
        .all(|(key, value)| labels(all).get(key) == Some(value))
}

fn is_label_value(value: &Value) -> bool {
    let text = value.as_str().expect("a text");
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    text.len() <= 63
        && text.bytes().all(inner)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
}

/// Two resources of one operator.
fn two_valid_resources() -> impl Strategy<Value = (&'static dyn Operator, [Resource; 2])> {
    any_operator().prop_flat_map(|operator| {
        let one = || valid_resource_of(operator);
        (Just(operator), [one(), one()])
    })
}

/// `live` after the child is applied.
fn applied(live: &Value, child: &Child) -> Value {
    modelapi::apply(live, &child.body, "manager", true, "2026-01-01T00:00:00Z").expect("forced")
}

proptest! {
    #[test]
    fn no_spec_makes_a_reconciler_panic(
        (operator, resource) in any_resource(), observed in any_observed(), max_replicas: u32,
    ) {
        let settings = Settings { max_replicas, ..Settings::default() };
        let desired = operator.desired(&resource, &settings);
        let status = status_with(operator, &resource, &desired, &observed);
        let _ = is_at_rest(&desired, &observed);
        let refused = desired.err();
        if let Some(refused) = refused {
            let paused = Some(Reason::Paused);
            if observed.problem.as_ref().is_none_or(|problem| Some(problem.reason) == paused) {
                prop_assert_eq!(told(&status, "Degraded"), ("True", refused.reason.as_str()));
            }
        }
    }

    #[test]
    fn what_validation_passes_has_children_or_is_over_the_limit(
        (operator, spec) in any_operator().prop_flat_map(|operator| {
            (Just(operator), within(operator.kind().schema_of(&operator.kind().hub)))
        })
    ) {
        if operator.kind().hub.validate(&spec).is_ok() {
            let refused = desired(operator, &resource(operator, spec)).err();
            prop_assert!(refused.as_ref().is_none_or(|it| it.reason == Reason::ReplicasOverLimit), "{refused:?}");
        }
    }

    #[test]
    fn pods_are_selected_by_their_own_instance_and_watched((operator, resource) in valid_resource()) {
        let children = children(operator, &resource);
        let deployment = workload(&children);
        let pod_labels = &deployment["spec"]["template"]["metadata"]["labels"];
        let selector = &deployment["spec"]["selector"]["matchLabels"];
        prop_assert!(contains(pod_labels, selector));
        prop_assert_eq!(
            labels(selector).keys().collect::<Vec<_>>(),
            ["app.kubernetes.io/instance", "app.kubernetes.io/name"]
        );
        let kind = operator.kind().controller_name();
        prop_assert_eq!(&pod_labels["quartet-operator.example.com/kind"], &kind);
        prop_assert!(labels(pod_labels).values().all(is_label_value));
        for child in &children {
            let metadata = &child.body["metadata"];
            prop_assert_eq!(&metadata["labels"]["app.kubernetes.io/managed-by"], "quartet-operator");
            prop_assert_eq!(&metadata["name"], child.name.as_str());
            if child.kind == SERVICE {
                let by_service = &child.body["spec"]["selector"];
                prop_assert_eq!(&by_service["quartet-operator.example.com/kind"], &kind);
                prop_assert!(contains(by_service, selector) && contains(pod_labels, by_service));
            }
        }
    }

    #[test]
    fn nothing_absent_is_owned((operator, resource) in valid_resource()) {
        for child in children(operator, &resource) {
            let mut absent = Vec::new();
            each_value(&child.body, &mut |value| {
                let empty = value.as_object().is_some_and(Map::is_empty)
                    || value.as_array().is_some_and(Vec::is_empty);
                if value.is_null() || empty {
                    absent.push(value.clone());
                }
            });
            prop_assert_eq!(absent, Vec::<Value>::new(), "{}", child.body);
        }
    }

    #[test]
    fn children_are_a_function_of_the_spec((operator, resource) in valid_resource()) {
        prop_assert_eq!(children(operator, &resource), children(operator, &resource));
    }

    /// What is applied for one spec over what was applied for another equals what is applied to nothing.
    /// `tests/cluster/model.rs` compares this server-side apply with that of the real API server.
    #[test]
    fn applied_children_depend_on_the_spec_and_not_on_an_earlier_one(
        (operator, [mut earlier, resource]) in two_valid_resources(),
    ) {
        earlier.name.clone_from(&resource.name);
        let earlier = children(operator, &earlier);
        for child in children(operator, &resource) {
            let before = earlier.iter().find(|it| (it.kind, &it.name) == (child.kind, &child.name));
            let created = applied(&json!({"metadata": {}}), &child);
            if let Some(before) = before {
                let changed = applied(&applied(&json!({"metadata": {}}), before), &child);
                prop_assert_eq!(changed, created);
            }
        }
    }

    #[test]
    fn elastic_web_has_the_fewest_pods_that_serve_its_target(
        target in 0_i32..=i32::MAX, per_pod in 1_i32..=i32::MAX,
    ) {
        let settings = Settings { max_replicas: 0, ..Settings::default() };
        let resource = resource(&ElasticWeb, elastic_web(json!(target), per_pod.into()));
        let children = ElasticWeb.desired(&resource, &settings).expect("is not refused");
        let pods = children[0].body["spec"]["replicas"].as_i64().expect("a number");
        let (target, per_pod) = (i64::from(target), i64::from(per_pod));
        prop_assert!(pods * per_pod >= target, "{pods} pods are enough");
        prop_assert!(pods == 0 || (pods - 1) * per_pod < target, "one fewer is not");
    }

    #[test]
    fn no_deployment_is_larger_than_the_limit(
        replicas: i32, target: i32, per_pod: i32, max_replicas in 1_u32..2000,
    ) {
        let settings = Settings { max_replicas, ..Settings::default() };
        let direct = resource(&Nginx, json!({ "replicas": replicas }));
        let derived = resource(&ElasticWeb, elastic_web(json!(target), per_pod.into()));
        let operators: [(&dyn Operator, Resource); 2] = [(&Nginx, direct), (&ElasticWeb, derived)];
        for (operator, resource) in operators {
            if let Ok(children) = operator.desired(&resource, &settings) {
                let replicas = children[0].body["spec"]["replicas"].as_i64().expect("a number");
                prop_assert!((0..=i64::from(max_replicas)).contains(&replicas));
            }
        }
    }

    #[test]
    fn real_qps_is_that_of_the_ready_pods(per_pod in 1_i32..=i32::MAX, observed in any_observed()) {
        let resource = resource(&ElasticWeb, elastic_web(json!(0), per_pod.into()));
        let ready = observed.pods.iter().filter(|pod| pod.ready).count();
        let expected = i128::from(per_pod) * i128::try_from(ready).expect("fits");
        let found = status(&ElasticWeb, &resource, &observed).real_qps;
        prop_assert_eq!(found.map(i128::from), Some(expected));
    }

    /// The bound of the schema. The API server rejects a status that exceeds it.
    #[test]
    fn real_qps_is_a_number_that_a_status_may_hold(per_pod: i64, observed in any_observed()) {
        let resource = resource(&ElasticWeb, elastic_web(json!(0), per_pod));
        let real_qps = status(&ElasticWeb, &resource, &observed).real_qps;
        prop_assert!(real_qps.is_some_and(|qps| (0..1 << 53).contains(&qps)), "{real_qps:?}");
    }

    /// The status of a second reconcile with the same observation is equal, whenever it runs.
    #[test]
    fn a_status_is_its_own_fixed_point(
        (operator, mut resource) in any_resource(), mut observed in any_observed(),
    ) {
        resource.status = status(operator, &resource, &observed);
        observed.now = LATER.to_owned();
        prop_assert_eq!(status(operator, &resource, &observed), resource.status);
    }

    #[test]
    fn a_status_keeps_its_bounds((operator, resource) in any_resource(), observed in any_observed()) {
        let status = status(operator, &resource, &observed);
        prop_assert!(status.nodes.len() <= 1000 && status.nodes.is_sorted());
        let told: Vec<_> = status.conditions.iter().map(|it| (&*it.type_, &*it.status)).collect();
        let wanted = match (told[0], told[3]) {
            (_, ("Degraded", "True")) => Some(("Stalled", "True")),
            (("Ready", "False"), _) => Some(("Reconciling", "True")),
            _ => None,
        };
        prop_assert_eq!(told.get(4).copied(), wanted, "for kstatus");
        prop_assert!(told.len() <= 5);
        for condition in &status.conditions {
            prop_assert!(condition.message.len() <= 1024);
            prop_assert!(!condition.reason.is_empty() && !condition.last_transition_time.is_empty());
        }
        prop_assert!(status.real_qps.unwrap_or(0) >= 0);
    }

    /// Ready implies that there is no problem, pods are available, and no rollout is in progress.
    #[test]
    fn ready_agrees_with_the_other_conditions(
        (operator, mut resource) in valid_resource(), observed in any_observed(), replicas in 0_i32..4,
    ) {
        if let Pods::Counted(_) = operator.kind().hub.pods {
            merge(&mut resource.spec, asking_for(operator.kind(), replicas.into()));
        }
        let status = status(operator, &resource, &observed);
        if told(&status, "Ready").0 == "True" {
            prop_assert_eq!(told(&status, "Degraded").0, "False");
            prop_assert_eq!(told(&status, "Progressing").0, "False");
            prop_assert!(observed.unconfirmed.is_none());
            prop_assert!(observed.workload.is_some_and(|workload| workload.is_complete()));
        }
        if told(&status, "Degraded").0 == "True" {
            prop_assert_eq!(told(&status, "Ready").0, "False");
        }
    }
}
