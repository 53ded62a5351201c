//! ElasticWeb: the rate that is served.

use serde_json::{Value, json};

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
    let pod = env.list(POD).await[0]["metadata"]["name"].clone();
    let pod = pod.as_str().expect("a name");
    let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}], "phase": "Running"}});
    env.patch_status(POD, pod, not_ready).await;
    // With two of three pods.
    let is_less = |it: &Value| it["status"]["realQPS"] == 1600 && !is_ready(it);
    env.until(ELASTIC_WEB, "web", "at 1600", is_less).await;
}
