//! What a status says of its resource, and when.

use super::*;
use quartet_workload::Problem;

#[test]
fn fault_10_a_status_is_refreshed_when_the_children_are_already_as_wanted() {
    let mut resource = resource(&Memcached, json!({ "replicas": 10 }));
    resource.status = status(&Memcached, &resource, &nine_of_ten_ready());
    assert_eq!(resource.status.ready_replicas, Some(9));
    let found = status(&Memcached, &resource, &at_rest(10)).ready_replicas;
    assert_eq!(found, Some(10));
}

#[test]
fn fault_21_pod_names_are_sorted_and_capped_so_that_a_status_does_not_flap() {
    let resource = resource(&HelloWorld, json!({ "replicas": 2 }));
    let mut observed = at_rest(2);
    let before = status(&HelloWorld, &resource, &observed);
    observed.pods.reverse();
    assert_eq!(status(&HelloWorld, &resource, &observed), before);
    let found = status(&HelloWorld, &resource, &at_rest(1200)).nodes.len();
    assert_eq!(found, 1000);
}

#[test]
fn fault_36_a_resource_just_created_is_not_available() {
    for operator in OPERATORS {
        let resource = resource(*operator, one_pod(*operator));
        // Applied, but not yet observed by the Deployment controller.
        let mut applied = at_rest(1);
        applied.pods = Vec::new();
        applied.workload = Some(ObservedWorkload {
            generation: 1,
            desired: 1,
            ..Default::default()
        });
        for (observed, reason) in [
            (Observed::default(), "RollingOut"),
            (applied, "MinimumReplicasUnavailable"),
        ] {
            let status = status(*operator, &resource, &observed);
            assert_eq!(told(&status, "Available"), ("False", reason));
            assert_eq!(told(&status, "Ready"), ("False", "RollingOut"));
            assert_eq!(told(&status, "Progressing"), ("True", "RollingOut"));
            assert_eq!(told(&status, "Degraded"), ("False", "AsExpected"));
            assert_eq!((status.replicas, status.ready_replicas), (Some(0), Some(0)));
        }
    }
}

#[test]
fn fault_42_a_name_that_is_anothers_is_told() {
    let resource = resource(&Nginx, json!({}));
    let observed = Observed {
        problem: Some(Problem::new(Reason::NameConflict, "is taken")),
        ..Observed::default()
    };
    let status = status(&Nginx, &resource, &observed);
    assert_eq!(told(&status, "Ready"), ("False", "NameConflict"));
    assert_eq!(told(&status, "Degraded"), ("True", "NameConflict"));
    assert_eq!(told(&status, "Available"), ("False", "NameConflict"));
    // All conditions tell the same.
    let told = status.conditions.iter().map(|it| it.message.as_str());
    assert_eq!(told.collect::<Vec<_>>(), ["is taken"; 5]);
}

#[test]
fn fault_35_and_47_a_status_has_its_generation_and_conditions_that_are_right() {
    for operator in OPERATORS {
        let mut resource = resource(*operator, one_pod(*operator));
        resource.generation = 7;
        let status = status(*operator, &resource, &at_rest(1));
        assert_eq!(status.observed_generation, Some(7));
        let told = &status.conditions;
        let types: Vec<_> = told.iter().take(4).map(|it| &*it.type_).collect();
        assert_eq!(types, ["Ready", "Available", "Progressing", "Degraded"]);
        assert!(told.iter().all(|it| it.observed_generation == Some(7)));
        assert_eq!(self::told(&status, "Degraded"), ("False", "AsExpected"));
    }
}
