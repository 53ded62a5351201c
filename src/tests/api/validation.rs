use proptest::prelude::*;
use serde_json::{Value, json};

use crate::kinds::{elasticweb, helloworld, memcached, nginx};
use crate::tests::api::conversion::generators::{arbitrary_spec, kinds_and_versions};
use quartet_versions::validation::{ErrorReason, MOST_ERRORS, service_name_error, update_errors};
use quartet_versions::{Kind, Version, limits};

mod schemas;
mod within;

pub(crate) use within::within;

fn version_of(kind: &'static Kind, version: &str) -> &'static Version {
    kind.version(version).unwrap()
}

/// The errors for `spec` in one version, one per line.
fn said(kind: &'static Kind, version: &str, spec: Value) -> Vec<String> {
    let version = version_of(kind, version);
    version
        .validate(&spec)
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn a_negative_size_reads_like_the_api_servers_own_error() {
    assert_eq!(
        said(&memcached::KIND, "v1alpha1", json!({"size": -1})),
        ["spec.size: Invalid value: -1: must be greater than or equal to 0"]
    );
}

#[test]
fn a_rule_over_several_fields_is_checked_only_if_each_of_them_is_valid() {
    let said = |port: i64| said(&nginx::KIND, "v1", json!({"service": {"nodePort": port}}));
    assert_eq!(
        said(0),
        ["spec.service.nodePort: Invalid value: 0: must be greater than or equal to 1"]
    );
    let rule = "may only be set when type is NodePort or LoadBalancer";
    let [only] = said(30_000).try_into().expect("one error");
    assert!(only.contains(rule), "{only}");
}

#[test]
fn a_text_in_place_of_a_number_is_told_by_its_type() {
    assert_eq!(
        said(&nginx::KIND, "v1alpha1", json!({"count": "3"})),
        [
            r#"spec.count: Invalid value: "string": spec.count in body must be of type integer: "string""#
        ]
    );
}

#[test]
fn a_missing_field_and_a_null_are_required() {
    for spec in [json!({}), json!({"size": null})] {
        assert_eq!(
            said(&helloworld::KIND, "v1alpha1", spec),
            ["spec.size: Required value"]
        );
    }
    assert_eq!(
        said(&helloworld::KIND, "v1alpha1", Value::Null),
        ["spec: Required value"]
    );
}

#[test]
fn a_spec_that_is_no_object_is_told_so() {
    assert_eq!(
        said(&memcached::KIND, "v1", json!([1])),
        [r#"spec: Invalid value: "array": spec in body must be of type object: "array""#]
    );
}

#[test]
fn errors_speak_of_the_fields_of_the_version_that_was_written() {
    let spoke = json!({"image": "nginx", "port": 0, "singlePodsQPS": 0, "totalQPS": -1});
    assert_eq!(
        said(&elasticweb::KIND, "v1", spoke),
        [
            "spec.port: Invalid value: 0: must be greater than or equal to 1",
            "spec.singlePodsQPS: Invalid value: 0: must be greater than or equal to 1",
            "spec.totalQPS: Invalid value: -1: must be greater than or equal to 0",
        ]
    );
    let hub =
        json!({"image": "nginx", "capacity": {"perPodQPS": 0}, "service": {"nodePort": 70000}});
    assert_eq!(
        said(&elasticweb::KIND, "v2", hub),
        [
            "spec.capacity.perPodQPS: Invalid value: 0: must be greater than or equal to 1",
            "spec.service.nodePort: Invalid value: 70000: must be less than or equal to 65535",
        ]
    );
}

#[test]
fn numbers_beyond_every_integer_type_are_refused() {
    for size in ["2147483648", "9223372036854775808", "1e300", "1.5"] {
        let spec: Value = serde_json::from_str(&format!(r#"{{"size": {size}}}"#)).unwrap();
        assert_eq!(said(&memcached::KIND, "v1alpha1", spec).len(), 1, "{size}");
    }
}

#[test]
fn every_sort_of_rule_of_the_shared_vocabulary_is_checked() {
    let spec = json!({
        "image": "a b",
        "imagePullPolicy": "Sometimes",
        "imagePullSecrets": [{"name": "a"}, {"name": "a"}, {}],
        "resources": {"requests": {"cpu": -1, "memory": "64mi"}, "limits": {"": "1"}},
        "scheduling": {"priorityClassName": "x".repeat(254), "nodeSelector": {"zone": 1}},
    });
    assert_eq!(
        said(&nginx::KIND, "v1", spec),
        [
            r#"spec.image: Invalid value: "a b": must match '^[!-~]*$'"#,
            r#"spec.imagePullPolicy: Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never""#,
            r#"spec.imagePullSecrets[1]: Duplicate value: {"name":"a"}"#,
            "spec.imagePullSecrets[2].name: Required value",
            r#"spec.resources.limits.: Invalid value: "": must be at least 1 chars long"#,
            r#"spec.resources.requests.cpu: Invalid value: -1: must be a quantity that is not negative, such as 100m, 0.5 or 64Mi"#,
            r#"spec.resources.requests.memory: Invalid value: "64mi": must be a quantity that is not negative, such as 100m, 0.5 or 64Mi"#,
            r#"spec.scheduling.nodeSelector.zone: Invalid value: "integer": spec.scheduling.nodeSelector.zone in body must be of type string: "integer""#,
            "spec.scheduling.priorityClassName: Too long: may not be more than 253 bytes",
        ]
    );
    let many = json!({"imagePullSecrets": (0..9).map(|n| json!({"name": n.to_string()})).collect::<Vec<_>>()});
    assert_eq!(
        said(&nginx::KIND, "v1", many),
        ["spec.imagePullSecrets: Too many: 9: must have at most 8 items"]
    );
}

#[test]
fn a_node_port_needs_a_type_of_service_that_has_one() {
    let spec = |service: Value| json!({"service": service});
    for service in [
        json!({"nodePort": 30005}),
        json!({"nodePort": 30005, "type": "ClusterIP"}),
    ] {
        assert_eq!(
            said(&nginx::KIND, "v1", spec(service)),
            [
                "spec.service.nodePort: Invalid value: 30005: may only be set when type is NodePort or LoadBalancer"
            ]
        );
    }
    for service in [
        json!({"nodePort": 30005, "type": "NodePort"}),
        json!({"nodePort": null}),
        json!({}),
    ] {
        assert!(said(&nginx::KIND, "v1", spec(service)).is_empty());
    }
}

#[test]
fn names_that_a_service_cannot_carry_are_found() {
    let longest = "a".repeat(63);
    for name in ["a", "a-1", &longest] {
        assert_eq!(service_name_error(name), None, "{name}");
    }
    for name in ["", "1a", "a-", "a.b", "A", &"a".repeat(64)] {
        assert_eq!(
            service_name_error(name).map(|error| error.reason),
            Some(ErrorReason::Invalid),
            "{name}"
        );
    }
}

#[test]
fn a_hostile_spec_gives_a_bounded_number_of_errors() {
    let selector: serde_json::Map<String, Value> =
        (0..16).map(|n| (n.to_string(), json!(1))).collect();
    let tolerations = vec![json!({"key": 1, "operator": 1, "value": 1, "effect": 1}); 16];
    let spec = json!({"scheduling": {"nodeSelector": selector, "tolerations": tolerations}});
    assert_eq!(said(&memcached::KIND, "v1", spec).len(), MOST_ERRORS);
}

/// The errors for an update from `old` to `new`.
fn said_of_update(kind: &'static Kind, version: &str, old: Value, new: Value) -> Vec<String> {
    let schema = &version_of(kind, version).spec;
    update_errors(schema, &new, Some(&old))
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn an_update_may_leave_what_is_wrong_but_not_change_it_to_something_wrong() {
    let kind = &elasticweb::KIND;
    let spec = |port: i64, total: i64| json!({"image": "a b", "port": port, "singlePodsQPS": 0, "totalQPS": total});
    assert!(said_of_update(kind, "v1", spec(0, 1), spec(0, 2)).is_empty());
    assert_eq!(
        said_of_update(kind, "v1", spec(0, 1), spec(-1, 1)),
        ["spec.port: Invalid value: -1: must be greater than or equal to 1"]
    );
    assert_eq!(
        said_of_update(kind, "v1", spec(30000, 1), spec(0, -1)).len(),
        2
    );
}

#[test]
fn what_was_missing_may_stay_missing_but_may_not_be_taken_away() {
    let kind = &memcached::KIND;
    let update = |old, new| said_of_update(kind, "v1alpha1", old, new);
    assert!(update(json!({}), json!({"size": null})).is_empty());
    assert_eq!(
        update(json!({"size": 1}), json!({})),
        ["spec.size: Required value"]
    );
    assert!(update(Value::Null, Value::Null).is_empty());
    assert_eq!(
        update(json!({"size": 1}), Value::Null),
        ["spec: Required value"]
    );
}

#[test]
fn items_of_lists_and_maps_are_told_by_their_keys() {
    let update = |old, new| said_of_update(&nginx::KIND, "v1", old, new);
    let secrets = |names: &[&str]| json!({"imagePullSecrets": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()});
    assert!(update(secrets(&["", "b"]), secrets(&["c", ""])).is_empty());
    assert_eq!(update(secrets(&["b"]), secrets(&["b", ""])).len(), 1);
    let limits = |limits| json!({"resources": {"limits": limits}});
    assert!(
        update(
            limits(json!({"c p u": "64mi"})),
            limits(json!({"c p u": "64mi", "memory": 1}))
        )
        .is_empty()
    );
    assert_eq!(
        update(
            limits(json!({"c p u": "64mi"})),
            limits(json!({"c p u": "65mi"}))
        )
        .len(),
        1
    );
    // Items of an atomic list cannot be matched: the list is one value.
    let tolerations = |seconds| json!({"scheduling": {"tolerations": [{"effect": "x"}, seconds]}});
    assert_eq!(
        update(tolerations(json!({})), tolerations(json!({"key": "a"}))).len(),
        1
    );
}

#[test]
fn a_rule_over_several_fields_that_was_broken_may_stay_so_while_its_field_stays() {
    let update = |old, new| said_of_update(&nginx::KIND, "v1", old, new);
    let service =
        |port: i64, node_port: i64| json!({"service": {"port": port, "nodePort": node_port}});
    assert!(update(service(80, 30005), service(81, 30005)).is_empty());
    assert_eq!(update(service(80, 30005), service(80, 30006)).len(), 1);
}

proptest! {
    #[test]
    fn an_update_breaks_no_rule_that_the_new_spec_keeps_and_none_when_nothing_changes(
        (kind, version, old, new) in kinds_and_versions().prop_flat_map(|(kind, version)| (
            Just(kind), Just(version), arbitrary_spec(),
            prop_oneof![arbitrary_spec(), within(&version_of(kind, version).spec)],
        ))
    ) {
        let all = said(kind, version, new.clone());
        for error in said_of_update(kind, version, old, new.clone()) {
            prop_assert!(all.contains(&error), "{}", error);
        }
        prop_assert!(said_of_update(kind, version, new.clone(), new).is_empty());
    }

    #[test]
    fn no_json_makes_validation_panic((kind, version) in kinds_and_versions(), spec in arbitrary_spec()) {
        said(kind, version, spec);
    }

    #[test]
    fn what_keeps_every_bound_of_its_schema_passes_or_breaks_a_rule_over_fields(
        (kind, version, spec) in kinds_and_versions()
            .prop_flat_map(|(kind, version)| (Just(kind), Just(version),
                within(&version_of(kind, version).spec)))
    ) {
        for error in said(kind, version, spec.clone()) {
            prop_assert!(error.contains("may only be set when"), "{spec}: {error}");
        }
    }
}
