//! Objects as the API server sends them, and odd ones.

use kube::api::{ObjectList, WatchEvent};
use serde_json::{Value, json};

use super::*;

fn object(name: &str, size: Value) -> Value {
    json!({
        "apiVersion": "cache.example.com/v1", "kind": "Memcached",
        "metadata": {
            "name": name, "namespace": "default", "uid": "uid-1", "resourceVersion": "42",
            "managedFields": [{"manager": "kubectl"}],
        },
        "spec": {"size": size},
    })
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
    assert_eq!(received.object().unwrap(), object("b", json!(null)));
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
    let error = received.object().unwrap_err();
    assert!(error.contains("recursion limit exceeded"), "{error}");
}

#[test]
fn what_is_of_another_type_is_taken_as_it_is() {
    for odd in ["null", "true", "-1", "2", "1.5", "\"a\"", "[1]"] {
        let odd: Value = serde_json::from_str(odd).unwrap();
        for object in [
            json!({"metadata": {"managedFields": odd}}),
            json!({"metadata": odd}),
            odd,
        ] {
            let received: Received = serde_json::from_str(&object.to_string()).unwrap();
            assert_eq!(received.object().unwrap(), object);
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
