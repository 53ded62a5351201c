//! The children of each kind, where the golden files do not show the reason.

use std::collections::BTreeSet;

use super::*;
use quartet_workload::Reason;

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
    for (operator, spec) in [
        (&Memcached as &dyn Operator, json!({ "size": 3 })),
        (&Nginx, json!({ "count": 3 })),
        (&HelloWorld, json!({ "size": 3 })),
    ] {
        assert!(!has_service(operator, from_spoke(operator, &spec)));
    }
}

#[test]
fn a_service_is_made_where_the_hub_field_asks_for_it() {
    for (operator, service, is_made) in [
        (&Nginx as &dyn Operator, json!({}), true),
        (&HelloWorld, json!({ "type": "ClusterIP" }), true),
        (&Memcached, json!({ "enabled": true }), true),
        (&Memcached, json!({ "enabled": false }), false),
        (&Memcached, json!({}), false),
    ] {
        let spec = json!({ "service": service });
        assert_eq!(has_service(operator, spec), is_made, "{service}");
    }
}

#[test]
fn the_deployment_is_applied_before_the_service() {
    let resource = resource(&ElasticWeb, elastic_web(json!(1), 1));
    let children = children(&ElasticWeb, &resource);
    let kinds: Vec<_> = children.iter().map(|child| child.kind).collect();
    assert_eq!(kinds, [DEPLOYMENT, SERVICE]);
}

#[test]
fn memcached_is_told_its_limits_by_its_own_flags() {
    let args = |spec| contained(&Memcached, spec)["args"].clone();
    assert_eq!(args(json!({})), json!(["-m", "64", "-p", "11211"]));
    assert_eq!(
        args(json!({ "memory": 128, "port": 11212, "maxConnections": 10, "threads": 2 })),
        json!(["-m", "128", "-p", "11212", "-c", "10", "-t", "2"])
    );
}

#[test]
fn memcached_requests_the_memory_of_its_items_and_some_for_itself() {
    let container = contained(&Memcached, json!({ "memory": 1000 }));
    assert_eq!(container["resources"]["requests"]["memory"], "1032Mi");
}

/// The API server uses a limit as the request if there is none. Our default could exceed it, and
/// the Deployment would be rejected.
#[test]
fn a_default_request_is_not_added_where_the_user_sets_a_limit() {
    let spec = json!({ "resources": { "limits": { "memory": "16Mi" } } });
    let expected = json!({ "requests": { "cpu": "10m" }, "limits": { "memory": "16Mi" } });
    assert_eq!(contained(&Nginx, spec)["resources"], expected);
}

#[test]
fn what_only_our_image_can_do_is_not_asked_of_the_users() {
    let ours = contained(&Nginx, json!({}));
    assert_eq!(ours["readinessProbe"]["httpGet"]["path"], "/");
    assert_eq!(ours["livenessProbe"]["httpGet"]["path"], "/");

    let users = contained(&Nginx, json!({ "image": "example.com/site" }));
    assert_eq!(users["readinessProbe"]["tcpSocket"]["port"], "http");
    assert_eq!(users.get("livenessProbe"), None);

    let users = contained(&Memcached, json!({ "image": "example.com/m" }));
    assert_eq!(users["securityContext"].get("readOnlyRootFilesystem"), None);
}

/// Users of the original version select pods by this label. A label value has at most 63
/// characters.
#[test]
fn hello_world_pods_keep_their_label() {
    let long = "a".repeat(100);
    let label = quartet_workload::names::label_value(&long);
    for (name, value) in [("hello", "hello"), (&*long, &*label)] {
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
    for (spec, image) in [
        (json!({}), "mirror/nginx:1"),
        (json!({ "image": "mine" }), "mine"),
        (json!({ "image": null }), "mirror/nginx:1"),
    ] {
        let children = Nginx.desired(&resource(&Nginx, spec), &settings);
        let children = children.expect("is not refused");
        assert_eq!(container(&children[0].body)["image"], image);
    }
}

#[test]
fn the_limit_on_replicas_is_inclusive_and_zero_lifts_it() {
    let over = "the spec asks for 6 pods, over the limit of 5 (--max-replicas)";
    for (replicas, max_replicas, refused) in [
        (5, 5, None),
        (6, 5, Some(Problem::new(Reason::ReplicasOverLimit, over))),
        (i32::MAX, 0, None),
        (i32::MAX, u32::MAX, None),
    ] {
        let settings = Settings {
            max_replicas,
            ..Settings::default()
        };
        let resource = resource(&Nginx, json!({ "replicas": replicas }));
        assert_eq!(Nginx.desired(&resource, &settings).err(), refused);
    }
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
        let container = contained(&Memcached, json!({ "image": image }));
        assert_eq!(container["imagePullPolicy"], policy, "{image}");
    }
}
