//! Adoption: children that the four original operators created are kept as the same objects, with
//! their immutable selectors, and a Service always has ready endpoints.

use std::collections::HashMap;
use std::time::Instant;

use futures::StreamExt as _;
use futures::stream::BoxStream;

use k8s_openapi::api::discovery::v1::{EndpointConditions, EndpointSlice};
use kube::api::{Api, WatchEvent, WatchParams};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::changes;
use crate::original_operators::{self, assert_adopted, owned, resource_and_children};
use testkit::{
    DEADLINE, DEPLOYMENT, ELASTIC_WEB, HELLO_WORLD, Kind, MEMCACHED, NGINX, POD, SERVICE, TestEnv,
    is_ready, load_factor,
};

const KINDS: [Kind; 4] = [MEMCACHED, NGINX, ELASTIC_WEB, HELLO_WORLD];
const REPLICA_SET: Kind = Kind {
    api_version: "apps/v1",
    kind: "ReplicaSet",
    plural: "replicasets",
};
const PAUSED: &str = "quartet-operator.example.com/paused";
const CONVERSION_DATA: &str = "quartet-operator.example.com/conversion-data";

/// A resource of an original operator and the children that it had created when it was stopped.
struct Left {
    kind: Kind,
    name: String,
    /// The children when their pods were ready.
    children: Vec<(Kind, Value)>,
}

/// Creates what an original operator left in the namespace, paused, and waits until its pods are
/// ready. `node_port` is that of its Service, if it has one.
async fn create(env: &TestEnv, kind: Kind, node_port: i64) -> Left {
    let all = original_operators::ALL.into_iter();
    let mut documents = all.filter(|(of, _)| *of == kind.kind).map(|(_, text)| text);
    let text = documents.next().expect("one of their kinds");
    let text = text.replace("30003", &node_port.to_string());
    let (mut resource, children) = resource_and_children(&text);
    resource["metadata"]["annotations"][PAUSED] = json!("true");
    let name = resource["metadata"]["name"].as_str().expect("a name");
    let resource = env.apply(&resource).await.expect("applied");
    let mut left = Left {
        kind,
        name: name.to_owned(),
        children: Vec::new(),
    };
    for child in children {
        let of = if child["kind"] == "Service" {
            SERVICE
        } else {
            DEPLOYMENT
        };
        create_as_old_manager(env, of, &owned(child, &resource)).await;
        let made = env
            .until(of, name, "as its operator left it", |child| {
                of.kind == "Service"
                    || child["status"]["readyReplicas"] == child["spec"]["replicas"]
            })
            .await;
        left.children.push((of, made));
    }
    left
}

/// Creates as `r.Create` of controller-runtime does, whose field manager is the process name.
async fn create_as_old_manager(env: &TestEnv, kind: Kind, object: &Value) {
    let target = format!("{}?fieldManager=manager", env.path(kind, ""));
    let created = env.api.create(&target, object);
    created.await.expect("created");
}

impl Left {
    /// Resumes the resource, so that our operator reconciles it.
    async fn resume(&self, env: &TestEnv) {
        let resumed = json!({"metadata": {"annotations": {PAUSED: null}}});
        changes::patch(env, self.kind, &self.name, resumed).await;
    }

    /// Panics unless all children are adopted and their pods were replaced once.
    async fn assert_all_adopted(&self, env: &TestEnv) {
        for (of, before) in &self.children {
            let after = env.get(*of, &self.name).await.expect("still there");
            assert_adopted(before, &after);
        }
        let uid = &self.children[0].1["metadata"]["uid"];
        let sets = env.list(REPLICA_SET).await;
        let of_it = sets
            .iter()
            .filter(|set| set["metadata"]["ownerReferences"][0]["uid"] == *uid);
        assert_eq!(
            of_it.count(),
            2,
            "the ReplicaSet of the old pods, and one of ours"
        );
    }
}

