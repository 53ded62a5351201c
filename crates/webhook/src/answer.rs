//! The response: a review, or a `metav1.Status` if the request is not a valid review, as in errors of
//! the API server. Independent of the kind of review.

use std::fmt;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use quartet_http::bounded;
use quartet_http::server::held;

/// Maximum bytes of an error message: some errors quote their input.
const MOST_MESSAGE: usize = 300;
/// `Retry-After` in seconds if there is no free memory. client-go retries up to ten times within the
/// timeout of the call: `rest/with_retry.go`.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// An HTTP response, always JSON.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Vec<u8>,
    memory: Option<OwnedSemaphorePermit>,
}

impl Answer {
    /// JSON text.
    pub(super) fn new(status: StatusCode, body: Vec<u8>) -> Self {
        let memory = None;
        Self {
            status,
            body,
            memory,
        }
    }

    /// A review of this apiVersion and kind.
    pub(super) fn review([api_version, kind]: [&str; 2], response: &Value) -> Self {
        let review = json!({"apiVersion": api_version, "kind": kind, "response": response});
        Self::new(StatusCode::OK, review.to_string().into_bytes())
    }

    /// The response to a request that is not a valid review, or that found no free memory.
    pub(super) fn rejection(status: StatusCode, message: &str) -> Self {
        let body = json!({
            "apiVersion": "v1", "kind": "Status", "status": "Failure", "message": message,
            "code": status.as_u16(),
        });
        Self::new(status, body.to_string().into_bytes())
    }

    /// Keeps what it needs of `memory` until it is written to the connection.
    pub(super) fn holding(mut self, memory: Option<OwnedSemaphorePermit>) -> Self {
        self.memory = memory;
        if let Some(permit) = &mut self.memory {
            drop(permit.split(permit.num_permits().saturating_sub(self.body.len())));
        }
        self
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let body = held(self.body, self.memory);
        let mut response = (self.status, [(header::CONTENT_TYPE, JSON)], body).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        response
    }
}

/// The beginning of the message of `error`.
pub(super) fn beginning_of(error: &dyn fmt::Display) -> String {
    bounded::beginning_of(error, MOST_MESSAGE)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::body::HttpBody as _;
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn an_answer_keeps_its_memory_until_it_is_written() {
        let memory = Arc::new(Semaphore::new(9));
        let all = Arc::clone(&memory).try_acquire_many_owned(9).unwrap();
        let response = Answer::new(StatusCode::OK, b"answer".to_vec())
            .holding(Some(all))
            .into_response();
        assert_eq!(response.body().size_hint().exact(), Some(6));
        assert_eq!(memory.available_permits(), 3);
        let body = axum::body::to_bytes(response.into_body(), 9).await.unwrap();
        assert_eq!(body, "answer");
        drop(body);
        assert_eq!(memory.available_permits(), 9);
    }

    #[test]
    fn a_rejection_is_a_status_with_its_code() {
        let rejection = Answer::rejection(StatusCode::PAYLOAD_TOO_LARGE, "no");
        let body: serde_json::Value = serde_json::from_slice(&rejection.body).unwrap();
        let expected = serde_json::json!({
            "apiVersion": "v1", "kind": "Status", "status": "Failure", "message": "no", "code": 413,
        });
        assert_eq!(body, expected);
    }

    #[test]
    fn only_a_server_without_free_memory_asks_for_a_later_call() {
        for (code, retry_after) in [
            (StatusCode::SERVICE_UNAVAILABLE, Some("1")),
            (StatusCode::OK, None),
            (StatusCode::PAYLOAD_TOO_LARGE, None),
        ] {
            let response = Answer::rejection(code, "no").into_response();
            assert_eq!(response.status(), code);
            let headers = response.headers();
            let actual = headers.get(header::CONTENT_TYPE).unwrap();
            assert_eq!(actual, "application/json");
            let found = headers.get(header::RETRY_AFTER);
            assert_eq!(found.map(|it| it.to_str().unwrap()), retry_after);
        }
    }
}
