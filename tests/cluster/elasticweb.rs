//! ElasticWeb: the number of pods for a target rate, and the rate that is served.

use serde_json::{Value, json};

use crate::changes;
use testkit::{ELASTIC_WEB, POD, SERVICE, TestEnv, is_ready};

fn spec(port: i32, single: i64, total: Option<i64>) -> Value {
    let mut spec = json!({"image": "nginx:1.17.1", "port": port, "singlePodsQPS": single});
    if let Some(total) = total {
        spec["totalQPS"] = total.into();
    }
    spec
}

async fn until_pods(env: &TestEnv, name: &str, pods: i64) -> Value {
    env.until(
        ELASTIC_WEB,
        name,
        &format!("Ready with {pods} pods"),
        |resource| {
            is_ready(resource) && resource["status"]["readyReplicas"].as_i64().unwrap_or(0) == pods
        },
    )
    .await
}

#[tokio::test]
async fn pods_are_the_rate_divided_and_rounded_up() {
    let env = TestEnv::start("rate").await;
    changes::apply(&env, ELASTIC_WEB, "web", spec(30020, 800, Some(2400))).await;
    let resource = until_pods(&env, "web", 3).await;
    assert_eq!(resource["status"]["realQPS"], 2400);
    changes::apply(&env, ELASTIC_WEB, "web", spec(30020, 800, Some(2401))).await;
    let resource = until_pods(&env, "web", 4).await;
    assert_eq!(resource["status"]["realQPS"], 3200);
    changes::apply(&env, ELASTIC_WEB, "web", spec(30020, 800, Some(799))).await;
    let resource = until_pods(&env, "web", 1).await;
    assert_eq!(resource["status"]["realQPS"], 800);
    let service = env.get(SERVICE, "web").await.expect("a Service");
    let port = &service["spec"]["ports"][0];
    assert_eq!(service["spec"]["type"], "NodePort");
    assert_eq!(
        (&port["port"], &port["nodePort"], &port["protocol"]),
        (&json!(8080), &json!(30020), &json!("TCP"))
    );
    assert_eq!(port["targetPort"], "http");
}

#[tokio::test]
async fn fault_12_the_real_rate_follows_ready_pods() {
    let env = TestEnv::start("real").await;
    changes::apply(&env, ELASTIC_WEB, "web", spec(30023, 800, Some(2400))).await;
    until_pods(&env, "web", 3).await;
    // The simulated nodes keep a pod whose status the test sets to not ready.
    let pod = env.list(POD).await[0]["metadata"]["name"]
        .as_str()
        .expect("a name")
        .to_owned();
    let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}], "phase": "Running"}});
    env.patch_status(POD, &pod, not_ready).await;
    env.until(
        ELASTIC_WEB,
        "web",
        "serves 1600 with two of three pods ready",
        |resource| resource["status"]["realQPS"] == 1600 && !is_ready(resource),
    )
    .await;
}
