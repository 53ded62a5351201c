//! Decoded and skipped fields of an object.

use kube::api::{ObjectList, WatchEvent};
use serde_json::{Value, json};

use super::*;

#[derive(Debug, Clone)]
struct Size(u64);

impl Decode for Size {
    fn from_json(object: &Json<'_>) -> Result<Self, String> {
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

/// Stores the decoded fields.
#[derive(Debug, Clone)]
struct Everything<const MANAGERS: bool>(Value);

impl<const MANAGERS: bool> Decode for Everything<MANAGERS> {
    const SKIPPED: &'static [&'static str] = &["spec"];
    const READS_MANAGED_FIELDS: bool = MANAGERS;

    fn from_json(object: &Json<'_>) -> Result<Self, String> {
        Ok(Everything(Value::from(object)))
    }
}

/// Decodes from a text in which `manager` precedes `fieldsV1`, as in the API server's.
fn decoded<const MANAGERS: bool>(object: &Value) -> Value {
    let text = object.to_string().replace("fieldsV1", "zFieldsV1");
    let text = serde_json::from_str::<Value>(&text).unwrap().to_string();
    let text = text.replace("zFieldsV1", "fieldsV1");
    let watched: DecodeGuard<Everything<MANAGERS>> = serde_json::from_str(&text).unwrap();
    watched.into_decoded().unwrap().0.clone()
}

#[test]
fn unused_fields_are_not_decoded() {
    let fields = json!({"f:spec": {"f:replicas": {}}});
    let managers = json!([
        {"manager": "quartet-operator-memcached", "operation": "Apply", "fieldsV1": fields},
        {"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": fields},
        {"manager": "quartet-operator-nginx", "operation": "Update", "fieldsV1": fields},
    ]);
    let object = json!({
        "kind": "Pod",
        "metadata": {"name": "a", "labels": {"b": "c"}, "managedFields": managers},
        "spec": {"containers": [{"name": "d"}]},
        "status": {"conditions": [{"type": "Ready"}], "n": [1, -1, 1.5, true, null]},
    });
    let mut expected = object.clone();
    expected.as_object_mut().unwrap().remove("spec");
    let mut of_ours = expected.clone();
    for entry in [1, 2] {
        let entry = &mut of_ours["metadata"]["managedFields"][entry];
        entry.as_object_mut().unwrap().remove("fieldsV1");
    }
    assert_eq!(decoded::<true>(&object), of_ours);
    let metadata = expected["metadata"].as_object_mut().unwrap();
    metadata.remove("managedFields");
    assert_eq!(decoded::<false>(&object), expected);
}

/// Which members arrive as text.
#[derive(Debug, Clone)]
struct Texts(Vec<&'static str>);

impl Decode for Texts {
    const UNPARSED: &'static [&'static str] = &["status", "spec.size"];

    fn from_json(object: &Json<'_>) -> Result<Self, String> {
        let paths = ["/status", "/spec/size", "/spec/other", "/metadata/status"];
        let is_text = |path: &&str| matches!(object.pointer(path), Some(Json::Unparsed(_)));
        Ok(Texts(paths.into_iter().filter(is_text).collect()))
    }
}

#[test]
fn what_is_left_as_text_is_not_parsed() {
    let object =
        r#"{"metadata": {"status": [1]}, "spec": {"size": [2], "other": [3]}, "status": [4]}"#;
    let object: DecodeGuard<Texts> = serde_json::from_str(object).unwrap();
    assert_eq!(object.into_decoded().unwrap().0, ["/status", "/spec/size"]);
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
        assert_eq!(decoded::<true>(&object), object);
        let object = json!({"metadata": odd});
        assert_eq!(decoded::<true>(&object), object);
        assert_eq!(decoded::<true>(&odd), odd);
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
