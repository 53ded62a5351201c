//! Names, selectors and owners of the children, by which each is told from all others.

use std::collections::BTreeSet;

use super::*;
use crate::kinds::BRAND;

#[test]
fn fault_19_and_51_every_child_has_its_owner_and_no_earlier_namesake() {
    for operator in OPERATORS {
        let mut spec = one_pod(*operator);
        if let Some((with_service, _)) = service_on_and_off(operator.kind()) {
            merge(&mut spec, with_service);
        }
        let has_service = operator.kind().hub.service_name.is_needed(&spec);
        let mut resource = resource(*operator, spec);
        resource.uid = "another".to_owned();
        // As served; of the hub only if that is.
        resource.api_version = "of.example.com/served".to_owned();
        let children = children(*operator, &resource);
        let is_its_service = |it: &Child| it.kind == SERVICE && it.name == resource.name;
        assert_eq!(children.iter().any(is_its_service), has_service);
        // With an owner, a retained child would be deleted.
        let is_retained =
            |it: &Child| it.body["metadata"]["annotations"][BRAND.retained_for].is_string();
        for child in children.iter().filter(|it| !is_retained(it)) {
            assert_eq!(
                child.body["metadata"]["ownerReferences"],
                json!([{
                    "apiVersion": resource.api_version,
                    "kind": operator.kind().kind,
                    "name": resource.name,
                    "uid": resource.uid,
                    "controller": true,
                    "blockOwnerDeletion": true,
                }])
            );
        }
    }
}

#[test]
fn fault_31_the_selector_outlives_a_change_of_image() {
    let selector =
        |image| deployed(&Memcached, json!({ "image": image }))["spec"]["selector"].clone();
    assert_eq!(selector("memcached:1.5"), selector("memcached:1.6"));
}

#[test]
fn fault_07_and_43_neither_another_name_nor_another_kind_selects_the_pods() {
    let (mut selectors, mut managers) = (BTreeSet::new(), BTreeSet::new());
    for operator in OPERATORS {
        for name in ["same", "other"] {
            let children = children(*operator, &named(*operator, name, one_pod(*operator)));
            let deployment = workload(&children);
            assert_eq!(deployment["metadata"]["name"], name);
            // Two appliers conflict if they set different values of a field.
            selectors.insert(deployment["spec"]["selector"].to_string());
        }
        managers.insert(operator.kind().field_manager);
    }
    assert_eq!(selectors.len(), 2 * OPERATORS.len());
    assert_eq!(managers.len(), OPERATORS.len());
}

#[test]
fn fault_44_long_and_odd_names_give_valid_children_or_a_clear_refusal() {
    let long = "a".repeat(253);
    let children = children(&Memcached, &named(&Memcached, &long, json!({})));
    assert_eq!(children[0].name.len(), 242);
    for name in [&*long, "1st", "a.b"] {
        let resource = named(&ElasticWeb, name, elastic_web(json!(1), 1));
        let message = desired(&ElasticWeb, &resource)
            .expect_err("is refused")
            .message;
        let expected = "metadata.name: Invalid value: ";
        assert!(message.starts_with(expected), "{message}");
    }
}
