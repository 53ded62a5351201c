//! Objects of another account, with the operator's label and as large as the API server accepts. Any
//! account that may create Deployments decides how long the answers to lists and watches are.

use serde_json::{Value, json};

use testkit::{DEPLOYMENT, MEMCACHED, TestEnv};

use crate::shared;

const OBJECTS: usize = 24;
/// etcd accepts 1.5 MiB.
const BYTES: usize = 1_400_000;
/// The most resident memory. A page with all of these objects is 34 MB, and in memory twice.
const MOST_RESIDENT: usize = 192 << 20;

fn large(number: usize) -> Value {
    let labels = json!({"app.kubernetes.io/managed-by": "quartet-operator", "app": "large"});
    let text = "x".repeat(BYTES);
    let container = json!({"name": "a", "image": "a", "env": [{"name": "A", "value": text}]});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": format!("large-{number}"), "labels": labels},
        // Paused: it gets no ReplicaSet of the same size.
        "spec": {"replicas": 0, "paused": true, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [container]},
        }},
    })
}

/// The most memory that a process has had, in bytes: proc_pid_status(5).
fn most_resident(process: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse::<usize>().ok()).expect("KiB") * 1024
}

#[tokio::test]
async fn large_objects_of_others_stop_neither_list_nor_watch() {
    // Its audit log is long, too, and most tests read the one of their cluster.
    let turn = shared::OUTAGES.turn().await;
    let mut env = TestEnv::on(turn.cluster.environment(), "large").await;
    env.install_crds().await;
    let all = env.path(DEPLOYMENT, "");
    for number in 0..OBJECTS {
        env.api.create(&all, &large(number)).await.expect("created");
    }
    env.start_manager(&[]);
    let ready = |name: &'static str| {
        let env = &env;
        async move {
            let object = MEMCACHED.object(name, json!({"size": 1}));
            env.apply(&object).await.expect("applied");
            env.until_ready(MEMCACHED, name).await;
        }
    };
    ready("after-the-list").await;
    for number in 0..3 {
        let patch = json!({"metadata": {"labels": {"turn": number.to_string()}}});
        let one = env.path(DEPLOYMENT, "large-1");
        env.api.merge(&one, patch).await.expect("patched");
    }
    ready("after-the-events").await;
    let most = most_resident(env.manager().id());
    println!("{} MiB at most", most >> 20);
    let log = env.log();
    assert!(!log.contains("the watch failed"), "{log}");
    assert!(most < MOST_RESIDENT, "{most} bytes");
    // Otherwise the next tests on this cluster would have them, too. One by one, because the audit log
    // has the whole objects of a deletion of all.
    env.stop_manager();
    for number in 0..OBJECTS {
        env.delete(DEPLOYMENT, &format!("large-{number}")).await;
    }
}
