//! The lines of a watch, of any of the watched kinds. Invariants: no line corrupts the cache, the
//! same lines give the same cache, and each object is in it once.
#![no_main]

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use quartet_operator_fuzz::controllers::follow;
use quartet_operator_fuzz::{is_json, json, resources};
use serde_json::json;

const TYPES: &[&str] = &[
    "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "OTHER", "",
];

/// The most events of one input.
const MOST: usize = 12;

fuzz_target!(|input: &[u8]| {
    if is_json(input) {
        check(&input.split(|byte| *byte == b'\n').collect::<Vec<_>>());
        return;
    }
    let mut bytes = Unstructured::new(input);
    let mut lines = Vec::new();
    while lines.len() < MOST && !bytes.is_empty() {
        let Ok(event) = event(&mut bytes) else { break };
        lines.push(event.into_bytes());
    }
    check(&lines.iter().map(Vec::as_slice).collect::<Vec<_>>());
});

fn event(bytes: &mut Unstructured<'_>) -> Result<String> {
    let kind = *bytes.choose(TYPES)?;
    let mut object = match bytes.int_in_range(0..=7)? {
        0 => json::any(bytes)?,
        1 => {
            json!({"kind": "Status", "code": 410, "reason": "Expired", "message": json::text(bytes)?})
        }
        _ => resources::sample(bytes)?.object,
    };
    if let Some(members) = object.as_object_mut() {
        let metadata = members.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            // Few names, so that events concern the same objects.
            metadata.insert("name".to_owned(), (*bytes.choose(&["a", "b"])?).into());
            metadata.insert("namespace".to_owned(), "n".into());
            metadata.insert("uid".to_owned(), (*bytes.choose(&["1", "2", "3"])?).into());
            let version = bytes.int_in_range(0..=40)?.to_string();
            metadata.insert("resourceVersion".to_owned(), version.into());
            if bytes.ratio(1, 4)? {
                metadata.insert("managedFields".to_owned(), json::any(bytes)?);
            }
            if bytes.ratio(1, 2)? {
                let owner = json!({
                    "apiVersion": "cache.example.com/v1", "kind": "Memcached", "name": "a",
                    "uid": "1", "controller": bytes.ratio(3, 4)?,
                });
                metadata.insert("ownerReferences".to_owned(), json!([owner]));
            }
        }
        if bytes.ratio(1, 3)? {
            members.insert("status".to_owned(), json::any(bytes)?);
        }
    }
    Ok(format!(r#"{{"type":"{kind}","object":{object}}}"#))
}

fn check(lines: &[&[u8]]) {
    let followed = follow(lines);
    assert_eq!(follow(lines), followed, "the same lines, the same cache");
    for (namespace, name, _, _) in &followed.cached {
        // One state in each of the four caches.
        let states = followed.cached.iter();
        let states = states.filter(|it| it.0 == *namespace && it.1 == *name);
        assert!(states.count() <= 4, "{namespace}/{name}");
    }
    assert!(followed.cached.len() <= followed.decoded);
}
