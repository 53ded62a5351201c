//! Requests that are not valid reviews: rejected at once, with a reason. `tests/hostile` shows that
//! other clients do not notice.

use super::*;
use quartet_http::server::HANDSHAKE;
use quartet_webhook::limits::WEBHOOKS;

/// Much longer than a call takes on a busy machine; a hang takes longer.
const LIMIT: Duration = Duration::from_secs(10);

const ENDPOINTS: [&str; 2] = [MEMCACHED_SPOKE, "/convert"];

async fn timeout<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.expect("hangs")
}

async fn send(server: &Server, path: &str, body: &[u8]) -> Reply {
    let mut client = server.connect().await;
    timeout(client.send(path, body)).await.unwrap()
}

async fn exchange(server: &Server, request: &[u8]) -> std::io::Result<Reply> {
    let mut client = server.connect().await;
    timeout(client.exchange(request)).await
}

/// A rejection is a `metav1.Status` with the same code.
fn assert_rejected(reply: &Reply, code: u16, what: &str) {
    assert_eq!(reply.code, code, "{what}: {reply:?}");
    let status = reply.json();
    assert_eq!(status["kind"], "Status", "{what}");
    assert_eq!(status["code"], code, "{what}");
    assert_ne!(status["message"], "", "{what}");
}

#[tokio::test]
async fn what_is_no_review_is_a_bad_request() {
    let server = Server::start().await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let with = |request: Value| {
        let reviews = [
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}),
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}),
        ];
        reviews.map(|review| review.to_string())
    };
    let short = ["", " ", "{}", "[]", "null", "1", "NaN", "1e400"];
    let others = [
        "{\"request\":",
        "{\"a\":1}{}",
        &deep,
        "{\"kind\":\"AdmissionReview\",\"kind\":\"AdmissionReview\"}",
        r#"{"apiVersion":"v1","kind":"Pod","request":{"uid":"u"}}"#,
        r#"{"apiVersion":1,"kind":2,"request":{"uid":"u"}}"#,
    ];
    let texts = short.into_iter().chain(others).map(str::as_bytes);
    let no_text: [&[u8]; 2] = [b"\xff\xfe{}", b"{\"apiVersion\":\"\xff\"}"];
    let mut bodies: Vec<_> = texts.chain(no_text).map(<[u8]>::to_vec).collect();
    for uid in [
        "null",
        "{}",
        r#"{"uid":""}"#,
        r#"{"uid":null}"#,
        r#"{"uid":1}"#,
        "[]",
    ] {
        let request = serde_json::from_str(uid).unwrap();
        bodies.extend(with(request).map(String::into_bytes));
    }
    for path in ENDPOINTS {
        for body in &bodies {
            let reply = send(&server, path, body).await;
            let shown = String::from_utf8_lossy(body.get(..99).unwrap_or(body));
            assert_rejected(&reply, 400, &format!("{path} {shown}"));
        }
    }
}

#[tokio::test]
async fn a_review_whose_object_makes_no_sense_is_answered_with_its_uid() {
    let server = Server::start().await;
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let wide = format!("[0{}]", ",0".repeat(1_000_000));
    let spec = |spec: &str| {
        format!(
            r#"{{"apiVersion":"cache.example.com/v1alpha1","kind":"Memcached","metadata":{{"name":"x"}},"spec":{spec}}}"#
        )
    };
    let objects = [
        "null".to_owned(),
        "1".to_owned(),
        "{}".to_owned(),
        "[]".to_owned(),
        deep.clone(),
        wide.clone(),
        spec(r#"{"size":1e400}"#),
        spec(r#"{"size":"\ud800"}"#),
        spec(&format!("{{\"size\":{deep}}}")),
        spec(&format!("{{\"size\":{wide}}}")),
    ];
    for object in &objects {
        for operation in ["CREATE", "UPDATE", "PATCH"] {
            let review = format!(
                r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u-9","operation":"{operation}","object":{object},"oldObject":null}}}}"#
            );
            let reply = send(&server, MEMCACHED_SPOKE, review.as_bytes()).await;
            assert_eq!(reply.code, 200);
            let response = reply.json()["response"].clone();
            let found = (&response["uid"], &response["allowed"]);
            assert_eq!(found, (&json!("u-9"), &json!(false)));
            let code = response["status"]["code"].as_u64().unwrap();
            assert!([400, 422].contains(&code), "{response}");
        }
        let review = format!(
            r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{{"uid":"u-9","desiredAPIVersion":"cache.example.com/v1","objects":[{object}]}}}}"#
        );
        let reply = send(&server, "/convert", review.as_bytes()).await;
        assert_eq!(reply.code, 200);
        let response = reply.json()["response"].clone();
        assert_eq!(response["uid"], "u-9");
        let shown = object.get(..99).unwrap_or(object);
        assert_eq!(response["result"]["status"], "Failure", "{shown}");
    }
}

#[tokio::test]
async fn other_paths_and_methods_are_rejected_by_their_codes() {
    let server = Server::start().await;
    for path in ["/", "/validate", "/convert/"] {
        let reply = send(&server, path, b"{}").await;
        assert_eq!(reply.code, 404, "{path}");
    }
    for path in ENDPOINTS {
        for method in ["GET", "PUT", "DELETE", "OPTIONS", "BREW"] {
            let request =
                format!("{method} {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n");
            let reply = exchange(&server, request.as_bytes()).await.unwrap();
            assert_eq!(reply.code, 405, "{method}");
            assert_eq!(reply.header("allow"), Some("POST"));
        }
    }
}

#[tokio::test]
async fn http_2_old_tls_and_no_tls_are_rejected_in_the_handshake() {
    let server = Server::start_with(TlsVersion::Tls13, 0).await;
    let mut http_2 = server.tls.clone();
    http_2.alpn_protocols = vec![b"h2".to_vec()];
    assert!(server.try_connect(http_2).await.is_err());
    let roots = RootCertStore::empty();
    let old = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    assert!(server.try_connect(old).await.is_err());
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 600], &[0x16; 20_000]] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let _ = stream.write_all(garbage).await;
        let _ = timeout(stream.read_to_end(&mut Vec::new())).await;
    }
    // The server counts the connection shortly after the client has seen its end.
    timeout(async {
        while server.metric("quartet_operator_webhook_handshake_errors_total") < 5.0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_says_anything_is_hung_up_on() {
    let server = Server::start().await;
    let began = tokio::time::Instant::now();
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(silent.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    let waited = began.elapsed();
    assert!(waited >= HANDSHAKE && waited < WEBHOOKS.idle, "{waited:?}");
    // A Go client closes a connection that it does not use after 90 s.
    let began = tokio::time::Instant::now();
    let mut unused = server.connect().await;
    let mut rest = Vec::new();
    let _ = unused.stream.read_to_end(&mut rest).await;
    assert!(began.elapsed() >= WEBHOOKS.idle);
}