/// The endpoints of a Service, after every change.
struct Endpoints {
    /// The number of ready endpoints after each change.
    counts: watch::Receiver<Vec<usize>>,
    watch: JoinHandle<()>,
}

impl Endpoints {
    /// Starts to watch the endpoints of a Service and waits until there are some.
    async fn watch(env: &TestEnv, service: &str) -> Self {
        let slices: Api<EndpointSlice> = Api::namespaced(env.api.client.clone(), &env.namespace);
        let of_service = format!("kubernetes.io/service-name={service}");
        let parameters = WatchParams::default().labels(&of_service).timeout(290);
        let events = slices.watch(&parameters, "0").await.expect("a watch");
        let (sender, mut counts) = watch::channel(Vec::new());
        let watch = tokio::spawn(count(events.boxed(), sender));
        let some = counts.wait_for(|counts| counts.last().is_some_and(|count| *count > 0));
        let found = timeout(DEADLINE.mul_f64(load_factor()), some).await.is_ok();
        assert!(found, "{service} has no endpoints");
        Self { counts, watch }
    }

    /// Returns the numbers after each change since the first endpoints were ready.
    fn seen(&self) -> Vec<usize> {
        assert!(!self.watch.is_finished(), "the watch has ended");
        let counts = self.counts.borrow();
        let counts = counts.iter().skip_while(|count| **count == 0);
        counts.copied().collect()
    }
}

/// Sends the number of endpoints after every change.
async fn count(
    mut events: BoxStream<'static, kube::Result<WatchEvent<EndpointSlice>>>,
    counts: watch::Sender<Vec<usize>>,
) {
    let mut by_slice = HashMap::new();
    while let Some(event) = events.next().await {
        match event.expect("an event") {
            WatchEvent::Added(slice) | WatchEvent::Modified(slice) => {
                by_slice.insert(slice.metadata.name.clone(), ready(&slice));
            }
            WatchEvent::Deleted(slice) => {
                by_slice.remove(&slice.metadata.name);
            }
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(status) => panic!("{status:?}"),
        }
        counts.send_modify(|counts| counts.push(by_slice.values().sum()));
    }
}

