//! The samples of single features in `config/samples/features`: they are applied as a user would
//! apply them, and the statements of each are checked. A file without a check fails the test.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::webhooks;
use testkit::original_operators::assert_adopted;
use testkit::{
    DEPLOYMENT, ELASTIC_WEB, EVENT, HELLO_WORLD, Kind, MEMCACHED, NGINX, SERVICE, TestEnv,
    condition,
};

const AUTOSCALER: Kind = Kind {
    api_version: "autoscaling/v2",
    kind: "HorizontalPodAutoscaler",
    plural: "horizontalpodautoscalers",
};
const BUDGET: Kind = Kind {
    api_version: "policy/v1",
    kind: "PodDisruptionBudget",
    plural: "poddisruptionbudgets",
};
const REPLICA_SET: Kind = Kind {
    api_version: "apps/v1",
    kind: "ReplicaSet",
    plural: "replicasets",
};

/// Returns what a sample without commands asks for: a kind, a name, a path in a child and its value there.
/// Each value of these fields has a unit test.
fn asked_for(file: &str) -> (Kind, &str, Kind, &str, Value) {
    match file {
        "image-pull-secrets.yaml" => {
            let secrets = json!([{"name": "private-registry"}]);
            let path = "/spec/template/spec/imagePullSecrets";
            (MEMCACHED, "private-image", DEPLOYMENT, path, secrets)
        }
        "scheduling.yaml" => {
            let path = "/spec/template/spec/priorityClassName";
            let class = json!("quartet-operator-sample");
            (HELLO_WORLD, "scheduled", DEPLOYMENT, path, class)
        }
        // Without an address; the resource is Ready.
        "service-load-balancer.yaml" => {
            let type_ = json!("LoadBalancer");
            (NGINX, "load-balanced", SERVICE, "/spec/type", type_)
        }
        "service-node-port.yaml" => {
            let type_ = json!("NodePort");
            (HELLO_WORLD, "node-port", SERVICE, "/spec/type", type_)
        }
        other => panic!("{other} has no check"),
    }
}

#[tokio::test]
async fn every_feature_sample_does_what_its_comment_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/samples/features");
    let (_turn, env) = webhooks::test_env("features", &[]).await;
    let output = env.kubectl(&["apply", "-f", folder.to_str().expect("a path")]);
    assert!(output.status.success(), "{output:?}");
    let mut checked = 0;
    for file in fs::read_dir(&folder).expect("the samples") {
        let file = file.expect("a file").path();
        let text = fs::read_to_string(&file).expect("a sample");
        let name = file.file_name().and_then(|it| it.to_str());
        let name = name.expect("a name in UTF-8");
        println!("{name}");
        assert!(text.starts_with("# "), "{name} begins with no comment");
        let sample = Sample { env: &env, text };
        match name {
            "adoption.yaml" => sample.adoption().await,
            "horizontal-pod-autoscaler.yaml" => sample.horizontal_pod_autoscaler().await,
            "paused.yaml" => sample.paused().await,
            "pod-disruption-budget.yaml" => sample.pod_disruption_budget().await,
            "pod-security.yaml" => sample.pod_security().await,
            other => {
                let (kind, name, child, path, value) = asked_for(other);
                env.until_ready(kind, name).await;
                let child = env.get(child, name).await.expect("the child");
                assert_eq!(child.pointer(path), Some(&value), "{child:#}");
            }
        }
        checked += 1;
    }
    assert_eq!(checked, 9, "a sample is missing");
    // Outside the namespace.
    let class = "/apis/scheduling.k8s.io/v1/priorityclasses/quartet-operator-sample";
    env.api.delete(class).await.expect("deleted");
}

/// A file that was applied.
struct Sample<'a> {
    env: &'a TestEnv,
    text: String,
}

