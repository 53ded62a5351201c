//! Requests in JSON to a real API server. Knows no kind, and checks nothing.
#![allow(dead_code)] // no test binary uses all of it

use std::path::Path;
use std::time::Duration;

use http::{Method, Request, header};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Status;
use kube::{Client, Config, Error};
use serde_json::Value;

/// Content types by what they ask for.
pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

/// The longest that an API server may take for an answer.
const DEADLINE: Duration = Duration::from_secs(60);

/// Whether the client repeats by itself, for minutes, what could not be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retries {
    Some,
    None,
}

/// A client of the API server of a kubeconfig.
pub(crate) async fn connect(kubeconfig: &Path, retries: Retries) -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.expect("a config");
    config.default_retry = retries == Retries::Some;
    Client::try_from(config).expect("a client")
}

/// Any request; `body` may be null.
///
/// # Errors
/// What the API server refuses, or that it does not answer.
pub(crate) async fn send(
    client: &Client,
    method: &Method,
    target: &str,
    content_type: &str,
    body: &Value,
) -> Result<Value, Error> {
    let body = match body {
        Value::Null => Vec::new(),
        body => body.to_string().into_bytes(),
    };
    let request = Request::builder()
        .method(method)
        .uri(target)
        .header(header::CONTENT_TYPE, content_type)
        .body(body)
        .expect("a request");
    client.request(request).await
}

/// As [`send`], where the API server must answer.
///
/// # Errors
/// What it refuses.
///
/// # Panics
/// If it does not answer.
pub(crate) async fn answer(
    client: &Client,
    method: &Method,
    target: &str,
    content_type: &str,
    body: &Value,
) -> Result<Value, Status> {
    let sent = send(client, method, target, content_type, body);
    let answer = tokio::time::timeout(DEADLINE, sent).await;
    match answer.unwrap_or_else(|_| panic!("{target}: no answer within {DEADLINE:?}")) {
        Ok(object) => Ok(object),
        Err(Error::Api(status)) => Err(*status),
        Err(error) => panic!("{target}: {error}"),
    }
}
