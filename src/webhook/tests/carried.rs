//! What one version carries for the other in an annotation, as admission sees it.

use serde_json::{Value, json};

use super::admission::{asked, message};
use super::*;
use crate::api::conversion::{
    ANNOTATIONS_LIMIT_BYTES, DATA_ANNOTATION, DATA_LIMIT_BYTES, MOST_VALUES,
};

#[tokio::test]
async fn what_would_not_fit_into_the_annotations_of_the_other_version_is_refused() {
    let server = Server::start().await;
    let of = |others: usize, image: &str| {
        let mut object = memcached("v1", json!({"replicas": 1, "image": image}));
        object["metadata"]["annotations"] = json!({"k": "x".repeat(others)});
        object
    };
    let data = json!({"v1": {"image": "a"}}).to_string();
    let room = ANNOTATIONS_LIMIT_BYTES - DATA_ANNOTATION.len() - data.len() - 1;
    let response = asked(&server, MEMCACHED_HUB, &creation(&of(room, "a"))).await;
    assert_eq!(message(&response), "");
    let full = of(room + 1, "a");
    let response = asked(&server, MEMCACHED_HUB, &creation(&full)).await;
    assert!(
        message(&response)
            .contains("metadata.annotations: Too long: may not be more than 262144 bytes")
    );
    // It was so before and gets no worse.
    let response = asked(&server, MEMCACHED_HUB, &update(&full, &of(room + 1, "b"))).await;
    assert_eq!(message(&response), "");
    let response = asked(&server, MEMCACHED_HUB, &update(&full, &of(room + 1, "bb"))).await;
    assert!(message(&response).contains("metadata.annotations"));
}

#[tokio::test]
async fn fields_that_come_in_by_the_annotation_are_checked_too() {
    let server = Server::start().await;
    let of = |data: &str, size: i64| {
        let mut object = memcached("v1alpha1", json!({"size": size}));
        object["metadata"]["annotations"] = json!({DATA_ANNOTATION: data});
        object
    };
    let good = json!({"v1": {"memory": 128}}).to_string();
    let response = asked(&server, MEMCACHED_SEED, &creation(&of(&good, 1))).await;
    assert_eq!(message(&response), "");
    let bad = json!({"v1": {"memory": -5}}).to_string();
    let response = asked(&server, MEMCACHED_SEED, &creation(&of(&bad, 1))).await;
    assert!(
        message(&response).ends_with(
            "metadata.annotations[quartet-operator.example.com/conversion-data]: Invalid value: \
             spec.memory of v1: Invalid value: -5: must be greater than or equal to 1"
        ),
        "{response}"
    );
    let response = asked(&server, MEMCACHED_SEED, &update(&of(&bad, 1), &of(&bad, 2))).await;
    assert_eq!(message(&response), "", "it was so before");
    let long = "x".repeat(DATA_LIMIT_BYTES + 1);
    let response = asked(&server, MEMCACHED_SEED, &creation(&of(&long, 1))).await;
    assert!(message(&response).contains("Too long: may not be more than 32768 bytes"));
}

#[tokio::test]
async fn a_service_that_comes_in_by_the_annotation_needs_a_fit_name_too() {
    let server = Server::start().await;
    let of = |enabled: bool, size: i64| {
        let data = json!({"v1": {"service": {"enabled": enabled}}}).to_string();
        let mut object = memcached("v1alpha1", json!({"size": size}));
        object["metadata"]["name"] = json!("1.x");
        object["metadata"]["annotations"] = json!({DATA_ANNOTATION: data});
        object
    };
    let (with, without) = (of(true, 1), of(false, 1));
    for (review, is_refused) in [
        (creation(&with), true),
        (creation(&without), false),
        (update(&without, &with), true),
        (update(&with, &of(true, 2)), false),
    ] {
        let response = asked(&server, MEMCACHED_SEED, &review).await;
        let blamed = message(&response).contains("metadata.name: Invalid value: \"1.x\"");
        assert_eq!(blamed, is_refused, "{response}");
    }
}

