use serde_json::json;

use super::*;

fn status(conditions: [(&str, &str, &str); 2]) -> Status {
    let conditions = conditions.map(|(type_, status, time)| {
        json!({"type": type_, "status": status, "reason": "R", "message": "m", "lastTransitionTime": time})
    });
    serde_json::from_value(json!({"conditions": conditions})).expect("a status")
}

#[test]
fn a_status_with_other_pods_is_another_one_and_one_with_other_times_is_not() {
    let one = status([("Ready", "False", "1"), ("Available", "True", "1")]);
    let later = status([("Ready", "False", "2"), ("Available", "True", "2")]);
    assert_eq!(content_of(one.clone()), content_of(later.clone()));
    let with_pod = Status {
        nodes: vec!["pod".to_owned()],
        ..later
    };
    assert_ne!(content_of(one), content_of(with_pod));
}