impl Sample<'_> {
    /// Runs the commands in its comments, which follow `# $ `.
    fn follow(&self) {
        let commands = self.text.lines();
        let commands: Vec<&str> = commands
            .filter_map(|line| line.strip_prefix("# $ "))
            .collect();
        assert!(!commands.is_empty(), "{}", self.text);
        let namespace = &self.env.namespace;
        let here = format!("set -eu; kubectl() {{ command kubectl -n {namespace} \"$@\"; }}");
        let output = Command::new("sh")
            .args(["-c", &format!("{here}\n{}", commands.join("\n"))])
            .envs(self.env.variables())
            .output()
            .expect("sh runs");
        assert!(output.status.success(), "{commands:?}: {output:?}");
    }

    /// Returns the Deployment of a resource that is Ready.
    async fn deployment(&self, kind: Kind, name: &str) -> Value {
        self.env.until_ready(kind, name).await;
        let deployment = self.env.get(DEPLOYMENT, name).await;
        deployment.expect("the Deployment of a Ready resource")
    }

    async fn adoption(&self) {
        self.env
            .until_degraded(NGINX, "adopted", "NameConflict")
            .await;
        let before = self
            .env
            .until(DEPLOYMENT, "adopted", "rolled out", |deployment| {
                deployment["status"]["readyReplicas"] == 3
            })
            .await;
        assert_eq!(before["metadata"]["ownerReferences"], Value::Null);
        self.follow();
        let owned = self
            .env
            .until(DEPLOYMENT, "adopted", "owned", |deployment| {
                deployment["metadata"]["ownerReferences"].is_array()
            })
            .await;
        let mut before = before;
        before["metadata"]["ownerReferences"] = owned["metadata"]["ownerReferences"].clone();
        let after = self.deployment(NGINX, "adopted").await;
        assert_adopted(&before, &after);
        let container = &after["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], "nginx:1.14.2");
        assert_eq!(container["ports"][0]["containerPort"], 80);
        let uid = &before["metadata"]["uid"];
        let sets = self.env.list(REPLICA_SET).await;
        let sets = sets
            .iter()
            .filter(|set| set["metadata"]["ownerReferences"][0]["uid"] == *uid);
        assert_eq!(sets.count(), 2, "its pods rolled once");
        let events = self.env.list(EVENT).await;
        let adopted = events.iter().filter(|event| event["reason"] == "Adopted");
        assert_eq!(adopted.count(), 1, "{events:#?}");
    }

    async fn horizontal_pod_autoscaler(&self) {
        let (env, name) = (self.env, "autoscaled");
        // The autoscaler reads and writes the resource's scale subresource: from 1, the default, to
        // the minimum in the file. No metrics are served here.
        let autoscaler = env
            .until(AUTOSCALER, name, "able to scale", |autoscaler| {
                condition(autoscaler, "AbleToScale").is_some_and(|able| able["status"] == "True")
                    && autoscaler["status"]["desiredReplicas"] == 2
            })
            .await;
        assert_eq!(autoscaler["spec"]["maxReplicas"], 5);
        env.until(DEPLOYMENT, name, "scaled", |deployment| {
            deployment["status"]["readyReplicas"] == 2
        })
        .await;
        let namespace = &env.namespace;
        let target =
            format!("/apis/proxy.example.com/v1/namespaces/{namespace}/nginxes/{name}/scale");
        let scale = env.api.get(&target).await;
        let scale = scale.expect("the scale subresource");
        assert_eq!(scale["spec"]["replicas"], 2);
        let deployment = self.deployment(NGINX, name).await;
        // The percentage refers to the requests.
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["resources"]["requests"]["cpu"], "100m");
        // Applying the file again, as GitOps tools do, does not reset the replicas.
        let root = env!("CARGO_MANIFEST_DIR");
        let path = format!("{root}/config/samples/features/horizontal-pod-autoscaler.yaml");
        let again = env.kubectl(&["apply", "-f", &path]);
        assert!(again.status.success(), "{again:?}");
        let scale = env.api.get(&target).await;
        assert_eq!(scale.expect("still there")["spec"]["replicas"], 2);
    }

    async fn paused(&self) {
        let (env, name) = (self.env, "paused");
        env.until(HELLO_WORLD, name, "paused", |resource| {
            condition(resource, "Ready").is_some_and(|ready| ready["reason"] == "Paused")
        })
        .await;
        assert_eq!(env.get(DEPLOYMENT, name).await, None);
        self.follow();
        let deployment = self.deployment(HELLO_WORLD, name).await;
        assert_eq!(deployment["spec"]["replicas"], 2);
    }

    async fn pod_disruption_budget(&self) {
        let (env, name) = (self.env, "guarded");
        let budget = env
            .until(BUDGET, name, "counts the pods", |budget| {
                let counts = ["expectedPods", "currentHealthy", "disruptionsAllowed"];
                counts.map(|count| &budget["status"][count]) == [3, 3, 1]
            })
            .await;
        let resource = env.until_ready(MEMCACHED, name).await;
        let selector = resource["status"]["selector"].as_str().expect("a selector");
        let found = &budget["spec"]["selector"]["matchLabels"];
        assert_eq!(*found, labels_of(selector));
    }

    async fn pod_security(&self) {
        let deployment = self.deployment(ELASTIC_WEB, "restricted").await;
        let (env, template) = (self.env, &deployment["spec"]["template"]);
        let namespace = format!("{}-restricted", env.namespace);
        let enforcing = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": namespace, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
        });
        let made = env.api.create("/api/v1/namespaces", &enforcing);
        made.await.expect("a namespace");
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "pod", "labels": template["metadata"]["labels"]},
            "spec": template["spec"],
        });
        let target = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
        let taken = env.api.create(&target, &pod);
        taken.await.expect("the pod is admitted");
        let port = &template["spec"]["containers"][0]["ports"][0]["containerPort"];
        assert_eq!(*port, 8080);
    }
}

/// Parses `a=b,c=d` as labels.
fn labels_of(selector: &str) -> Value {
    let labels = selector.split(',').filter_map(|one| one.split_once('='));
    labels.collect::<BTreeMap<_, _>>().into_iter().collect()
}
