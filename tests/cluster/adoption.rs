//! Adoption: children that the four original operators created are kept as the same objects, with
//! their immutable selectors. `tests/e2e/adoption.rs` sends requests to their pods meanwhile.

use serde_json::{Value, json};

use crate::changes;
use testkit::original_operators::{self, assert_adopted, owned, resource_and_children};
use testkit::{
    DEPLOYMENT, ELASTIC_WEB, HELLO_WORLD, Kind, MEMCACHED, NGINX, POD, SERVICE, TestEnv, is_ready,
};

const KINDS: [Kind; 4] = [MEMCACHED, NGINX, ELASTIC_WEB, HELLO_WORLD];
const REPLICA_SET: Kind = Kind {
    api_version: "apps/v1",
    kind: "ReplicaSet",
    plural: "replicasets",
};
const PAUSED: &str = "quartet-operator.example.com/paused";

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

    async fn assert_adopted(&self, env: &TestEnv) {
        for (of, before) in &self.children {
            let after = env.get(*of, &self.name).await.expect("still there");
            assert_adopted(before, &after);
        }
    }

    /// Panics unless all children are adopted and their pods were replaced once.
    async fn assert_all_adopted(&self, env: &TestEnv) {
        self.assert_adopted(env).await;
        let uid = &self.children[0].1["metadata"]["uid"];
        let sets = env.list(REPLICA_SET).await;
        let of_it = sets
            .iter()
            .filter(|set| set["metadata"]["ownerReferences"][0]["uid"] == *uid);
        let found = of_it.count();
        assert_eq!(found, 2, "the ReplicaSet of the old pods, and one of ours");
    }
}

#[tokio::test]
async fn children_of_the_original_operators_are_adopted_unchanged() {
    let env = TestEnv::start("old-operators").await;
    let mut left = Vec::new();
    for kind in KINDS {
        left.push(create(&env, kind, 30050).await);
    }
    // With the original operators, users changed an image this way; a user has also scaled.
    for edit in [
        "set image deployment/elasticweb-sample elastic-app=nginx:1.18",
        "scale deployment/helloworld-sample --replicas=1",
    ] {
        let output = env.kubectl(&edit.split(' ').collect::<Vec<_>>());
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
            one.assert_adopted(&env).await;
        } else {
            one.assert_all_adopted(&env).await;
        }
    }

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