impl Drop for Endpoints {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

/// Counts the endpoints that get traffic: ready ones with a port.
fn ready(slice: &EndpointSlice) -> usize {
    if slice.ports.as_ref().is_none_or(Vec::is_empty) {
        return 0;
    }
    let is_ready = |conditions: &EndpointConditions| conditions.ready == Some(true);
    let endpoints = slice.endpoints.iter();
    endpoints
        .filter(|endpoint| endpoint.conditions.as_ref().is_some_and(is_ready))
        .count()
}

#[tokio::test]
async fn children_of_the_original_operators_are_adopted_unchanged() {
    let env = TestEnv::start("old-operators").await;
    let mut left = Vec::new();
    for kind in KINDS {
        left.push(create(&env, kind, 30050).await);
    }
    let endpoints = Endpoints::watch(&env, "elasticweb-sample").await;
    // With the original operators, users changed an image this way; a user has also scaled.
    let edits = [
        vec![
            "set",
            "image",
            "deployment/elasticweb-sample",
            "elastic-app=nginx:1.18",
        ],
        vec!["scale", "deployment/helloworld-sample", "--replicas=1"],
    ];
    for edit in edits {
        let output = env.kubectl(&edit);
        assert!(output.status.success(), "{edit:?}: {output:?}");
    }
    let web = |deployment: &Value| {
        let status = &deployment["status"];
        status["observedGeneration"] == deployment["metadata"]["generation"]
            && status["updatedReplicas"] == 3
            && status["replicas"] == 3
    };
    env.until(DEPLOYMENT, "elasticweb-sample", "edited", web)
        .await;

    for one in &left {
        one.resume(&env).await;
    }
    for one in &left {
        env.until_ready(one.kind, &one.name).await;
    }
    for one in &left {
        // The web's image was changed by hand, which had already replaced its pods.
        if one.kind.kind == "ElasticWeb" {
            for (of, before) in &one.children {
                let after = env.get(*of, &one.name).await.expect("still there");
                assert_adopted(before, &after);
            }
        } else {
            one.assert_all_adopted(&env).await;
        }
    }
    let seen = endpoints.seen();
    println!("ready endpoints of the Service: {seen:?}");
    assert!(seen.iter().all(|count| *count >= 3), "{seen:?}");

    // The status counts the pods of the retained selector.
    let memcached = env.get(MEMCACHED, "memcached-sample").await;
    let memcached = memcached.expect("the resource");
    let nodes = memcached["status"]["nodes"].as_array().map(Vec::len);
    assert_eq!(nodes, Some(3), "{memcached:#}");
    let selector = memcached["status"]["selector"]
        .as_str()
        .expect("a selector");
    let selected = format!("{}?labelSelector={selector}", env.path(POD, ""));
    let pods = env.api.get(&selected).await.expect("a list");
    let count = pods["items"].as_array().map(Vec::len);
    assert_eq!(count, Some(3), "{selector}: {pods:#}");
    assert_eq!(memcached["metadata"]["finalizers"], Value::Null);

    // From now on it is an ordinary resource: it can be scaled, and an idle one causes no requests.
    changes::scale(&env, MEMCACHED, "memcached-sample", 1).await;
    env.until(MEMCACHED, "memcached-sample", "scaled", |resource| {
        resource["status"]["readyReplicas"] == 1 && is_ready(resource)
    })
    .await;
    left[0].assert_all_adopted(&env).await;
}

#[tokio::test]
async fn the_service_keeps_its_selector_while_the_new_pods_do_not_start() {
    let env = TestEnv::start("old-service").await;
    let left = create(&env, ELASTIC_WEB, 30051).await;
    let name = left.name.as_str();
    let endpoints = Endpoints::watch(&env, name).await;
    let nowhere = json!({"v2": {"scheduling": {"nodeSelector": {"nowhere": "true"}}}}).to_string();
    let lost = json!({"metadata": {"annotations": {CONVERSION_DATA: nowhere}}});
    changes::patch(&env, left.kind, name, lost).await;
    let resumed = Instant::now();
    left.resume(&env).await;
    env.until(
        DEPLOYMENT,
        name,
        "has a pod that does not start",
        |deployment| {
            deployment["status"]["updatedReplicas"] == 1
                && deployment["status"]["unavailableReplicas"] == 1
        },
    )
    .await;
    env.until(left.kind, name, "reports RollingOut", |resource| {
        resource["status"]["conditions"][0]["reason"] == "RollingOut"
    })
    .await;
    let (_, before) = &left.children[1];
    let service = env.get(SERVICE, name).await.expect("the Service");
    assert_eq!(before["spec"], service["spec"], "untouched");
    let asked = env.requests();
    let of_service = asked
        .iter()
        .filter(|request| request.resource == "services");
    let of_service: Vec<_> = of_service
        .map(|request| (&*request.verb, request.code))
        .collect();
    assert!(
        of_service.starts_with(&[("patch", 409), ("get", 200)]),
        "{of_service:?}"
    );
    // Two requests each time; 12 s is 15 s with its jitter.
    let most = 2 * (2 + resumed.elapsed().as_secs() / 12);
    assert!(
        of_service.len() as u64 <= most,
        "more often than every 15 s: {of_service:?}"
    );

    let found = json!({"metadata": {"annotations": {CONVERSION_DATA: null}}});
    changes::patch(&env, left.kind, name, found).await;
    env.until_ready(left.kind, name).await;
    for (of, before) in &left.children {
        let after = env.get(*of, name).await.expect("still there");
        assert_adopted(before, &after);
    }
    let seen = endpoints.seen();
    println!("ready endpoints of the Service: {seen:?}");
    assert!(seen.iter().all(|count| *count >= 3), "{seen:?}");
}
