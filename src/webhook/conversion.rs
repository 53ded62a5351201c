//! Conversion: reads a ConversionReview and writes its answer in one pass, object by object, so that a
//! list takes no more memory than its text. The first object that cannot be converted fails the whole
//! call, as the API requires.
//!
//! A request, shortened, and its response:
//!
//! ```json
//! {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": {
//!     "uid": "705ab4f5", "desiredAPIVersion": "cache.example.com/v1",
//!     "objects": [{"apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
//!                  "metadata": {"name": "a"}, "spec": {"size": 3}}]}}
//! {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": {
//!     "convertedObjects": [{"apiVersion": "cache.example.com/v1", "kind": "Memcached",
//!                           "metadata": {"name": "a"}, "spec": {"replicas": 3}}],
//!     "result": {"status": "Success"}, "uid": "705ab4f5"}}
//! ```

mod reading;
mod work;

use axum::http::StatusCode;

use super::answer::{Answer, beginning_of};
use super::body::longest_answer;
use super::metrics::Metrics;
use crate::api::Kind;
use crate::log_limit::LogLimit;
use reading::{API_VERSION, KIND, read, uid_in};
use work::{Failure, Work};

/// The endpoint of all kinds.
#[derive(Debug, Clone)]
pub(super) struct Converter {
    pub(super) kinds: Vec<&'static Kind>,
}

impl Converter {
    /// The answer to `body`. A review with a uid gets a review.
    pub(super) fn answer(&self, body: &str, metrics: &Metrics) -> Answer {
        self.converted(body, metrics)
            .unwrap_or_else(|message| Answer::rejection(StatusCode::BAD_REQUEST, &message))
    }

    /// The answer, or why `body` is not a review.
    fn converted(&self, body: &str, metrics: &Metrics) -> Result<Answer, String> {
        static FAILED: LogLimit = LogLimit::new();
        let mut work = Work::new(&self.kinds, longest_answer(body.len()));
        let uid = read(body, Some(&mut work));
        match (uid, work.failure.take()) {
            (Ok(uid), None) => {
                let uid = uid?;
                for (conversion, objects, lost) in &work.converted {
                    metrics.converted(*conversion, "success", *objects);
                    metrics.data_left_out(*conversion, *lost);
                }
                Ok(work.end(&uid))
            }
            // A failure stops the parser; the rest of the body has not been checked.
            (_, Some(Failure(conversion, message))) => {
                let uid = uid_in(body)?;
                metrics.converted(conversion, "failure", 1);
                if let Some(omitted) = FAILED.admit() {
                    tracing::warn!(error = message, omitted, "a conversion failed");
                }
                Ok(failed(&uid, &message))
            }
            // The request or the whole review is not valid.
            (Err(error), None) => {
                let error = beginning_of(&error);
                let uid = uid_in(body)?;
                Ok(failed(&uid, &format!("cannot read the request: {error}")))
            }
        }
    }
}

/// The answer after a panic: a review if `body` has a uid.
pub(super) fn panicked(body: &str) -> Answer {
    let message = "internal error occurred during conversion";
    match uid_in(body) {
        Ok(uid) => failed(&uid, message),
        Err(_) => Answer::rejection(StatusCode::INTERNAL_SERVER_ERROR, message),
    }
}

/// A review that reports a failure.
fn failed(uid: &str, message: &str) -> Answer {
    Answer::review(&serde_json::json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "response": {
            "uid": uid,
            "convertedObjects": [],
            "result": {"status": "Failure", "message": message},
        },
    }))
}
