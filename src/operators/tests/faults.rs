//! Regression tests for the faults of the original Go operators that could occur in pure code,
//! one test each. `docs/original-faults.md` lists all faults.

use std::collections::BTreeSet;

use super::super::OPERATORS;
use super::super::observed::{Problem, Reason};
use super::*;

/// A valid hub spec of the kind, with one pod.
fn one_pod(operator: &dyn Operator) -> Value {
    match operator.kind().kind {
        "ElasticWeb" => elastic_web(json!(1), 1),
        _ => json!({ "replicas": 1 }),
    }
}

fn replicas(operator: &dyn Operator, spec: Value) -> Value {
    deployment(operator, &resource(operator, spec))["spec"]["replicas"].clone()
}

fn refused_as(operator: &dyn Operator, spec: Value) -> Reason {
    let refused = desired(operator, &resource(operator, spec)).expect_err("is refused");
    refused.problem().reason
}

fn elastic_web_spoke(total: Value) -> Value {
    let spoke = json!({ "image": "nginx", "port": 30003, "singlePodsQPS": 800, "totalQPS": total });
    from_spoke(&ElasticWeb, &spoke)
}

/// Ten of the user's pods and nine ready pods of ours.
fn nine_of_ten_ready() -> Observed {
    let deployment = ObservedWorkload {
        ready: 9,
        available: 9,
        ..rolled_out(10)
    };
    Observed {
        workload: Some(deployment),
        pods: pods(10, 9),
        ..at_rest(10)
    }
}

#[test]
fn fault_01_an_absent_number_is_a_condition_and_not_a_panic() {
    for absent in [
        json!({}),
        json!(null),
        json!({ "image": "a", "capacity": {}, "service": {} }),
    ] {
        let resource = resource(&ElasticWeb, absent);
        let refused = desired(&ElasticWeb, &resource).expect_err("is refused");
        assert_eq!(refused.problem().reason, Reason::InvalidSpec);
        let status = status(&ElasticWeb, &resource, &Observed::default());
        assert_eq!(told(&status, "Degraded"), ("True", "InvalidSpec"));
    }
}

#[test]
fn fault_02_zero_queries_per_pod_is_refused_and_not_divided_by() {
    assert_eq!(
        refused_as(&ElasticWeb, elastic_web(json!(800), 0)),
        Reason::InvalidSpec
    );
    assert_eq!(
        refused_as(&ElasticWeb, elastic_web(json!(800), -1)),
        Reason::InvalidSpec
    );
}

#[test]
fn fault_03_int32_overflow_in_real_qps_and_in_rounding_up() {
    let per_pod = i32::MAX;
    let resource = resource(&ElasticWeb, elastic_web(json!(i32::MAX), per_pod.into()));
    assert_eq!(deployment(&ElasticWeb, &resource)["spec"]["replicas"], 1);
    let status = status(&ElasticWeb, &resource, &at_rest(1000));
    assert_eq!(status.real_qps, Some(i64::from(per_pod) * 1000));
}

#[test]
fn fault_04_derived_replicas_are_capped() {
    let spec = elastic_web(json!(i32::MAX), 1);
    assert_eq!(
        refused_as(&ElasticWeb, spec.clone()),
        Reason::ReplicasOverLimit
    );
    let status = status(
        &ElasticWeb,
        &resource(&ElasticWeb, spec),
        &Observed::default(),
    );
    assert_eq!(told(&status, "Degraded"), ("True", "ReplicasOverLimit"));
    assert_eq!(
        condition(&status, "Degraded").message,
        "the spec asks for 2147483647 pods, over the limit of 1000 (--max-replicas)"
    );
}

#[test]
fn fault_05_a_total_of_zero_leaves_no_pods_running_and_is_told() {
    for total in [json!(0), json!(null)] {
        let resource = resource(&ElasticWeb, elastic_web_spoke(total));
        assert_eq!(deployment(&ElasticWeb, &resource)["spec"]["replicas"], 0);
        assert_eq!(
            service(&ElasticWeb, &resource)["spec"]["ports"][0]["nodePort"],
            30003
        );
        let status = status(&ElasticWeb, &resource, &at_rest(0));
        assert_eq!(told(&status, "Ready"), ("True", "RolloutComplete"));
        assert_eq!(status.real_qps, Some(0));
    }
}

