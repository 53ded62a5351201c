use super::*;

fn conversion() -> Value {
    json!({
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"service": {"name": "s", "path": "/convert"}}},
    })
}

fn crd(conversion: Value) -> Value {
    json!({
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "c"},
        "spec": {"versions": [{"name": "v1"}, {"name": "v2"}], "conversion": conversion},
    })
}

fn configuration() -> Value {
    json!({
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "v", "labels": {LABEL: "kustomize"}},
        "webhooks": [{"clientConfig": {"service": {"name": "s", "path": "/validate"}}}],
    })
}

fn place(object: Value, port: u16) -> Place {
    let url = format!("https://127.0.0.1:{port}/");
    Place::new(object, &url, "CA", Path::new("/tmp"))
}

/// The object after the command.
fn changed(mut object: Value, command: Option<Vec<String>>) -> Value {
    let command = command.expect("a change");
    let patch = command[3].strip_prefix("--patch=").expect("a patch");
    let patch: Value = serde_json::from_str(patch).unwrap();
    let path = patch[0]["path"].as_str().unwrap();
    *object.pointer_mut(path).unwrap() = patch[0]["value"].clone();
    object
}

#[test]
fn what_was_found_is_restored() {
    for (packaged, found) in [
        (crd(conversion()), crd(json!({"strategy": "None"}))),
        (configuration(), configuration()),
    ] {
        let mut it = place(packaged, 1);
        let command = it.registered(Some(&found));
        let placed = changed(found.clone(), command);
        let [(url, bundle)] = &it.urls(&placed)[..] else {
            panic!("{placed}");
        };
        let path = url.as_str().unwrap().strip_prefix("https://127.0.0.1:1/");
        assert!(["convert", "validate"].contains(&path.unwrap()), "{url}");
        assert_eq!(bundle, "Q0E=");
        assert_eq!(it.registered(Some(&placed)), None, "it is there");
        let command = it.restored(Some(&placed));
        assert_eq!(changed(placed, command), found);
        assert_eq!(it.restored(Some(&found)), None, "it is not ours");
    }
}

#[test]
fn what_a_killed_run_left_is_not_taken_for_the_original() {
    for packaged in [crd(conversion()), configuration()] {
        let command = place(packaged.clone(), 1).registered(Some(&packaged));
        let left = changed(packaged.clone(), command);
        let mut it = place(packaged.clone(), 2);
        assert_eq!(it.restored(Some(&left)), None, "it is of another");
        let command = it.registered(Some(&left));
        let placed = changed(left, command);
        let command = it.restored(Some(&placed));
        assert_eq!(changed(placed, command), packaged);
    }
}

#[test]
fn a_crd_of_one_version_and_a_missing_one_are_left_alone() {
    let mut single = crd(json!({"strategy": "None"}));
    single["spec"]["versions"] = json!([{"name": "v1"}]);
    let mut it = place(crd(conversion()), 1);
    assert_eq!(it.registered(Some(&single)), None);
    assert_eq!(it.registered(None), None);
}

#[test]
fn loopback_is_known_by_name_and_by_address() {
    for (url, is_local) in [
        ("https://127.8.9.10:1", true),
        ("https://[::1]:1/", true),
        ("https://localhost", true),
        ("https://10.96.0.1:1", false),
        ("https://localhost.example.com", false),
        ("https://127.0.0.1.example.com", false),
    ] {
        assert_eq!(is_loopback(host(&url.parse().unwrap())), is_local, "{url}");
    }
}
