//! Objects as the API server sends them, and odd ones.

use kube::api::{ObjectList, WatchEvent};
use serde_json::{Value, json};

use super::*;

fn object(name: &str, size: Value) -> Value {
    json!({
        "apiVersion": "cache.example.com/v1", "kind": "Memcached",
        "metadata": {
            "name": name, "namespace": "default", "uid": "uid-1", "resourceVersion": "42",
            "managedFields": [
                {"fieldsV1": {"f:spec": {}}, "manager": "kubectl", "operation": "Apply"},
                {"fieldsV1": {"f:spec": {}}, "manager": "kubelet", "operation": "Update"},
            ],
        },
        "spec": {"size": size},
    })
}

/// What is read of an event with this object, without these fields.
fn read(object: &Value, unread: &[&str]) -> Result<Value, String> {
    let event = format!(r#"{{"type":"MODIFIED","object":{object}}}"#);
    match serde_json::from_str(&event).unwrap() {
        WatchEvent::<Received>::Modified(received) => received.object(unread),
        event => panic!("{event:?}"),
    }
}

#[test]
fn an_object_without_metadata_does_not_break_the_list_it_is_in() {
    let list = json!({
        "apiVersion": "cache.example.com/v1",
        "kind": "MemcachedList",
        "metadata": {"resourceVersion": "50", "continue": "next"},
        "items": [object("a", json!(1)), {"metadata": 1}, object("c", json!(3))],
    });
    let list: ObjectList<Received> = serde_json::from_str(&list.to_string()).unwrap();
    assert_eq!(list.metadata.continue_.as_deref(), Some("next"));
    let keys: Vec<_> = list.items.iter().map(|it| it.key().to_string()).collect();
    assert_eq!(keys, ["default/a", "", "default/c"]);
}

#[test]
fn an_object_in_a_watch_has_its_identity_and_nothing_else_of_the_metadata() {
    let event = object("b", json!(null));
    let event = format!(r#"{{"type":"MODIFIED","object":{event}}}"#);
    let event: WatchEvent<Received> = serde_json::from_str(&event).unwrap();
    let WatchEvent::Modified(received) = event else {
        panic!("{event:?}")
    };
    assert_eq!(received.key(), ObjectKey::new("default", "b"));
    let found = (received.uid(), received.resource_version());
    assert_eq!(found, ("uid-1", Some(42)));
    assert_eq!(received.meta().managed_fields, None);
    assert_eq!(received.form(), "v1");
}

#[test]
fn what_nobody_reads_is_left_out_and_nothing_else() {
    let mut expected = object("b", json!([{"spec": 1}]));
    let entries = &mut expected["metadata"]["managedFields"];
    entries[1].as_object_mut().unwrap().remove("fieldsV1");
    let sent = object("b", json!([{"spec": 1}]));
    assert_eq!(read(&sent, &[]).unwrap(), expected);
    let without = read(&sent, &["spec", "managedFields"]).unwrap();
    let metadata = expected["metadata"].as_object_mut().unwrap();
    metadata.remove("managedFields");
    expected.as_object_mut().unwrap().remove("spec");
    assert_eq!(without, expected);
}

#[test]
fn an_object_that_is_nested_too_deeply_ends_no_watch() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let object = format!(r#"{{"metadata":{{"name":"a","uid":"u"}},"spec":{deep}}}"#);
    let event = format!(r#"{{"type":"ADDED","object":{object}}}"#);
    let event: WatchEvent<Received> = serde_json::from_str(&event).unwrap();
    let WatchEvent::Added(received) = event else {
        panic!("{event:?}")
    };
    assert_eq!(received.uid(), "u");
    let error = received.object(&[]).unwrap_err();
    assert!(error.contains("recursion limit exceeded"), "{error}");
}

#[test]
fn metadata_of_another_type_fails_and_ends_no_watch() {
    for odd in ["null", "true", "-1", "2", "1.5", "\"a\""] {
        let odd: Value = serde_json::from_str(odd).unwrap();
        let managed = json!({"metadata": {"managedFields": odd}});
        let unread = read(&managed, &["managedFields"]).unwrap();
        assert_eq!(unread, json!({"metadata": {}}));
        for object in [managed, json!({"metadata": odd})] {
            let error = read(&object, &[]).unwrap_err();
            assert!(error.contains("invalid type"), "{error}");
        }
    }
}

#[test]
fn requests_go_to_the_resource_that_is_named_at_run_time() {
    let resource = ApiResource {
        group: "proxy.example.com".into(),
        version: "v1".into(),
        api_version: "proxy.example.com/v1".into(),
        kind: "Nginx".into(),
        plural: "nginxes".into(),
    };
    let url = Received::url_path(&resource, Some("ns"));
    assert_eq!(url, "/apis/proxy.example.com/v1/namespaces/ns/nginxes");
    assert_eq!(Received::kind(&resource), "Nginx");
    assert_eq!(Received::group(&resource), "proxy.example.com");
    assert_eq!(Received::version(&resource), "v1");
    assert_eq!(Received::api_version(&resource), "proxy.example.com/v1");
    assert_eq!(Received::plural(&resource), "nginxes");
}
