//! What is in the way of a child is asked about every 15 s ± 20 %, whatever else happens to
//! the resource; at once only when somebody changed what is asked for, or it is seen to go.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use testkit::{DEADLINE, ELASTIC_WEB, POD, SERVICE, Stage};

/// The shortest time between two looks at a blocker.
const SHORTEST: Duration = Duration::from_secs(12);

/// How often the resource is woken more than its blocker may be looked at.
const MORE: usize = 5;

fn stranger(name: &str, labels: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "labels": labels},
        "spec": {"selector": {"app": "stranger"}, "ports": [{"port": 1234}]},
    })
}

fn web(name: &str, port: u16) -> Value {
    let spec = json!({"image": "nginx:1.17.1", "port": port, "singlePodsQPS": 1, "totalQPS": 1});
    ELASTIC_WEB.object(name, spec)
}

/// How often the manager has tried to make the Service, and looked whose it is.
fn tries(stage: &Stage) -> (usize, usize) {
    let requests = stage.requests();
    let count = |verb: &str| {
        let of_services = requests
            .iter()
            .filter(|request| request.resource == "services");
        of_services.filter(|request| request.verb == verb).count()
    };
    (count("patch"), count("get"))
}

/// Waits for one more try than `before`; returns when it was seen.
async fn next_try(stage: &Stage, before: usize) -> Instant {
    let started = Instant::now();
    while tries(stage).0 <= before {
        assert!(started.elapsed() < DEADLINE, "it is never tried again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("one more try after {:?}", started.elapsed());
    Instant::now()
}

/// Removes the resource's pod and waits until the status tells of another: the manager was
/// woken by its own Deployment and Pods, and has been through with it.
async fn wake(stage: &Stage, name: &str) {
    let has_one_pod = |resource: &Value| resource["status"]["nodes"][0].is_string();
    let resource = stage
        .until(ELASTIC_WEB, name, "has a pod", has_one_pod)
        .await;
    let pod = resource["status"]["nodes"][0].clone();
    stage.delete(POD, pod.as_str().expect("a name")).await;
    stage
        .until(ELASTIC_WEB, name, "has another pod", |resource| {
            has_one_pod(resource) && resource["status"]["nodes"][0] != pod
        })
        .await;
}

#[tokio::test]
async fn a_taken_name_is_tried_every_15_s_and_not_with_every_event_of_the_deployment() {
    let stage = Stage::set("blocked").await;
    stage
        .apply(&stranger("taken", &json!({})))
        .await
        .expect("applied");
    let began = Instant::now();
    stage.apply(&web("taken", 30034)).await.expect("applied");
    stage
        .until_degraded(ELASTIC_WEB, "taken", "NameConflict")
        .await;
    let allowed = || 1 + (began.elapsed().as_secs_f64() / SHORTEST.as_secs_f64()) as usize;
    let mut events = 0;
    while events < allowed() + MORE {
        wake(&stage, "taken").await;
        events += 1;
    }
    let (applies, gets) = tries(&stage);
    println!("{applies} tries in {:?}, {events} events", began.elapsed());
    assert!(applies <= allowed(), "{applies} > {}", allowed());
    assert!(gets <= applies, "{gets} looks in {applies} tries");

    // Before its turn could come again, so that it is the change that is answered.
    let last = next_try(&stage, tries(&stage).0).await;
    let before = tries(&stage).0;
    stage
        .patch(ELASTIC_WEB, "taken", json!({"spec": {"totalQPS": 2}}))
        .await
        .expect("patched");
    let took = next_try(&stage, before).await - last;
    assert!(took < SHORTEST, "a changed spec waited {took:?}");

    stage.delete(SERVICE, "taken").await;
    let gone = Instant::now();
    stage.until_ready(ELASTIC_WEB, "taken").await;
    println!("taken up {:?} after it was free", gone.elapsed());
}

#[tokio::test]
async fn a_taken_name_that_is_seen_to_become_free_is_taken_at_once() {
    let stage = Stage::set("unblocked").await;
    let ours = json!({"app.kubernetes.io/managed-by": "quartet-operator"});
    stage
        .apply(&stranger("seen", &ours))
        .await
        .expect("applied");
    stage.apply(&web("seen", 30035)).await.expect("applied");
    stage
        .until_degraded(ELASTIC_WEB, "seen", "NameConflict")
        .await;
    // The last look was a moment ago: the next one of its own accord is far away.
    let (last, before) = (Instant::now(), tries(&stage).0);
    stage.delete(SERVICE, "seen").await;
    let took = next_try(&stage, before).await - last;
    assert!(took < SHORTEST / 2, "a name that is free waited {took:?}");
    stage.until_ready(ELASTIC_WEB, "seen").await;
}
