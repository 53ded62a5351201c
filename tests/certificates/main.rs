//! Certificates on a real API server, which calls a webhook server of this test: two replicas share
//! a Secret, with exactly the permissions of the generated profile. Each object belongs to one test.
#![allow(clippy::disallowed_types)] // the API server runs in real time

mod environment;
mod server;

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::time::sleep;

use environment::{TestEnv, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_replicas_share_a_certificate_and_rotate_it_without_a_failed_call() {
    let env = Arc::new(TestEnv::start("rotation").await);
    env.install_validating().await;
    let (one, two) = (env.start_replica().await, env.start_replica().await);
    env.route_to(&[&one, &two]);
    // The CRD is installed after the manager has started, as in a fresh `make deploy`.
    until("the webhook is called", async || {
        env.webhook_is_called().await
    })
    .await;
    env.install_crd().await;
    until("a thing is created", async || {
        env.create_thing().await.is_ok()
    })
    .await;
    until("it is converted", async || {
        env.convert_thing().await.is_ok()
    })
    .await;
    assert_eq!(one.resolver.validity(), two.resolver.validity());
    assert!(one.resolver.check_at(Timestamp::now()).is_ok());

    let load = env.load();
    let first = env.secret_data().await.unwrap();
    let deleting = Instant::now();
    env.api.delete(&env.secret()).await.expect("deleted");
    until(
        "the Secret is recreated with the serving certificate",
        async || {
            let data = env.secret_data().await;
            data.is_some_and(|data| {
                data["tls.crt"] == first["tls.crt"] && data["next-tls.crt"].is_string()
            })
        },
    )
    .await;
    // A replica that starts during a rotation.
    drop(two);
    let two = env.start_replica().await;
    until("the new replica serves", async || {
        two.resolver.check_at(Timestamp::now()).is_ok()
    })
    .await;
    env.route_to(&[&one, &two]);
    until("the next certificate is in use", async || {
        let data = env.secret_data().await.unwrap();
        data["tls.crt"] != first["tls.crt"] && data["next-tls.crt"].is_null()
    })
    .await;
    let took = deleting.elapsed();
    assert!(took >= Duration::from_secs(30), "did not wait: {took:?}");
    until("both serve it", async || {
        let served = [&one, &two].map(|it| it.resolver.validity().unwrap().not_before);
        served[0] == served[1]
    })
    .await;
    sleep(Duration::from_secs(1)).await;
    load.none_failed().await;
    env.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overwritten_bundle_is_restored_and_at_most_once_a_minute() {
    let env = TestEnv::start("repair").await;
    env.install_validating().await;
    env.install_crd().await;
    // Each replica has its own minute.
    let replica = env.start_replica().await;
    env.route_to(&[&replica]);
    until("the webhook is called", async || {
        env.webhook_is_called().await
    })
    .await;
    let bundle = env.webhook_bundle().await.unwrap();
    env.remove_webhook_bundle().await;
    until("the bundle is restored", async || {
        env.webhook_bundle().await.as_ref() == Some(&bundle)
    })
    .await;
    env.remove_webhook_bundle().await;
    let again = Instant::now();
    while again.elapsed() < Duration::from_secs(10) {
        assert_eq!(env.webhook_bundle().await, None, "not twice in a minute");
        sleep(Duration::from_millis(500)).await;
    }
    env.clear().await;
}
