//! The resources that a change of a child enqueues: its owners, and those that want its name.

use serde_json::Value;

use super::*;
use crate::object::ObjectKey;
use crate::reconcile::Blocker;
use quartet_workload::{Problem, Reason, SERVICE};

#[test]
fn a_child_wakes_its_owner_by_group_kind_and_name_whatever_version_it_names() {
    let scene = Scene::of_web();
    for version in ["v1alpha1", "v1", "v7"] {
        let owner = reference(&format!("proxy.example.com/{version}"), "Nginx web");
        scene.deployment_changed(added(deployment(&child("web", &[owner]))));
        assert_eq!(scene.enqueued(), ["Nginx ns/web"], "{version}");
    }
    for (what, member, value) in [
        ("another group", "apiVersion", json!("other.example.com/v1")),
        ("no group", "apiVersion", json!("v1")),
        ("another kind", "kind", json!("Memcached")),
        ("nobody there", "name", json!("gone")),
        ("not the controller", "controller", json!(false)),
    ] {
        let mut owner = reference(NGINX, "Nginx web");
        owner[member] = value;
        scene.deployment_changed(added(deployment(&child("web", &[owner]))));
        assert_eq!(scene.enqueued(), NOBODY, "{what}");
    }
}

#[test]
fn the_child_of_an_earlier_life_wakes_the_resource_that_waits_for_it_to_go() {
    let scene = Scene::of_web();
    let mut owner = reference(NGINX, "Nginx web");
    owner["uid"] = "earlier".into();
    scene.deployment_changed(deleted(deployment(&child("web", &[owner]))));
    assert_eq!(scene.enqueued(), ["Nginx ns/web"]);
}

#[test]
fn a_resource_that_lost_a_child_is_noted_and_no_other_life_of_it() {
    let scene = Scene::of_web();
    let owner = reference(NGINX, "Nginx web");
    let mut earlier = owner.clone();
    earlier["uid"] = "earlier".into();
    let child_of = |owner: &Value| deployment(&child("web", std::slice::from_ref(owner)));
    scene.deployment_changed(deleted(child_of(&earlier)));
    scene.deployment_changed(added(child_of(&owner)));
    let states = &scene.controller("Nginx").states;
    let key = ObjectKey::new("ns", "web");
    assert!(!states.of(&key, "Nginx-web").has_lost_child);
    scene.deployment_changed(deleted(child_of(&owner)));
    assert!(states.of(&key, "Nginx-web").has_lost_child);
}

#[test]
fn a_loss_stays_noted_if_another_namespace_has_an_object_that_names_the_owner() {
    let scene = Scene::of_web();
    let own = child("web", &[reference(NGINX, "Nginx web")]);
    let mut foreign = own.clone();
    foreign["metadata"]["namespace"] = "another".into();
    for lost in [own, foreign] {
        scene.deployment_changed(deleted(deployment(&lost)));
    }
    let states = &scene.controller("Nginx").states;
    let state = states.of(&ObjectKey::new("ns", "web"), "Nginx-web");
    assert!(state.has_lost_child);
    assert_eq!(scene.enqueued(), ["Nginx ns/web"]);
}

#[test]
fn a_service_wakes_its_owner_if_it_is_lost_or_changed_after_a_refused_write() {
    let scene = Scene::new();
    scene.holds("ElasticWeb", "ns", "web");
    let owner = reference("elasticweb.example.com/v1", "ElasticWeb web");
    let service = CachedChild::decode(&BRAND, &kinds(), SERVICE, &child("web", &[owner]));
    let service = Arc::new(service.unwrap());
    let same = || updated(Arc::clone(&service), Arc::clone(&service));
    scene.handlers.child_changed(&same());
    assert_eq!(scene.enqueued(), NOBODY);
    let states = &scene.controller("ElasticWeb").states;
    let key = ObjectKey::new("ns", "web");
    let problem = Problem::new(Reason::ApplyRefused, "no");
    let blocker = Blocker::external(problem);
    states.of(&key, "ElasticWeb-web").block(0, &blocker);
    scene.handlers.child_changed(&same());
    assert_eq!(scene.enqueued(), ["ElasticWeb ns/web"]);
    scene.handlers.child_changed(&deleted(service));
    assert_eq!(scene.enqueued(), ["ElasticWeb ns/web"]);
}

#[test]
fn a_child_that_lost_its_owner_reference_wakes_the_owner_that_it_had() {
    let scene = Scene::of_web();
    let owned = deployment(&child("web", &[reference(NGINX, "Nginx web")]));
    let orphan = deployment(&child("web", &[]));
    scene.deployment_changed(updated(owned, orphan));
    assert_eq!(scene.enqueued(), ["Nginx ns/web"]);
}

#[test]
fn a_child_that_changed_hands_wakes_both_owners() {
    let scene = Scene::of_web();
    scene.holds("HelloWorld", "ns", "hello");
    let old = deployment(&child("web", &[reference(NGINX, "Nginx web")]));
    let new = deployment(&child("web", &[reference(HELLO_WORLD, "HelloWorld hello")]));
    scene.deployment_changed(updated(old, new));
    assert_eq!(scene.enqueued(), ["Nginx ns/web", "HelloWorld ns/hello"]);
}

#[test]
fn a_name_that_became_free_wakes_every_resource_that_may_want_it() {
    let scene = Scene::new();
    scene.holds("Nginx", "ns", "same");
    scene.holds("HelloWorld", "ns", "same");
    scene.holds("HelloWorld", "ns", "other");
    scene.holds("HelloWorld", "elsewhere", "same");
    let both = ["Nginx ns/same", "HelloWorld ns/same"];
    let stranger = reference("apps.example.com/v1", "Shop same");
    for owners in [&[reference(NGINX, "Nginx same")][..], &[stranger], &[]] {
        scene.deployment_changed(deleted(deployment(&child("same", owners))));
        assert_eq!(scene.enqueued(), both, "a Deployment of {owners:?}");
    }
}
