//! An API server in process, for tests of single requests.

use http::{Request, Response};
use kube::client::Body;
use serde_json::Value;

/// A client of an API server that is a script: it answers each request, a line such as `GET /api?limit=1` and a
/// body, with a code and an object. A script that does not return is a server that does not answer.
pub fn scripted<Answer>(
    script: impl Fn(String, Value) -> Answer + Clone + Send + 'static,
) -> kube::Client
where
    Answer: Future<Output = (u16, Value)> + Send + 'static,
{
    let service = tower::service_fn(move |request: Request<Body>| {
        let script = script.clone();
        async move {
            let line = format!("{} {}", request.method(), request.uri());
            let body = request.into_body().collect_bytes().await?;
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let (code, answer) = script(line, body).await;
            let answer = Body::from(answer.to_string().into_bytes());
            let response = Response::builder().status(code).body(answer);
            response.map_err(kube::Error::HttpError)
        }
    });
    kube::Client::new(service, "default")
}
