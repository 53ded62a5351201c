//! Adoption of a Deployment that an older operator created. Invariants: its selector stays and
//! selects the pods of the applied Deployment, and exactly the fields of its creator become ours.
#![no_main]

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use quartet_operator::operators::kept::keeping;
use quartet_operator::operators::{Child, DEPLOYMENT, OPERATORS, Settings};
use quartet_operator_fuzz::controllers::{adopt, deployment, observed};
use quartet_operator_fuzz::{is_json, json, resources};
use serde_json::{Value, json};

const MANAGER: &str = "quartet-operator/memcached";
const OWNER: &str = "owner";

fuzz_target!(|input: &[u8]| {
    if is_json(input) {
        if let Ok(object) = serde_json::from_slice::<Value>(input) {
            let children = OPERATORS.iter().filter_map(|operator| {
                let spec = json!({"spec": {"replicas": 1}});
                let resource = resources::resource(operator.kind(), &spec);
                operator.desired(&resource, &Settings::default()).ok()
            });
            check(&object, &children.flatten().collect::<Vec<_>>());
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
        return Ok(());
    };
    let mut object = children[0].body.clone();
    let labels = json!({
        "app.kubernetes.io/name": json::text(bytes)?, "app": json::text(bytes)?,
        *bytes.choose(&["app.kubernetes.io/instance", "version", ""])?: json::text(bytes)?,
    });
    object["spec"]["selector"] = match bytes.int_in_range(0..=5)? {
        0 => json::any(bytes)?,
        1 => object["spec"]["selector"].clone(),
        _ => json!({"matchLabels": labels}),
    };
    object["spec"]["template"]["metadata"]["labels"] = labels;
    let controller = json!({
        "apiVersion": sample.kind.api_version(&sample.kind.spoke), "kind": sample.kind.kind,
        "name": "a", "uid": OWNER, "controller": true,
    });
    let metadata = object["metadata"]
        .as_object_mut()
        .expect("an apply body has metadata");
    metadata.insert("uid".to_owned(), "child".into());
    metadata.insert("resourceVersion".to_owned(), "7".into());
    metadata.insert("ownerReferences".to_owned(), json!([controller]));
    let maker = json!({
        "manager": json::text(bytes)?, "operation": "Update", "fieldsV1": {
            "f:metadata": {"f:ownerReferences": {format!("k:{{\"uid\":\"{OWNER}\"}}"): {}}},
            "f:spec": json::any(bytes)?,
        },
    });
    let mut entries = vec![json::any(bytes)?, json::any(bytes)?];
    entries.insert(bytes.int_in_range(0..=2)?, maker);
    metadata.insert("managedFields".to_owned(), entries.into());
    let adopted = adopt(&object, MANAGER, OWNER).expect("its maker is known");
    let mut ours = object.clone();
    ours["metadata"]["managedFields"] = adopted[2]["value"].clone();
    assert!(
        observed(&ours, MANAGER).is_some(),
        "applied by us from now on: {ours}"
    );
    assert_eq!(adopt(&ours, MANAGER, OWNER), None, "once: {ours}");
    check(&object, &children);
    Ok(())
}

fn check(object: &Value, children: &[Child]) {
    let _ = adopt(object, MANAGER, OWNER);
    let Some((_, _, Some(selector), _)) = deployment(object) else {
        return;
    };
    let theirs = selector["matchLabels"].as_object();
    for child in children {
        let kept = keeping(child, &selector);
        if child.kind != DEPLOYMENT {
            continue;
        }
        assert_eq!(kept.body["spec"]["selector"], selector);
        let labels = &kept.body["spec"]["template"]["metadata"]["labels"];
        for (label, value) in theirs.into_iter().flatten() {
            assert_eq!(&labels[label], value, "the selector selects the pods");
        }
    }
}