#[tokio::test]
async fn an_update_of_the_annotations_alone_is_checked_too() {
    let server = Server::start().await;
    let with = |version: &str, spec: Value, annotations: Value| {
        let mut object = memcached(version, spec);
        object["metadata"]["annotations"] = annotations;
        object
    };
    let seed = |annotations| with("v1alpha1", json!({"size": 1}), annotations);
    let data =
        |memory: i64| json!({DATA_ANNOTATION: json!({"v1": {"memory": memory}}).to_string()});
    let review = update(&seed(data(64)), &seed(data(-5)));
    let response = asked(&server, MEMCACHED_SEED, &review).await;
    assert!(message(&response).contains("spec.memory of v1: Invalid value: -5"));
    let review = update(&seed(data(-5)), &seed(data(64)));
    let response = asked(&server, MEMCACHED_SEED, &review).await;
    assert_eq!(message(&response), "");

    let full = json!({"k": "x".repeat(ANNOTATIONS_LIMIT_BYTES - 1)});
    let hub = |annotations| with("v1", json!({"replicas": 1, "image": "a"}), annotations);
    let review = update(&hub(json!({"k": "v"})), &hub(full));
    let response = asked(&server, MEMCACHED_HUB, &review).await;
    assert!(message(&response).contains("metadata.annotations: Too long"));
}

#[tokio::test]
async fn an_update_of_the_annotations_alone_may_keep_what_was_wrong() {
    let server = Server::start().await;
    let object = |version: &str, spec: &Value, annotations: Value| {
        let mut object = memcached(version, spec.clone());
        object["metadata"]["annotations"] = annotations;
        object
    };
    let data = |v1: Value| json!({DATA_ANNOTATION: json!({"v1": v1}).to_string()});
    let of_length = |key: &str, bytes: usize| json!({key: "x".repeat(bytes)});
    let (most, full) = (DATA_LIMIT_BYTES, ANNOTATIONS_LIMIT_BYTES);

    let seed = ("v1alpha1", json!({"size": 1}));
    let hub = ("v1", json!({"replicas": 1, "image": "a"}));
    let too_many = ("v1alpha1", json!({"size": 1, "more": vec![0; MOST_VALUES]}));
    let wrong = || json!({"memory": -5});
    let still_wrong = json!({"memory": -5, "threads": 2});
    let worse = json!({"memory": -5, "threads": -2});
    let long_data = |more: usize| of_length(DATA_ANNOTATION, most + more);
    let mut full_and_data = data(wrong());
    full_and_data["k"] = "x".repeat(full).into();
    let kept = vec![
        (&seed, data(wrong()), data(still_wrong)),
        (&seed, long_data(2), long_data(1)),
        (&hub, of_length("k", full), of_length("l", full)),
        (&hub, of_length("k", full), json!({"k": "v"})),
        (&hub, full_and_data, of_length("k", full)),
        (&too_many, json!({"k": "v"}), json!({"k": "w"})),
    ];
    let refused = vec![
        (&seed, data(wrong()), data(worse)),
        (&seed, long_data(1), long_data(2)),
        (&hub, of_length("k", full), of_length("k", full + 1)),
    ];
    for (cases, is_refused) in [(kept, false), (refused, true)] {
        for (number, ((version, spec), old, new)) in cases.into_iter().enumerate() {
            let path = match *version {
                "v1" => MEMCACHED_HUB,
                _ => MEMCACHED_SEED,
            };
            let review = update(&object(version, spec, old), &object(version, spec, new));
            let response = asked(&server, path, &review).await;
            let text = response.to_string();
            let shown = text.get(..400).unwrap_or(&text);
            let place = format!("refused {is_refused}, case {number}: {shown}");
            assert_eq!(response["allowed"] != true, is_refused, "{place}");
        }
    }
}
