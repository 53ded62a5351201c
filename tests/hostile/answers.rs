//! Requests whose responses would be much longer than they are.

use futures::future::join_all;
use serde_json::json;
use testkit::Limit;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Duration, Instant, sleep, timeout};

use crate::manager::{ADMISSION, HOSTILE, Manager, conversion_of, list_of};
use crate::{DEADLINE, MIB, MOST_RESIDENT};

/// Number of concurrent clients.
const CLIENTS: usize = 6;

/// Limit of a small call beside a large one, on an idle machine.
const SOON: Duration = Duration::from_secs(2);

/// Promise: a conversion that makes objects more than twice as long fails as a whole with an error that names the limit, and the manager's resident memory stays below 192 MiB.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_that_get_longer_in_conversion_fail_the_call() {
    let manager = Manager::start().await;
    let numbers = vec!["1e15"; 400].join(",");
    let object = format!(
        r#"{{"apiVersion":"cache.example.com/v1alpha1","kind":"Memcached","metadata":{{"name":"x"}},"spec":{{"size":3,"more":[{numbers}]}}}}"#
    );
    let body = conversion_of(&object, 63 * MIB / object.len());
    manager.resident();
    let (mut failed, mut limit) = (0, Limit::new(DEADLINE));
    // On a busy machine all of them may be too slow, which is 408.
    while failed == 0 {
        assert!(!limit.is_over(), "none was read");
        let calls = (0..CLIENTS).map(|_| manager.call(HOSTILE, "/convert", &body));
        for reply in join_all(calls).await.into_iter().flatten() {
            if [408, 503].contains(&reply.code) {
                continue;
            }
            let response = reply.json()["response"].clone();
            assert_eq!(response["result"]["status"], "Failure");
            let message = response["result"]["message"].as_str().unwrap();
            // The memory of all calls without the body.
            let most = format!("it may have {} bytes", 130 * MIB - body.len());
            assert!(message.contains(&most), "{message}");
            failed += 1;
        }
    }
    assert!(manager.peak("numbers that grow") <= MOST_RESIDENT);
}

/// Sends `request` again and again and reads no response, until the server takes no more.
async fn send_only(mut stream: impl AsyncWrite + Unpin, request: &str) -> usize {
    let (many, mut sent) = (request.repeat(500), 0);
    while sent < 16 * MIB
        && let Ok(Ok(())) = timeout(SOON, stream.write_all(many.as_bytes())).await
    {
        sent += many.len();
    }
    sent
}

/// Promise: responses that a client does not read have bounded memory, also those without a body.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_responses_without_a_body_are_few() {
    let manager = Manager::start().await;
    let requests = [
        "HEAD /x HTTP/1.1\r\nhost: a\r\n\r\n",
        "HEAD /x HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\ny",
        "POST /x HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\ny",
        "HEAD /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\ny\r\n0\r\n\r\n",
    ];
    for request in requests {
        let before = manager.resident();
        let health = manager.connect_health(HOSTILE).await.unwrap();
        let webhooks = manager.connect_narrow(HOSTILE).await;
        let sent = tokio::join!(send_only(health, request), send_only(webhooks, request));
        println!("{sent:?} bytes were taken of {request:?}");
        let grown = manager.peak("unread responses").saturating_sub(before);
        assert!(grown < 4 * MIB, "{grown} bytes more, for {request:?}");
    }
}

/// Promise: no message quotes more than 256 bytes of a value, a path or a name, so that a rejection
/// costs no more than its review.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejections_quote_at_most_256_bytes() {
    let manager = Manager::start().await;
    let long = "\\u0001".repeat(6 * MIB / 6);
    let review = |name: &str, spec: &str| {
        format!(
            r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u","operation":"CREATE","object":{{"apiVersion":"cache.example.com/v1","kind":"Memcached","metadata":{{"name":"{name}"}},"spec":{spec}}}}}}}"#
        )
    };
    let bodies = [
        review("x", &format!(r#"{{"replicas":"{long}"}}"#)),
        review("x", &format!(r#"{{"replicas":3,"image":"{long}"}}"#)),
        review(&long, r#"{"replicas":-1}"#),
        review(
            "x",
            &format!(r#"{{"replicas":3,"scheduling":{{"nodeSelector":{{"{long}":"a"}}}}}}"#),
        ),
        review(
            "x",
            &format!(r#"{{"replicas":3,"scheduling":{{"nodeSelector":{{"a":"{long}"}}}}}}"#),
        ),
        review(
            "x",
            &format!(r#"{{"replicas":3,"resources":{{"limits":{{"cpu":"{long}"}}}}}}"#),
        ),
    ];
    manager.resident();
    let calls = bodies.iter().cycle().take(2 * CLIENTS);
    let calls = calls.map(|body| manager.call(HOSTILE, ADMISSION, body.as_bytes()));
    let mut refused = 0;
    for (number, reply) in join_all(calls).await.into_iter().flatten().enumerate() {
        let length = reply.body.len();
        assert!(length < 8192, "the answer to {number} has {length} bytes");
        if reply.code == 200 {
            assert_eq!(
                reply.json()["response"]["allowed"],
                json!(false),
                "{number}"
            );
            refused += 1;
        }
    }
    assert!(refused >= 3, "{refused} were read");
    assert!(manager.peak("refusals of 6 MiB") <= MOST_RESIDENT);
}

/// Promise: a legitimate list of 60 MiB is converted, and small calls are answered in time
/// meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_60_mib_is_converted_beside_small_calls() {
    let manager = Manager::start().await;
    let (large, small) = (list_of(60 * MIB), list_of(1));
    manager.resident();
    let beside = async {
        let mut slowest = Duration::ZERO;
        loop {
            let (began, mut limit) = (Instant::now(), Limit::new(SOON));
            assert_eq!(manager.good_call("/convert", &small).await.code, 200);
            let took = began.elapsed();
            slowest = slowest.max(took);
            println!("a small call beside the large one took {took:?}, the slowest {slowest:?}");
            assert!(!limit.is_over(), "{took:?}");
            sleep(Duration::from_millis(250)).await;
        }
    };
    let converted = async {
        let mut limit = Limit::new(DEADLINE);
        loop {
            let reply = manager.good_call("/convert", &large).await;
            // 408 is the answer to a client that is too slow, as on a busy machine.
            if reply.code != 408 || limit.is_over() {
                break reply;
            }
        }
    };
    tokio::select! {
        reply = converted => {
            assert_eq!(reply.code, 200);
            let response = &reply.json()["response"];
            assert_eq!(response["result"]["status"], "Success");
            let objects = response["convertedObjects"].as_array().unwrap();
            assert!(objects.len() > 9000 && objects.iter().all(|it| it["spec"]["replicas"] == 3));
        }
        () = beside => unreachable!(),
    }
    assert!(manager.peak("one honest list of 60 MiB") <= MOST_RESIDENT);
}