#[test]
fn fault_06_ports_speak_tcp() {
    let resource = resource(&ElasticWeb, elastic_web(json!(1), 1));
    assert_eq!(
        container(&deployment(&ElasticWeb, &resource))["ports"],
        json!([{ "name": "http", "containerPort": 80, "protocol": "TCP" }])
    );
    assert_eq!(
        service(&ElasticWeb, &resource)["spec"]["ports"],
        json!([{ "name": "http", "protocol": "TCP", "port": 8080, "targetPort": "http", "nodePort": 30003 }])
    );
}

#[test]
fn fault_07_two_instances_never_select_each_others_pods() {
    for operator in OPERATORS {
        let selector = |name| {
            let children = children(*operator, &named(*operator, name, one_pod(*operator)));
            workload(&children)["spec"]["selector"]["matchLabels"].clone()
        };
        assert_ne!(selector("one"), selector("other"));
    }
}

#[test]
fn fault_08_the_service_is_asked_for_at_every_pass() {
    // The function has no observed state as input, so it cannot depend on whether the Deployment
    // exists.
    let resource = resource(&ElasticWeb, elastic_web(json!(1), 1));
    let first = children(&ElasticWeb, &resource);
    assert_eq!(first.len(), 2);
    assert_eq!(first, children(&ElasticWeb, &resource));
}

#[test]
fn fault_09_image_and_ports_reach_the_children() {
    let mut spec = elastic_web(json!(1), 1);
    spec["image"] = json!("example.com/site:8");
    spec["containerPort"] = json!(3000);
    spec["service"]["nodePort"] = json!(30004);
    let resource = resource(&ElasticWeb, spec);
    let deployment = deployment(&ElasticWeb, &resource);
    assert_eq!(container(&deployment)["image"], "example.com/site:8");
    assert_eq!(container(&deployment)["ports"][0]["containerPort"], 3000);
    assert_eq!(
        service(&ElasticWeb, &resource)["spec"]["ports"][0]["nodePort"],
        30004
    );
}

#[test]
fn fault_10_a_status_is_refreshed_when_the_children_are_already_as_wanted() {
    let mut resource = resource(&Memcached, json!({ "replicas": 10 }));
    resource.status = status(&Memcached, &resource, &nine_of_ten_ready());
    assert_eq!(resource.status.ready_replicas, Some(9));
    assert_eq!(
        status(&Memcached, &resource, &at_rest(10)).ready_replicas,
        Some(10)
    );
}

#[test]
fn fault_12_real_qps_is_that_of_ready_pods() {
    let resource = resource(&ElasticWeb, elastic_web(json!(8000), 800));
    assert_eq!(
        status(&ElasticWeb, &resource, &nine_of_ten_ready()).real_qps,
        Some(7200)
    );
}

#[test]
fn fault_13_a_taken_node_port_is_told_as_such() {
    let resource = resource(&ElasticWeb, elastic_web(json!(1), 1));
    let message =
        "spec.ports[0].nodePort: Invalid value: 30003: provided port is already allocated";
    let problem = Problem {
        reason: Reason::NodePortUnavailable,
        message: message.to_owned(),
    };
    let observed = Observed {
        problem: Some(problem),
        others: Vec::new(),
        ..at_rest(1)
    };
    let status = status(&ElasticWeb, &resource, &observed);
    assert_eq!(told(&status, "Degraded"), ("True", "NodePortUnavailable"));
    assert_eq!(condition(&status, "Ready").message, message);
}

#[test]
fn fault_14_what_the_api_server_allocates_for_a_service_is_left_to_it() {
    let spec = json!({ "service": { "type": "LoadBalancer" } });
    let service = service(&Nginx, &resource(&Nginx, spec));
    for field in [
        "clusterIP",
        "clusterIPs",
        "healthCheckNodePort",
        "ipFamilies",
    ] {
        assert_eq!(service["spec"].get(field), None, "{field}");
    }
    assert_eq!(service["spec"]["ports"][0].get("nodePort"), None);
}

#[test]
fn fault_15_container_port_and_resources_are_the_users_to_set() {
    let mut spec = elastic_web(json!(1), 1);
    spec["containerPort"] = json!(3000);
    spec["resources"] = json!({ "requests": { "cpu": "1", "memory": "1Gi" } });
    let deployment = deployment(&ElasticWeb, &resource(&ElasticWeb, spec));
    assert_eq!(container(&deployment)["ports"][0]["containerPort"], 3000);
    assert_eq!(
        container(&deployment)["resources"],
        json!({ "requests": { "cpu": "1", "memory": "1Gi" } })
    );
}

