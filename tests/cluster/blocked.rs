//! A blocked child is retried every 15 s ± 20 %, whatever other events the resource gets. It is
//! retried at once only when its spec changes or when the blocker is seen to be deleted.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use testkit::{DEADLINE, ELASTIC_WEB, Limit, POD, SERVICE, TestEnv, load_factor};

/// The shortest time between two attempts at a blocked child.
const SHORTEST: Duration = Duration::from_secs(12);

/// How many more events the resource gets than attempts are allowed.
const MORE: usize = 5;

fn foreign_service(name: &str, labels: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "labels": labels},
        "spec": {"selector": {"app": "stranger"}, "ports": [{"port": 1234}]},
    })
}

fn web(name: &str, port: u16) -> Value {
    let spec = json!({"image": "nginx:1.17.1", "port": port, "singlePodsQPS": 1, "totalQPS": 1});
    ELASTIC_WEB.object(name, spec)
}

/// Returns the number of attempts to create the Service, and of reads of the blocker.
fn attempts(env: &TestEnv) -> (usize, usize) {
    let requests = env.requests();
    let count = |verb: &str| {
        let of_services = requests
            .iter()
            .filter(|request| request.resource == "services");
        of_services.filter(|request| request.verb == verb).count()
    };
    (count("patch"), count("get"))
}

/// Waits for one more attempt than `before` and returns when it was seen.
async fn next_attempt(env: &TestEnv, before: usize) -> Instant {
    let (started, mut limit) = (Instant::now(), Limit::new(DEADLINE));
    while attempts(env).0 <= before {
        limit.pause(|| "the child is not retried").await;
    }
    println!("retried after {:?}", started.elapsed());
    Instant::now()
}

/// Deletes the resource's pod and waits until the status names another one. By then the events of
/// the Deployment and its Pods have made the manager reconcile.
async fn trigger_reconcile(env: &TestEnv, name: &str) {
    let has_one_pod = |resource: &Value| resource["status"]["nodes"][0].is_string();
    let resource = env.until(ELASTIC_WEB, name, "has a pod", has_one_pod).await;
    let pod = resource["status"]["nodes"][0].clone();
    env.delete(POD, pod.as_str().expect("a name")).await;
    env.until(ELASTIC_WEB, name, "has another pod", |resource| {
        has_one_pod(resource) && resource["status"]["nodes"][0] != pod
    })
    .await;
}

#[tokio::test]
async fn a_taken_name_is_retried_every_15_s_and_not_at_every_deployment_event() {
    let env = TestEnv::start("blocked").await;
    env.apply(&foreign_service("taken", &json!({})))
        .await
        .expect("applied");
    let began = Instant::now();
    env.apply(&web("taken", 30034)).await.expect("applied");
    env.until_degraded(ELASTIC_WEB, "taken", "NameConflict")
        .await;
    let allowed = || 1 + (began.elapsed().as_secs_f64() / SHORTEST.as_secs_f64()) as usize;
    let mut events = 0;
    while events < allowed() + MORE {
        trigger_reconcile(&env, "taken").await;
        events += 1;
    }
    let (applies, gets) = attempts(&env);
    println!(
        "{applies} attempts in {:?}, {events} events",
        began.elapsed()
    );
    assert!(applies <= allowed(), "{applies} > {}", allowed());
    assert!(gets <= applies, "{gets} reads in {applies} attempts");

    // Before the next periodic attempt, so that the change causes the attempt.
    let last = next_attempt(&env, attempts(&env).0).await;
    let before = attempts(&env).0;
    env.patch(ELASTIC_WEB, "taken", json!({"spec": {"totalQPS": 2}}))
        .await
        .expect("patched");
    let took = next_attempt(&env, before).await - last;
    assert!(took < SHORTEST, "a changed spec waited {took:?}");

    env.delete(SERVICE, "taken").await;
    let gone = Instant::now();
    env.until_ready(ELASTIC_WEB, "taken").await;
    println!("created {:?} after the name was free", gone.elapsed());
}

#[tokio::test]
async fn a_taken_name_that_is_seen_to_become_free_is_used_at_once() {
    let env = TestEnv::start("unblocked").await;
    let ours = json!({"app.kubernetes.io/managed-by": "quartet-operator"});
    env.apply(&foreign_service("seen", &ours))
        .await
        .expect("applied");
    env.apply(&web("seen", 30035)).await.expect("applied");
    env.until_degraded(ELASTIC_WEB, "seen", "NameConflict")
        .await;
    // The last attempt was a moment ago, so the next periodic attempt is far away.
    let (last, before) = (Instant::now(), attempts(&env).0);
    env.delete(SERVICE, "seen").await;
    let took = next_attempt(&env, before).await - last;
    // On any machine sooner than the next periodic attempt.
    let limit = (SHORTEST / 2).mul_f64(load_factor()).min(SHORTEST);
    assert!(took < limit, "a free name waited {took:?}, limit {limit:?}");
    env.until_ready(ELASTIC_WEB, "seen").await;
}
