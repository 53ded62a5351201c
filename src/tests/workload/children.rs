//! The children of each kind, where the golden files do not show the reason.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use quartet_workload::Reason;
use quartet_workload::operand::Operand as _;
use quartet_workload::plan::{ConfigPlan, Plan, StoragePlan};

fn has_service(operator: &dyn Operator, spec: Value) -> bool {
    children(operator, &resource(operator, spec))
        .iter()
        .any(|child| child.kind == SERVICE)
}

#[test]
fn the_list_of_operators_holds_each_kind_once() {
    let kinds = || OPERATORS.iter().map(|operator| operator.kind());
    let names: BTreeSet<_> = kinds().map(|kind| (kind.group, kind.kind)).collect();
    assert_eq!(names.len(), OPERATORS.len());
    for known in ["cache", "elasticweb", "proxy", "test"] {
        assert!(kinds().any(|kind| kind.group.starts_with(known)), "{known}");
    }
}

#[test]
fn a_spoke_object_gets_no_service_that_it_did_not_have() {
    assert!(!has_service(
        &Memcached,
        from_spoke(&Memcached, &json!({ "size": 3 }))
    ));
    assert!(!has_service(
        &Nginx,
        from_spoke(&Nginx, &json!({ "count": 3 }))
    ));
    assert!(!has_service(
        &HelloWorld,
        from_spoke(&HelloWorld, &json!({ "size": 3 }))
    ));
}

#[test]
fn a_service_is_made_where_the_hub_field_asks_for_it() {
    assert!(has_service(&Nginx, json!({ "service": {} })));
    assert!(has_service(
        &HelloWorld,
        json!({ "service": { "type": "ClusterIP" } })
    ));
    assert!(has_service(
        &Memcached,
        json!({ "service": { "enabled": true } })
    ));
    assert!(!has_service(
        &Memcached,
        json!({ "service": { "enabled": false } })
    ));
    assert!(!has_service(&Memcached, json!({ "service": {} })));
}

/// No kind of the four has files or storage; the Redis of the documents has both.
#[test]
fn files_and_storage_are_a_config_map_and_a_stateful_set_with_a_claim() {
    let files = BTreeMap::from([("app.conf".to_owned(), "a b".to_owned())]);
    let folder = "/etc/app";
    let plan = Plan {
        config: Some(ConfigPlan { folder, files }),
        storage: Some(StoragePlan {
            folder: "/data",
            size: "1Gi".to_owned(),
            class: None,
        }),
        ..Memcached
            .plan(
                serde_json::from_value(json!({"replicas": 1})).expect("a spec"),
                &Settings::default(),
            )
            .expect("within the limits")
    };
    let resource = resource(&Memcached, json!({}));
    let children = quartet_workload::children(Operator::kind(&Memcached), &resource, &plan);
    let kinds: Vec<_> = children.iter().map(|child| child.kind.kind).collect();
    assert_eq!(kinds, ["ConfigMap", "StatefulSet"]);
    assert_eq!(children[0].body["data"], json!({"app.conf": "a b"}));
    let spec = &children[1].body["spec"];
    assert_eq!(
        spec["volumeClaimTemplates"],
        json!([{
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "volumeMode": "Filesystem",
            },
            "status": {"phase": "Pending"},
        }])
    );
    let retained = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
    assert_eq!(spec["persistentVolumeClaimRetentionPolicy"], retained);
    let [container] = spec["template"]["spec"]["containers"]
        .as_array()
        .unwrap()
        .as_slice()
    else {
        panic!("{spec}");
    };
    let mounts = container["volumeMounts"].as_array().unwrap();
    let paths: Vec<_> = mounts.iter().map(|mount| &mount["mountPath"]).collect();
    assert!(
        paths.contains(&&json!("/etc/app")) && paths.contains(&&json!("/data")),
        "{mounts:?}"
    );
}

#[test]
fn the_deployment_is_applied_before_the_service() {
    let children = children(
        &ElasticWeb,
        &resource(&ElasticWeb, elastic_web(json!(1), 1)),
    );
    let kinds: Vec<_> = children.iter().map(|child| child.kind).collect();
    assert_eq!(kinds, [DEPLOYMENT, SERVICE]);
}

#[test]
fn memcached_is_told_its_limits_by_its_own_flags() {
    let args =
        |spec| container(&deployment(&Memcached, &resource(&Memcached, spec)))["args"].clone();
    assert_eq!(args(json!({})), json!(["-m", "64", "-p", "11211"]));
    assert_eq!(
        args(json!({ "memory": 128, "port": 11212, "maxConnections": 10, "threads": 2 })),
        json!(["-m", "128", "-p", "11212", "-c", "10", "-t", "2"])
    );
}

#[test]
fn memcached_requests_the_memory_of_its_items_and_some_for_itself() {
    let spec = json!({ "memory": 1000 });
    let deployment = deployment(&Memcached, &resource(&Memcached, spec));
    let found = &container(&deployment)["resources"]["requests"]["memory"];
    assert_eq!(*found, "1032Mi");
}

