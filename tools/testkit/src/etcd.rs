//! etcd's own API, over HTTP with JSON (etcd.io, "gRPC gateway").

use serde_json::Value;

/// A client of one etcd.
pub struct Etcd(kube::Client);

impl Etcd {
    /// The etcd at this URL.
    ///
    /// # Panics
    /// If it is not a URL; and below, if etcd does not respond.
    pub fn at(url: &str) -> Self {
        let config = kube::Config::new(url.parse().expect("a URL"));
        Self(kube::Client::try_from(config).expect("a client"))
    }

    /// Calls a method, such as `kv/range`.
    pub async fn call(&self, method: &str, body: &Value) -> Value {
        let request = http::Request::post(format!("/v3/{method}"));
        let request = request.body(body.to_string().into_bytes());
        let answer = self.0.request(request.expect("a request")).await;
        answer.expect("etcd responds")
    }
}
