//! Decoded and skipped fields of an object.

use kube::api::{ObjectList, WatchEvent};
use serde_json::{Value, json};

use super::*;

#[derive(Debug, Clone)]
struct Size(u64);

impl Decode for Size {
    fn from_json(object: Value) -> Result<Self, String> {
        let size = object
            .get("spec")
            .and_then(|spec| u64::try_from(spec.get("size")?.as_i64()?).ok());
        size.map(Size)
            .ok_or_else(|| "spec.size is no number".to_owned())
    }
}

fn object(name: &str, size: Value) -> Value {
    json!({
        "apiVersion": "cache.example.com/v1",
        "kind": "Memcached",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": "uid-1",
            "resourceVersion": "42",
            "managedFields": [{"manager": "kubectl"}],
        },
        "spec": {"size": size},
    })
}

#[test]
fn an_undecodable_object_does_not_break_the_list_it_is_in() {
    let list = json!({
        "apiVersion": "cache.example.com/v1",
        "kind": "MemcachedList",
        "metadata": {"resourceVersion": "50", "continue": "next"},
        "items": [object("a", json!(1)), object("b", json!("many")), object("c", json!(3))],
    });
    let list: ObjectList<DecodeGuard<Size>> = serde_json::from_str(&list.to_string()).unwrap();
    assert_eq!(list.metadata.continue_.as_deref(), Some("next"));
    let decoded: Vec<_> = list
        .items
        .into_iter()
        .map(|item| {
            (
                item.key().to_string(),
                item.into_decoded().map(|size| size.0),
            )
        })
        .collect();
    assert_eq!(
        decoded,
        [
            ("default/a".to_owned(), Ok(1)),
            (
                "default/b".to_owned(),
                Err("spec.size is no number".to_owned())
            ),
            ("default/c".to_owned(), Ok(3)),
        ]
    );
}

#[test]
fn an_undecodable_object_does_not_break_the_watch_and_keeps_its_identity() {
    let event = json!({"type": "MODIFIED", "object": object("b", json!(null))});
    let event: WatchEvent<DecodeGuard<Size>> = serde_json::from_str(&event.to_string()).unwrap();
    let WatchEvent::Modified(object) = event else {
        panic!("{event:?}")
    };
    assert_eq!(object.key(), ObjectKey::new("default", "b"));
    assert_eq!(
        (object.uid(), object.resource_version()),
        ("uid-1", Some(42))
    );
    assert!(object.into_decoded().is_err());
}

#[test]
fn of_the_metadata_only_the_identity_is_kept() {
    let object: DecodeGuard<Size> = serde_json::from_value(object("a", json!(1))).unwrap();
    assert_eq!(object.meta().managed_fields, None);
    assert_eq!(object.meta().resource_version.as_deref(), Some("42"));
}

/// Stores the whole object.
#[derive(Debug, Clone)]
struct Everything(Value);

impl Decode for Everything {
    fn from_json(object: Value) -> Result<Self, String> {
        Ok(Everything(object))
    }
}

fn decoded(object: &Value) -> Value {
    let watched: DecodeGuard<Everything> = serde_json::from_str(&object.to_string()).unwrap();
    watched.into_decoded().unwrap().0
}

#[test]
fn what_is_of_another_type_is_taken_as_it_is() {
    for odd in [
        json!(null),
        json!(true),
        json!(-1),
        json!(2),
        json!(1.5),
        json!("a"),
        json!([1]),
    ] {
        let object = json!({"metadata": {"managedFields": odd}});
        assert_eq!(decoded(&object), object);
        let object = json!({"metadata": odd});
        assert_eq!(decoded(&object), object);
        assert_eq!(decoded(&odd), odd);
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
    let url = DecodeGuard::<Size>::url_path(&resource, Some("ns"));
    assert_eq!(url, "/apis/proxy.example.com/v1/namespaces/ns/nginxes");
    type Guard = DecodeGuard<Size>;
    assert_eq!(Guard::kind(&resource), "Nginx");
    assert_eq!(Guard::group(&resource), "proxy.example.com");
    assert_eq!(Guard::version(&resource), "v1");
    assert_eq!(Guard::api_version(&resource), "proxy.example.com/v1");
    assert_eq!(Guard::plural(&resource), "nginxes");
}
