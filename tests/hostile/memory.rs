//! Bodies and unread responses that would take much memory.

use std::sync::Arc;

use futures::future::join_all;
use serde_json::json;
use testkit::{Limit, load_factor};
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use crate::manager::{Manager, conversion_of, head, list_of, memcached, read_reply};
use crate::{ADMISSION, CONVERSION, DEADLINE, MIB, MOST_RESIDENT};

const CLIENTS: usize = 24;

/// Sends `text` repeatedly until the server responds. Returns the status code; none if the server closed
/// the connection.
async fn send_endlessly(
    manager: Arc<Manager>,
    path: &str,
    text: &str,
    declared: Option<usize>,
) -> Option<u16> {
    let mut stream = manager.connect().await.ok()?;
    stream
        .write_all(head(path, declared).as_bytes())
        .await
        .ok()?;
    let repeated = text.repeat(0x4000 / text.len());
    let chunk = match declared {
        Some(_) => repeated,
        None => format!("{:x}\r\n{repeated}\r\n", repeated.len()),
    };
    let (mut from, mut to) = tokio::io::split(&mut stream);
    let endless = async {
        while to.write_all(chunk.as_bytes()).await.is_ok() {}
        std::future::pending::<()>().await;
    };
    tokio::select! {
        reply = read_reply(&mut from) => Some(reply.ok()?.code),
        () = endless => None,
    }
}

/// Promise: endless bodies, and good calls whose responses no client reads, keep the manager below
/// 192 MiB; large calls are served again soon afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_bodies_and_unread_responses_use_bounded_memory() {
    let manager = Arc::new(Manager::start().await);
    manager.resident();
    let endless = [
        (CONVERSION, "[0,", Some(64 * MIB)),
        (CONVERSION, "{\"request\":", Some(64 * MIB - 1)),
        (CONVERSION, " ", None),
        (ADMISSION, " ", Some(7 * MIB)),
        (ADMISSION, "{\"a\":", Some(7 * MIB)),
        (ADMISSION, "{\"a\":", None),
    ];
    let limit = DEADLINE.mul_f64(load_factor());
    let clients = (0..CLIENTS).map(|number| {
        let (path, text, declared) = endless[number % endless.len()];
        let sent = send_endlessly(Arc::clone(&manager), path, text, declared);
        tokio::spawn(timeout(limit, sent))
    });
    for code in join_all(clients).await {
        // 400 for a body of 7 MiB that was read to its end.
        if let Some(code) = code.unwrap().expect("a response") {
            assert!([400, 408, 411, 413, 503].contains(&code), "{code}");
        }
    }
    assert!(manager.peak("endless bodies") <= MOST_RESIDENT);

    let list = Arc::new(list_of(6 * MIB));
    let clients = (0..CLIENTS).map(|_| {
        let (manager, list) = (Arc::clone(&manager), Arc::clone(&list));
        tokio::spawn(async move {
            let mut stream = manager.connect().await.unwrap();
            let request = [head(CONVERSION, Some(list.len())).as_bytes(), &list].concat();
            let _ = timeout(DEADLINE, stream.write_all(&request)).await;
            stream
        })
    });
    let held = join_all(clients).await;
    // A small call is answered at once, and a large one soon: a request may take 30 s.
    let small = list_of(1);
    assert_eq!(manager.good_call(CONVERSION, &small).await.code, 200);
    assert!(manager.peak("responses that no client reads") <= MOST_RESIDENT);
    let mut limit = Limit::new(DEADLINE);
    while manager.good_call(CONVERSION, &list).await.code != 200 {
        assert!(!limit.is_over(), "no large body is accepted");
    }
    drop(held);
}

/// Promise: long strings, deeply nested values, values that get longer in a conversion, and conversion
/// data of half a million values keep the manager below 192 MiB, and no response quotes them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_bodies_of_many_clients_use_bounded_memory() {
    let manager = Manager::start().await;
    manager.resident();
    let long = "x".repeat(6 * MIB);
    let review = |spec: &str| {
        format!(
            r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u","operation":"CREATE","object":{{"apiVersion":"cache.example.com/v1","kind":"Memcached","metadata":{{"name":"x"}},"spec":{spec}}}}}}}"#
        )
    };
    let named =
        format!(r#"{{"kind":"{long}","metadata":{{"namespace":"{long}","name":"{long}"}}}}"#);
    let longer = vec!["1e15"; 400].join(",");
    let longer = format!(
        r#"{{"apiVersion":"cache.example.com/v1alpha1","kind":"Memcached","metadata":{{"name":"x"}},"spec":{{"size":3,"more":[{longer}]}}}}"#
    );
    let data = format!(r#"{{"v1":[{{}}{}]}}"#, ",{}".repeat(MIB / 2));
    let data =
        json!({"name": "x", "annotations": {"quartet-operator.example.com/conversion-data": data}});
    let request = |value: String| format!(r#"{{"request":{{"object":{value}"#).into_bytes();
    let admitted = |spec: String| (ADMISSION, review(&spec).into_bytes());
    let converted = |object: &str, count: usize| (CONVERSION, conversion_of(object, count));
    let size = format!(r#"{{"replicas":"{long}"}}"#);
    let image = format!(r#"{{"replicas":3,"image":"{long}"}}"#);
    let label = format!(r#"{{"scheduling":{{"nodeSelector":{{"{long}":"a"}}}}}}"#);
    let nested = |length: usize| request("[".repeat(length));
    let many = 60 * MIB / longer.len();
    let data = memcached(data).to_string();
    let bodies = [
        ("a long name", converted(&named, 1)),
        ("a long size", admitted(size)),
        ("a long image", admitted(image)),
        ("a long label", admitted(label)),
        ("nested values", (CONVERSION, nested(60 * MIB))),
        ("more nested values", (ADMISSION, nested(6 * MIB))),
        ("longer numbers", converted(&longer, many)),
        ("conversion data", converted(&data, 1)),
    ];
    for (what, (path, body)) in bodies {
        let mut limit = Limit::new(DEADLINE);
        // On a busy machine all may be too slow (408) or find no memory (503): then once more.
        let mut is_read = false;
        while !is_read {
            assert!(!limit.is_over(), "{what}: none was read");
            let calls = (0..CLIENTS / 4).map(|_| manager.good_call(path, &body));
            for reply in join_all(calls).await {
                let (code, length) = (reply.code, reply.body.len());
                assert!([200, 400, 408, 503].contains(&code), "{what}: {code}");
                is_read |= [200, 400].contains(&code);
                let allowed = if what == "conversion data" {
                    4 * MIB
                } else {
                    8192
                };
                assert!(length < allowed, "{what}: a response of {length} bytes");
            }
        }
        assert!(manager.peak(what) <= MOST_RESIDENT, "{what}");
    }
}
