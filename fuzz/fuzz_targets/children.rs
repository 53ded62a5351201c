//! From a custom resource to its children, for any JSON. Invariants: a spec that breaks a rule gives
//! that rule and no children; children keep the bounds of the API server.
#![no_main]

use arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use quartet_operator::kinds::OPERATORS;
use quartet_operator_fuzz::{is_json, resources};
use quartet_workload::{Operator, Resource, Settings};
use serde_json::Value;

fuzz_target!(|input: &[u8]| {
    if !is_json(input) {
        if let Ok(sample) = resources::sample(&mut Unstructured::new(input)) {
            let resource = resources::resource(sample.kind, &sample.object);
            check(sample.operator, &resource);
        }
    } else if let Ok(object) = serde_json::from_slice::<Value>(input) {
        for operator in OPERATORS {
            check(*operator, &resources::resource(operator.kind(), &object));
        }
    }
});

fn check(operator: &dyn Operator, resource: &Resource) {
    let settings = Settings::default();
    let checked = operator.kind().hub.validate(&resource.spec);
    let desired = operator.desired(resource, &settings);
    assert_eq!(operator.desired(resource, &settings), desired);
    match desired {
        Ok(children) => {
            assert_eq!(checked, Ok(()));
            for child in children {
                let text = serde_json::to_string(&child.body).expect("a child has a text");
                let read = serde_json::from_str::<Value>(&text).ok();
                assert_eq!(read.as_ref(), Some(&child.body));
                let labels = child.body["metadata"]["labels"].as_object();
                for value in labels.expect("a child has labels").values() {
                    assert!(value.as_str().is_some_and(|value| value.len() <= 63));
                }
            }
        }
        Err(problem) => assert!(!problem.message.is_empty()),
    }
}
