//! JSON requests to a real API server. Independent of kinds.

use std::path::Path;

use http::{Method, Request, header};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Status;
use kube::{Client, Config, Error};
use serde_json::Value;

use crate::{DEADLINE, Limit, POLL, load_factor};

/// The response of an API server.
pub type Answer = Result<Value, Status>;

/// Whether the client itself retries failed requests, for minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retries {
    /// Like the manager's client.
    Some,
    /// A request is sent once, unless the response is 429.
    None,
}

/// A client of an API server. Paths begin with `/api`, and may end with a query.
#[derive(Clone)]
pub struct ApiServer {
    /// For requests that are not JSON.
    pub client: Client,
}

impl ApiServer {
    /// Returns a client for the API server of a kubeconfig.
    ///
    /// # Panics
    /// If it cannot be read.
    pub async fn of(kubeconfig: &Path, retries: Retries) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let mut config = config.expect("a config");
        config.default_retry = retries == Retries::Some;
        Self {
            client: Client::try_from(config).expect("a client"),
        }
    }

    /// Reads an object or a list.
    ///
    /// # Errors
    /// An API error, here and below. Panics if there is no response in time.
    pub async fn get(&self, path: &str) -> Answer {
        self.answer(Method::GET, path, "", &Value::Null).await
    }

    /// Creates an object.
    ///
    /// # Errors
    /// As [`ApiServer::get`].
    pub async fn create(&self, path: &str, object: &Value) -> Answer {
        self.answer(Method::POST, path, JSON, object).await
    }

    /// Creates an object as soon as it is accepted.
    ///
    /// # Panics
    /// If it is still rejected after [`DEADLINE`].
    pub async fn until_created(&self, path: &str, object: &Value) {
        let mut limit = Limit::new(DEADLINE);
        while let Err(refused) = self.create(path, object).await {
            limit.pause(|| format!("{path}: {refused:?}")).await;
        }
    }

    /// Replaces an object.
    ///
    /// # Errors
    /// As [`ApiServer::get`].
    pub async fn replace(&self, path: &str, object: &Value) -> Answer {
        self.answer(Method::PUT, path, JSON, object).await
    }

    /// Sends a merge patch, as `kubectl patch --type=merge` or an edit by hand.
    ///
    /// # Errors
    /// As [`ApiServer::get`].
    pub async fn merge(&self, path: &str, patch: Value) -> Answer {
        self.patch(path, "merge-patch+json", &patch).await
    }

    /// Sends a JSON patch, for changes that a merge patch cannot express.
    ///
    /// # Errors
    /// As [`ApiServer::get`].
    pub async fn json_patch(&self, path: &str, patch: &Value) -> Answer {
        self.patch(path, "json-patch+json", patch).await
    }

    /// Sends a strategic merge patch, as built-in controllers do.
    ///
    /// # Errors
    /// As [`ApiServer::get`].
    pub async fn strategic(&self, path: &str, patch: Value) -> Answer {
        self.patch(path, "strategic-merge-patch+json", &patch).await
    }

    /// Server-side apply; field manager and force are part of `path`.
    ///
    /// # Errors
    /// As [`ApiServer::get`].
    pub async fn apply(&self, path: &str, object: &Value) -> Answer {
        self.patch(path, "apply-patch+yaml", object).await
    }

    async fn patch(&self, path: &str, form: &str, patch: &Value) -> Answer {
        let content_type = format!("application/{form}");
        self.answer(Method::PATCH, path, &content_type, patch).await
    }

    /// Deletes the object at `path`.
    ///
    /// # Errors
    /// As [`ApiServer::get`].
    pub async fn delete(&self, path: &str) -> Answer {
        self.delete_with(path, &Value::Null).await
    }

    /// Like [`ApiServer::delete`], with `DeleteOptions`.
    ///
    /// # Errors
    /// As [`ApiServer::get`].
    pub async fn delete_with(&self, path: &str, options: &Value) -> Answer {
        self.answer(Method::DELETE, path, JSON, options).await
    }

    /// A request with the response 429, as from a watch cache right after a change of its CRD, is
    /// repeated, as in client-go.
    async fn answer(&self, method: Method, path: &str, content_type: &str, body: &Value) -> Answer {
        let mut limit = Limit::new(DEADLINE);
        loop {
            let sent = self.send(&method, path, content_type, body);
            let patience = DEADLINE.mul_f64(load_factor());
            let answer = tokio::time::timeout(patience, sent).await;
            match answer.unwrap_or_else(|_| panic!("{path}: no response within {patience:?}")) {
                Ok(object) => return Ok(object),
                Err(Error::Api(status)) if status.code == 429 && !limit.is_over() => {
                    tokio::time::sleep(POLL).await;
                }
                Err(Error::Api(status)) => return Err(*status),
                Err(error) => panic!("{path}: {error}"),
            }
        }
    }

    /// Sends any request, to an API server that may be down; `body` may be null.
    ///
    /// # Errors
    /// An API error, or no response.
    pub async fn send(
        &self,
        method: &Method,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<Value, Error> {
        let body = match body {
            Value::Null => Vec::new(),
            body => body.to_string().into_bytes(),
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, content_type)
            .body(body)
            .expect("a request");
        self.client.request(request).await
    }
}

/// Returns the content type of an object.
const JSON: &str = "application/json";
