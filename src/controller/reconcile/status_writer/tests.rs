use serde_json::json;

use super::*;

fn status(conditions: [(&str, &str, &str); 2]) -> Status {
    let conditions = conditions.map(|(type_, status, time)| {
        json!({"type": type_, "status": status, "reason": "R", "message": "m", "lastTransitionTime": time})
    });
    serde_json::from_value(json!({"conditions": conditions})).expect("a status")
}

#[test]
fn what_may_be_stored_already_keeps_its_times_and_what_is_stored_has_the_last_word() {
    let stored = status([("Ready", "False", "1"), ("Available", "True", "1")]);
    let unanswered = status([("Ready", "True", "2"), ("Available", "False", "2")]);
    for (wanted, times) in [
        (
            [("Ready", "True", "3"), ("Available", "False", "3")],
            ["2", "2"],
        ),
        (
            [("Ready", "False", "1"), ("Available", "True", "1")],
            ["1", "1"],
        ),
        (
            [("Ready", "Unknown", "3"), ("Available", "True", "1")],
            ["3", "1"],
        ),
    ] {
        let mut wanted = status(wanted);
        keep_times(&mut wanted, &stored, &unanswered);
        let found = wanted
            .conditions
            .iter()
            .map(|it| it.last_transition_time.as_str());
        assert_eq!(found.collect::<Vec<_>>(), times);
    }
}

#[test]
fn a_status_with_other_pods_is_another_one_and_one_with_other_times_is_not() {
    let one = status([("Ready", "False", "1"), ("Available", "True", "1")]);
    let later = status([("Ready", "False", "2"), ("Available", "True", "2")]);
    assert_eq!(content_of(&one), content_of(&later));
    let with_pod = Status {
        nodes: vec!["pod".to_owned()],
        ..later
    };
    assert_ne!(content_of(&one), content_of(&with_pod));
}
