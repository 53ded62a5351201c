//! The children of a spec are computed once.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::{Scenario, willing};
use crate::api::{Kind, Status};
use crate::operators::memcached::Memcached;
use crate::operators::{
    Desired, Observed, OperandImage, Operator, Owned, Resource, Settings, Summary,
};

/// A Memcached that counts how often its children are computed.
struct Counted(AtomicUsize);

static COUNTED: Counted = Counted(AtomicUsize::new(0));

impl Operator for Counted {
    fn kind(&self) -> &'static Kind {
        Memcached.kind()
    }

    fn image(&self) -> Option<&'static OperandImage> {
        Memcached.image()
    }

    fn owns(&self) -> &'static [Owned] {
        Memcached.owns()
    }

    fn desired(&self, resource: &Resource, settings: &Settings) -> Desired {
        self.0.fetch_add(1, Ordering::Relaxed);
        Memcached.desired(resource, settings)
    }

    fn status(&self, resource: &Resource, desired: &Summary, observed: &Observed) -> Status {
        Memcached.status(resource, desired, observed)
    }
}

#[tokio::test(start_paused = true)]
async fn children_are_computed_for_another_spec_and_for_a_child_that_is_not_as_applied() {
    let scenario = Scenario::of(&COUNTED, willing);
    let computed = async || {
        scenario.reconcile().await.expect("reconciled");
        COUNTED.0.swap(0, Ordering::Relaxed)
    };
    scenario.holds(1, json!({}));
    assert_eq!(computed().await, 1);
    assert_eq!(computed().await, 0, "as it was applied");
    // A status does not depend on the children as they were computed.
    scenario.deployment_is(
        3,
        json!({"status": {"observedGeneration": 1, "replicas": 1}}),
    );
    assert_eq!(computed().await, 0, "another status");

    scenario.deployment_is(4, json!({"spec": {"replicas": 5}}));
    assert_eq!(computed().await, 1, "edited by hand");
    scenario.deployment_is(5, json!({}));
    assert_eq!(computed().await, 0, "restored");

    scenario.holds(2, json!({"metadata": {"generation": 2}}));
    assert_eq!(computed().await, 1, "another size");
    scenario.deployment_is(6, json!({}));
    assert_eq!(computed().await, 0, "as it was applied");
    let data = json!({"v1": {"memory": 128}}).to_string();
    let annotation = json!({"quartet-operator.example.com/conversion-data": data});
    let more = json!({"metadata": {"generation": 2, "annotations": annotation}});
    scenario.holds(2, more);
    assert_eq!(computed().await, 1, "the same generation, another memory");
    scenario.holds(2, json!({"metadata": {"uid": "another", "generation": 2}}));
    assert_eq!(computed().await, 1, "another resource of the same name");
}
