//! The pull policy that we set for an image, compared with the API server's default for it.

use quartet_operator::kinds::nginx::Nginx;
use quartet_workload::api::Status;
use quartet_workload::{DEPLOYMENT, Operator as _, Resource, Settings};
use serde_json::{Value, json};

use crate::shared::BOTH_VERSIONS;

/// References of every valid form.
const IMAGES: &str = "nginx | nginx:latest | nginx:1.17.1 | Registry/x | registry:5000/x | registry:5000/x:1 | \
    localhost/x | [::1]:5000/x | a_b.c/x | a__b----c.d | example.com/a/b | docker.io/x | x:Latest";

/// The API server's own default, so that existing pods are not replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_pull_policy_that_we_set_is_the_default_of_the_api_server() {
    let env = BOTH_VERSIONS.test_env().await;
    let digest = format!("sha256:{}", "0".repeat(64));
    let mut images: Vec<String> = IMAGES.split(" | ").map(str::to_owned).collect();
    images.extend([
        format!("nginx@{digest}"),
        format!("nginx:1@{digest}"),
        format!("nginx:latest@{digest}"),
        format!("nginx:latest@sha512:{}", "0".repeat(128)),
    ]);
    let containers: Vec<_> = images
        .iter()
        .enumerate()
        .map(|(index, image)| json!({"name": format!("c{index}"), "image": image}))
        .collect();
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "images"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}},
        },
    });
    let target = "/apis/apps/v1/namespaces/default/deployments?dryRun=All";
    let created = env.create(target, &deployment).await.expect("created");
    let defaulted = created.pointer("/spec/template/spec/containers");
    let defaulted = defaulted.and_then(Value::as_array).expect("containers");
    for (image, container) in images.iter().zip(defaulted) {
        let ours = our_pull_policy(image);
        assert_eq!(ours, container["imagePullPolicy"], "{image}");
    }
}

fn our_pull_policy(image: &str) -> Value {
    let resource = Resource {
        namespace: "default".to_owned(),
        name: "a".to_owned(),
        uid: "u".to_owned(),
        generation: 1,
        api_version: "proxy.example.com/v1".to_owned(),
        spec: json!({"replicas": 1, "image": image}),
        status: Status::default(),
        paused: None,
    };
    let Ok(children) = Nginx.desired(&resource, &Settings::default()) else {
        // We set no policy for images that the schema rejects.
        return json!("IfNotPresent");
    };
    let mut children = children.into_iter();
    let deployment = children.find(|child| child.kind == DEPLOYMENT);
    deployment.expect("a Deployment").body["spec"]["template"]["spec"]["containers"][0]
        ["imagePullPolicy"]
        .take()
}
