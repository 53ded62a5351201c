//! The changes of a resource that enqueue it, and those that do not.

use super::*;

#[test]
fn a_resource_wakes_when_it_differs_and_is_dropped_from_the_queue_when_it_is_gone() {
    let scene = Scene::new();
    let old = Arc::new(resource("ns", "web", "uid", 1));
    scene.resource_changed("Nginx", &added(Arc::clone(&old)), false);
    assert_eq!(scene.enqueued(), ["Nginx ns/web"]);
    let bumped = Arc::new(resource("ns", "web", "uid", 2));
    scene.resource_changed("Nginx", &updated(Arc::clone(&old), bumped), false);
    assert_eq!(scene.enqueued(), NOBODY, "nothing of it differs");
    let mut paused = resource("ns", "web", "uid", 3);
    paused.paused = Some("true".into());
    let change = updated(Arc::clone(&old), Arc::new(paused));
    scene.resource_changed("Nginx", &change, false);
    scene.resource_changed("Nginx", &deleted(old), false);
    assert_eq!(scene.enqueued(), NOBODY, "gone before its turn");
}

#[test]
fn what_was_there_at_the_start_does_not_delay_what_changes_now() {
    let scene = Scene::new();
    for number in 0..3 {
        let name = format!("old-{number}");
        let change = added(Arc::new(resource("ns", &name, &name, 1)));
        scene.resource_changed("Nginx", &change, true);
    }
    let change = added(Arc::new(resource("ns", "new", "new", 2)));
    scene.resource_changed("Nginx", &change, false);
    let expected = "Nginx ns/new, Nginx ns/old-0, Nginx ns/old-1, Nginx ns/old-2";
    assert_eq!(scene.enqueued().join(", "), expected);
}

#[test]
fn with_several_watched_namespaces_resources_outside_are_left_alone() {
    let scene = Scene::new();
    let several = ["ns", "team"].map(str::to_owned).into();
    for namespace in ["ns", "team", "outside"] {
        let object = json!({"metadata": {
            "namespace": namespace, "name": "web", "uid": "Nginx-web", "resourceVersion": "1",
        }});
        let received: Received = serde_json::from_value(object.clone()).unwrap();
        let is_outside = namespace == "outside";
        for event in [Event::Apply as fn(_) -> _, Event::InitApply, Event::Delete] {
            let event = Ok(event(received.clone()));
            assert_eq!(is_watched(&event, &several), !is_outside, "{event:?}");
            assert!(is_watched(&event, &BTreeSet::new()), "{event:?}");
        }
        if !is_outside {
            let resource = CachedResource::decode(&nginx::KIND, &received).unwrap();
            scene.resource_changed("Nginx", &added(Arc::new(resource)), false);
            scene.holds("Nginx", namespace, "web");
        }
    }
    for event in [Event::Init, Event::InitDone] {
        assert!(is_watched(&Ok(event), &several), "it concerns all");
    }
    assert_eq!(scene.enqueued(), ["Nginx ns/web", "Nginx team/web"]);
    for namespace in ["team", "outside"] {
        let mut object = child("web", &[reference(NGINX, "Nginx web")]);
        object["metadata"]["namespace"] = namespace.into();
        scene.deployment_changed(deleted(deployment(&object)));
    }
    assert_eq!(scene.enqueued(), ["Nginx team/web"]);
}