/// The API server uses a limit as the request if there is none. Our default could exceed it, and
/// the Deployment would be rejected.
#[test]
fn a_default_request_is_not_added_where_the_user_sets_a_limit() {
    let spec = json!({ "resources": { "limits": { "memory": "16Mi" } } });
    let deployment = deployment(&Nginx, &resource(&Nginx, spec));
    let expected = json!({ "requests": { "cpu": "10m" }, "limits": { "memory": "16Mi" } });
    assert_eq!(container(&deployment)["resources"], expected);
}

#[test]
fn what_only_our_image_can_do_is_not_asked_of_the_users() {
    let ours = deployment(&Nginx, &resource(&Nginx, json!({})));
    assert_eq!(container(&ours)["readinessProbe"]["httpGet"]["path"], "/");
    assert_eq!(container(&ours)["livenessProbe"]["httpGet"]["path"], "/");

    let users = deployment(
        &Nginx,
        &resource(&Nginx, json!({ "image": "example.com/site" })),
    );
    let found = &container(&users)["readinessProbe"]["tcpSocket"]["port"];
    assert_eq!(*found, "http");
    assert_eq!(container(&users).get("livenessProbe"), None);

    let users = deployment(
        &Memcached,
        &resource(&Memcached, json!({ "image": "example.com/m" })),
    );
    let found = container(&users)["securityContext"].get("readOnlyRootFilesystem");
    assert_eq!(found, None);
}

/// Users of the original version select pods by this label. A label value has at most 63
/// characters.
#[test]
fn hello_world_pods_keep_their_label() {
    let long = "a".repeat(100);
    for (name, value) in [
        ("hello", "hello"),
        (&*long, &*quartet_workload::names::label_value(&long)),
    ] {
        let deployment = deployment(&HelloWorld, &named(&HelloWorld, name, json!({})));
        let found = &deployment["spec"]["template"]["metadata"]["labels"]["hello_name"];
        assert_eq!(*found, value);
        assert_eq!(deployment["metadata"]["labels"].get("hello_name"), None);
    }
}

#[test]
fn the_operand_image_comes_from_the_settings_unless_the_spec_names_one() {
    let settings = Settings {
        images: [("NGINX_IMAGE", "mirror/nginx:1".to_owned())].into(),
        ..Settings::default()
    };
    let image = |spec| {
        let children = Nginx
            .desired(&resource(&Nginx, spec), &settings)
            .expect("is not refused");
        container(&children[0].body)["image"].clone()
    };
    assert_eq!(image(json!({})), "mirror/nginx:1");
    assert_eq!(image(json!({ "image": "mine" })), "mine");
    assert_eq!(image(json!({ "image": null })), "mirror/nginx:1");
}

#[test]
fn owner_references_carry_the_api_version_that_the_resource_says_is_served() {
    let mut resource = resource(&Memcached, json!({}));
    resource.api_version = "cache.example.com/v1alpha1".to_owned();
    let owners = deployment(&Memcached, &resource)["metadata"]["ownerReferences"].clone();
    assert_eq!(owners[0]["apiVersion"], "cache.example.com/v1alpha1");
}

#[test]
fn the_limit_on_replicas_is_inclusive_and_zero_lifts_it() {
    let refused = |replicas: i64, max_replicas: u32| {
        let settings = Settings {
            max_replicas,
            ..Settings::default()
        };
        Nginx
            .desired(
                &resource(&Nginx, json!({ "replicas": replicas })),
                &settings,
            )
            .err()
    };
    assert_eq!(refused(5, 5), None);
    assert_eq!(
        refused(6, 5),
        Some(Problem::new(
            Reason::ReplicasOverLimit,
            "the spec asks for 6 pods, over the limit of 5 (--max-replicas)"
        ))
    );
    assert_eq!(refused(i32::MAX.into(), 0), None);
    assert_eq!(refused(i32::MAX.into(), u32::MAX), None);
}

/// As the API server does; `tests/versions/pull_policy.rs` compares with one.
#[test]
fn an_image_is_always_pulled_if_its_tag_is_latest() {
    let digest = format!("sha256:{}", "0".repeat(64));
    for (image, policy) in [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("registry:5000/nginx", "Always"),
        ("[::1]:5000/nginx", "Always"),
        (&*format!("nginx:latest@{digest}"), "Always"),
        ("nginx:1.17.1", "IfNotPresent"),
        ("registry:5000/nginx:1", "IfNotPresent"),
        (&*format!("nginx@{digest}"), "IfNotPresent"),
        (&*format!("nginx:1@{digest}"), "IfNotPresent"),
    ] {
        let deployment = deployment(&Memcached, &resource(&Memcached, json!({ "image": image })));
        assert_eq!(container(&deployment)["imagePullPolicy"], policy, "{image}");
    }
}
