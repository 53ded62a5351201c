//! Ownership in `managedFields`. Invariants: a child that is as it was applied has the fingerprint
//! of the apply body; a changed field of ours changes it, and a field of another manager never
//! does.
#![no_main]

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use quartet_operator_fuzz::controllers::{absorb, adopt, desired, observed};
use quartet_operator_fuzz::{is_json, json, resources};
use quartet_workload::Settings;
use serde_json::{Map, Value, json};

const MANAGER: &str = "quartet-operator/memcached";

const BLAMED: &[&str] = &[
    "spec.ports[1].nodePort",
    "spec.template.spec.containers[0].ports[1].name",
    "spec.template.spec.containers[1].name",
    "spec.ports",
    "[",
    "a[9999999999999999999999].b",
];

fuzz_target!(|input: &[u8]| {
    if is_json(input) {
        if let Ok(object) = serde_json::from_slice::<Value>(input) {
            total(&object);
        }
        return;
    }
    let mut bytes = Unstructured::new(input);
    let _ = recipe(&mut bytes);
});

fn recipe(bytes: &mut Unstructured<'_>) -> Result<()> {
    let sample = resources::sample(bytes)?;
    let resource = resources::resource(sample.kind, &sample.object);
    let Ok(children) = sample.operator.desired(&resource, &Settings::default()) else {
        let mut object = sample.object;
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.insert("managedFields".to_owned(), entries(bytes)?);
        }
        total(&object);
        return Ok(());
    };
    for child in children {
        let mut object = child.body.clone();
        let ours = json!({
            "manager": MANAGER, "operation": "Apply", "fieldsV1": fields_of(&child.body, ""),
        });
        let mut all = match entries(bytes)? {
            Value::Array(entries) => entries,
            _ => Vec::new(),
        };
        // The API server has only one entry per manager and operation.
        all.retain(|entry| entry["manager"] != MANAGER);
        all.push(ours);
        object["metadata"]["managedFields"] = all.into();
        let applied = desired(&child.body);
        assert_eq!(observed(&object, MANAGER), Some(applied), "{object}");
        total(&object);

        let mut with_others = object.clone();
        with_others["spec"]["fieldOfOthers"] = json::any(bytes)?;
        with_others["status"] = json::any(bytes)?;
        let found = observed(&with_others, MANAGER);
        assert_eq!(found, Some(applied), "{with_others}");

        let mut edited = object;
        edited["spec"]["selector"] = json!({"edited": "by hand"});
        assert_ne!(observed(&edited, MANAGER), Some(applied), "{edited}");
    }
    Ok(())
}

/// Returns entries of `managedFields` with any content.
fn entries(bytes: &mut Unstructured<'_>) -> Result<Value> {
    if bytes.ratio(1, 8)? {
        return json::any(bytes);
    }
    let mut entries = Vec::new();
    for _ in 0..bytes.int_in_range(0..=3)? {
        let mut entry = json!({
            "manager": *bytes.choose(&[MANAGER, "manager", "kubectl-edit", ""])?,
            "operation": *bytes.choose(&["Apply", "Update", ""])?,
            "fieldsV1": fields(bytes, 0)?,
        });
        if bytes.ratio(1, 4)? {
            entry["subresource"] = "status".into();
        }
        entries.push(entry);
    }
    Ok(entries.into())
}

fn fields(bytes: &mut Unstructured<'_>, depth: u32) -> Result<Value> {
    const KEYS: &[&str] = &[
        ".",
        "f:spec",
        "f:metadata",
        "f:ownerReferences",
        "f:ports",
        "f:template",
        "f:containers",
        "k:{\"uid\":\"u\"}",
        "k:{\"name\":\"memcached\"}",
        "k:{\"port\":80,\"protocol\":\"TCP\"}",
        "k:{",
        "k:7",
        "v:1",
        "v:{",
        "i:0",
        "i:99999999999999999999",
        "f:",
        "",
        "x",
    ];
    let mut set = Map::new();
    for _ in 0..bytes.int_in_range(0..=3)? {
        let key = match bytes.ratio(1, 8)? {
            true => json::text(bytes)?,
            false => (*bytes.choose(KEYS)?).to_owned(),
        };
        let below = match depth < 6 && bytes.ratio(7, 8)? {
            true => fields(bytes, depth + 1)?,
            false => json::any(bytes)?,
        };
        set.insert(key, below);
    }
    Ok(set.into())
}

/// Returns the set of all fields of an apply body, except those that name the object. A list is
/// owned as a whole.
fn fields_of(value: &Value, path: &str) -> Value {
    const NAMING: &[&str] = &[
        "/apiVersion",
        "/kind",
        "/metadata/name",
        "/metadata/namespace",
    ];
    let mut set = Map::new();
    for (name, member) in value.as_object().into_iter().flatten() {
        let path = format!("{path}/{name}");
        if !NAMING.contains(&path.as_str()) {
            set.insert(format!("f:{name}"), fields_of(member, &path));
        }
    }
    set.into()
}

/// Any entries are read with the same result each time, and the resulting write is a patch with the
/// resourceVersion it was computed from.
fn total(object: &Value) {
    assert_eq!(observed(object, MANAGER), observed(object, MANAGER));
    let _ = desired(object);
    let count = |entries: &Value| entries.as_array().map_or(0, Vec::len);
    let before = count(&object["metadata"]["managedFields"]);
    let patches = BLAMED.iter().map(|blamed| absorb(object, MANAGER, blamed));
    for patch in patches.chain([adopt(object, MANAGER, "u")]).flatten() {
        assert_eq!(patch[0]["op"], "test");
        assert_eq!(patch[0]["value"], object["metadata"]["uid"]);
        assert_eq!(patch[1]["value"], object["metadata"]["resourceVersion"]);
        assert!(count(&patch[2]["value"]) <= before);
    }
}