#[test]
fn fault_19_every_child_has_its_owner() {
    for operator in OPERATORS {
        let mut spec = one_pod(*operator);
        if operator.kind().kind == "Memcached" {
            spec["service"] = json!({ "enabled": true });
        } else if operator.kind().kind != "ElasticWeb" {
            spec["service"] = json!({});
        }
        let has_service = operator.kind().hub.service_name.is_needed(&spec);
        let resource = resource(*operator, spec);
        let children = children(*operator, &resource);
        assert_eq!(children.iter().any(|it| it.kind == SERVICE), has_service);
        for child in children {
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
fn fault_20_default_images_are_tagged() {
    for operator in [&Memcached as &dyn Operator, &Nginx, &HelloWorld] {
        let deployment = deployment(operator, &resource(operator, json!({})));
        let image = container(&deployment)["image"].as_str().expect("a text");
        let (_, tag) = image.rsplit_once(':').expect("a tag");
        assert!(!tag.contains('/') && tag != "latest", "{image}");
    }
}

#[test]
fn fault_21_pod_names_are_sorted_and_capped_so_that_a_status_does_not_flap() {
    let resource = resource(&HelloWorld, json!({ "replicas": 2 }));
    let mut observed = at_rest(2);
    let before = status(&HelloWorld, &resource, &observed);
    observed.pods.reverse();
    assert_eq!(status(&HelloWorld, &resource, &observed), before);
    assert_eq!(
        status(&HelloWorld, &resource, &at_rest(1200)).nodes.len(),
        1000
    );
}

#[test]
fn fault_23_absent_replicas_are_one() {
    assert_eq!(replicas(&HelloWorld, json!({})), 1);
}

#[test]
fn fault_26_pods_run_without_root_by_default() {
    for operator in [&Memcached as &dyn Operator, &Nginx, &HelloWorld] {
        let deployment = deployment(operator, &resource(operator, json!({})));
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert!(
            pod["securityContext"]["runAsUser"]
                .as_i64()
                .is_some_and(|user| user > 0)
        );
        let port = container(&deployment)["ports"][0]["containerPort"].as_i64();
        assert!(port.is_some_and(|port| port >= 1024));
        let context = &container(&deployment)["securityContext"];
        assert_eq!(context["capabilities"], json!({ "drop": ["ALL"] }));
        assert_eq!(context["allowPrivilegeEscalation"], false);
    }
}

#[test]
fn fault_29_only_fields_that_we_have_an_opinion_on_are_owned() {
    let deployment = deployment(&Nginx, &resource(&Nginx, json!({})));
    let fields = |value: &Value| {
        value
            .as_object()
            .expect("an object")
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(
        fields(&deployment["spec"]),
        ["replicas", "selector", "template"]
    );
    assert_eq!(
        fields(&deployment["spec"]["template"]["spec"]),
        [
            "automountServiceAccountToken",
            "containers",
            "securityContext"
        ]
    );
    assert_eq!(
        fields(&deployment["metadata"]),
        ["labels", "name", "namespace", "ownerReferences"]
    );
}

#[test]
fn fault_31_the_selector_outlives_a_change_of_image() {
    let selector = |image: &str| {
        let spec = json!({ "image": image });
        deployment(&Memcached, &resource(&Memcached, spec))["spec"]["selector"].clone()
    };
    assert_eq!(selector("memcached:1.5"), selector("memcached:1.6"));
}

#[test]
fn fault_32_no_image_reference_is_taken_apart() {
    for image in ["memcached", "host:5000/m", "m@sha256:00", ":", "a:b:c"] {
        let deployment = deployment(&Memcached, &resource(&Memcached, json!({ "image": image })));
        assert_eq!(container(&deployment)["image"], image);
    }
}

#[test]
fn fault_35_nothing_is_degraded_where_nothing_is_wrong() {
    for operator in OPERATORS {
        let status = status(
            *operator,
            &resource(*operator, one_pod(*operator)),
            &at_rest(1),
        );
        assert_eq!(told(&status, "Degraded"), ("False", "AsExpected"));
    }
}

#[test]
fn fault_36_a_resource_just_created_is_not_available() {
    for operator in OPERATORS {
        let resource = resource(*operator, one_pod(*operator));
        // Applied, but not yet observed by the Deployment controller.
        let deployment = ObservedWorkload {
            generation: 1,
            desired: 1,
            ..Default::default()
        };
        let observed = Observed {
            workload: Some(deployment),
            pods: Vec::new(),
            ..at_rest(1)
        };
        let status = status(*operator, &resource, &observed);
        assert_eq!(told(&status, "Available").0, "False");
        assert_eq!(told(&status, "Ready"), ("False", "RollingOut"));
        assert_eq!(told(&status, "Progressing"), ("True", "RollingOut"));
    }
}

#[test]
fn fault_37_an_absent_size_is_the_same_number_at_every_pass() {
    let resource = resource(&Memcached, json!({}));
    assert_eq!(
        children(&Memcached, &resource),
        children(&Memcached, &resource)
    );
    assert_eq!(
        told(&status(&Memcached, &resource, &at_rest(1)), "Ready").0,
        "True"
    );
}

#[test]
fn fault_38_image_and_port_of_memcached_reach_the_deployment() {
    let spec = json!({ "image": "example.com/memcached:2", "port": 11212 });
    let deployment = deployment(&Memcached, &resource(&Memcached, spec));
    assert_eq!(container(&deployment)["image"], "example.com/memcached:2");
    assert_eq!(container(&deployment)["ports"][0]["containerPort"], 11212);
    assert_eq!(container(&deployment)["args"][3], "11212");
}

#[test]
fn fault_40_a_resource_can_be_scaled_to_zero() {
    for operator in [&Memcached as &dyn Operator, &Nginx, &HelloWorld] {
        assert_eq!(replicas(operator, json!({ "replicas": 0 })), 0);
        let resource = resource(operator, json!({ "replicas": 0 }));
        assert_eq!(
            told(&status(operator, &resource, &at_rest(0)), "Ready").0,
            "True"
        );
    }
}

#[test]
fn fault_42_a_name_that_is_anothers_is_told() {
    let resource = resource(&Nginx, json!({}));
    let problem = Problem {
        reason: Reason::NameConflict,
        message: "is taken".to_owned(),
    };
    let observed = Observed {
        problem: Some(problem),
        now: NOON.to_owned(),
        ..Observed::default()
    };
    let status = status(&Nginx, &resource, &observed);
    assert_eq!(told(&status, "Ready"), ("False", "NameConflict"));
    assert_eq!(told(&status, "Degraded"), ("True", "NameConflict"));
    assert_eq!(told(&status, "Available"), ("False", "NameConflict"));
}

#[test]
fn fault_43_two_kinds_of_one_name_conflict_like_strangers() {
    let deployments: Vec<Value> = OPERATORS
        .iter()
        .map(|operator| children(*operator, &named(*operator, "same", one_pod(*operator))))
        .map(|children| workload(&children).clone())
        .collect();
    for (index, one) in deployments.iter().enumerate() {
        for other in deployments.iter().skip(index + 1) {
            assert_eq!(one["metadata"]["name"], other["metadata"]["name"]);
            // Two appliers conflict if they set different values of a field.
            assert_ne!(one["spec"]["selector"], other["spec"]["selector"]);
        }
    }
    let managers: BTreeSet<_> = OPERATORS
        .iter()
        .map(|operator| operator.kind().field_manager)
        .collect();
    assert_eq!(managers.len(), OPERATORS.len());
}

#[test]
fn fault_44_long_and_odd_names_give_valid_children_or_a_clear_refusal() {
    let long = "a".repeat(253);
    let children = children(&Memcached, &named(&Memcached, &long, json!({})));
    assert_eq!(children[0].name.len(), 242);
    for name in [&*long, "1st", "a.b"] {
        let resource = named(&ElasticWeb, name, elastic_web(json!(1), 1));
        let refused = desired(&ElasticWeb, &resource).expect_err("is refused");
        let message = refused.problem().message;
        assert!(
            message.starts_with("metadata.name: Invalid value: "),
            "{message}"
        );
    }
}

#[test]
fn fault_45_negative_and_huge_sizes_never_reach_a_deployment() {
    for operator in [&Memcached as &dyn Operator, &Nginx, &HelloWorld] {
        assert_eq!(
            refused_as(operator, json!({ "replicas": -1 })),
            Reason::InvalidSpec
        );
        assert_eq!(
            refused_as(operator, json!({ "replicas": 1_i64 << 40 })),
            Reason::InvalidSpec
        );
        assert_eq!(
            refused_as(operator, json!({ "replicas": 1001 })),
            Reason::ReplicasOverLimit
        );
    }
    assert_eq!(
        refused_as(&ElasticWeb, elastic_web(json!(-1), 1)),
        Reason::InvalidSpec
    );
}

#[test]
fn fault_46_pods_have_probes_requests_and_a_security_context() {
    for operator in OPERATORS {
        let children = children(*operator, &resource(*operator, one_pod(*operator)));
        let deployment = workload(&children);
        let container = container(deployment);
        assert!(container["readinessProbe"].is_object());
        let has_liveness = container.get("livenessProbe").is_some();
        assert_eq!(has_liveness, operator.kind().kind != "ElasticWeb");
        for resource in ["cpu", "memory"] {
            assert!(container["resources"]["requests"][resource].is_string());
        }
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!(
            pod["securityContext"]["seccompProfile"]["type"],
            "RuntimeDefault"
        );
        assert_eq!(pod["automountServiceAccountToken"], false);
    }
}

#[test]
fn fault_47_every_status_has_its_generation_and_four_conditions() {
    for operator in OPERATORS {
        let mut resource = resource(*operator, one_pod(*operator));
        resource.generation = 7;
        let status = status(*operator, &resource, &at_rest(1));
        assert_eq!(status.observed_generation, Some(7));
        let types: Vec<_> = status
            .conditions
            .iter()
            .map(|told| told.type_.as_str())
            .collect();
        assert_eq!(types, ["Ready", "Available", "Progressing", "Degraded"]);
        assert!(
            status
                .conditions
                .iter()
                .all(|told| told.observed_generation == Some(7))
        );
    }
}

#[test]
fn fault_51_children_belong_to_this_resource_and_not_to_an_earlier_namesake() {
    let mut recreated = resource(&Memcached, json!({}));
    let before = deployment(&Memcached, &recreated);
    recreated.uid = "another".to_owned();
    let after = deployment(&Memcached, &recreated);
    assert_eq!(after["metadata"]["ownerReferences"][0]["uid"], "another");
    assert_eq!(after["spec"], before["spec"]);
}

/// The list in the documentation is complete, and the tests that it names exist.
#[test]
fn the_list_of_original_faults_is_complete() {
    const LIST: &str = include_str!("../../../docs/original-faults.md");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |file: &str| {
        let text = std::fs::read_to_string(root.join(file));
        text.unwrap_or_else(|error| panic!("{file}: {error}"))
    };
    let rows = LIST
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| #"));
    let mut count = 0;
    for (row, number) in rows.zip(1..) {
        assert!(
            row.starts_with(&format!("| {number} |")),
            "row {number}: {row}"
        );
        let named: Vec<_> = row
            .split('`')
            .filter_map(|word| word.split_once("::"))
            .collect();
        let of_files = named.iter().filter(|(file, _)| file.contains('/'));
        let mut is_shown = row.contains("cannot occur: ");
        for (file, test) in of_files {
            is_shown = true;
            let text = read(file);
            let (before, _) = text
                .split_once(&format!("fn {test}("))
                .unwrap_or_else(|| panic!("{file} has no test {test}"));
            let attributes = before.rsplit("\n\n").next().unwrap_or_default();
            assert!(
                attributes.contains("test]")
                    || attributes.contains("test(")
                    || before.contains("proptest! {"),
                "{file}: {test} is no test"
            );
        }
        assert!(is_shown, "row {number} names no test and no reason");
        count = number;
    }
    assert_eq!(count, 52);
    // Conversely, every test named after a fault is in the list.
    let mut files = vec![
        "src/controller/reconcile/tests.rs".to_owned(),
        "src/controller/reconcile/error_class.rs".to_owned(),
        "src/operators/tests/faults.rs".to_owned(),
    ];
    let cluster = std::fs::read_dir(root.join("tests/cluster")).expect("the cluster tests");
    files.extend(
        cluster
            .map(|entry| {
                format!(
                    "tests/cluster/{}",
                    entry.expect("an entry").file_name().display()
                )
            })
            .filter(|file| file.ends_with(".rs")),
    );
    for file in files {
        let text = read(&file);
        let lines = text
            .lines()
            .map(|line| line.trim().trim_start_matches("async "));
        for line in lines.filter(|line| line.starts_with("fn fault_")) {
            let name = line
                .trim_start_matches("fn ")
                .split('(')
                .next()
                .expect("a name");
            assert!(
                LIST.contains(&format!("`{file}::{name}`")),
                "{file}::{name} is not in the list"
            );
        }
    }
}
