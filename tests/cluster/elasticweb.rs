//! ElasticWeb: the rate that is served.

use serde_json::json;

use crate::changes;
use testkit::{ELASTIC_WEB, POD, TestEnv, is_ready};

#[tokio::test]
async fn fault_12_the_real_rate_follows_ready_pods() {
    let env = TestEnv::start("real").await;
    let spec =
        json!({"image": "nginx:1.17.1", "port": 30023, "singlePodsQPS": 800, "totalQPS": 2400});
    let ready = changes::apply_ready(&env, ELASTIC_WEB, "web", spec).await;
    assert_eq!(ready["status"]["realQPS"], 2400);
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
