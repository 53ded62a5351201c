//! A snapshot of a client's lists: the cache of an API server that has been stale since then.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, Bytes, to_bytes};
use http::{HeaderMap, Method, Request, Uri};
use kube::Client;

/// The largest list.
const BODY_LIMIT: usize = 64 * 1024 * 1024;

/// List parameters for freshness and paging: a snapshot has one response for all of them.
const IGNORED: [&str; 3] = ["resourceVersion", "resourceVersionMatch", "continue"];

/// The responses to every list that a client had requested, at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot(Arc<BTreeMap<String, Bytes>>);

impl Snapshot {
    /// Returns the number of different lists.
    pub fn lists(&self) -> usize {
        self.0.len()
    }

    /// Returns the response to this list, in JSON.
    pub(crate) fn answer(&self, uri: &Uri) -> Option<Bytes> {
        self.0.get(&key(uri)).cloned()
    }
}

/// Returns path and query without [`IGNORED`].
fn key(uri: &Uri) -> String {
    let query = uri.query().unwrap_or_default().split('&');
    let kept = query.filter(|it| !IGNORED.contains(&it.split('=').next().unwrap_or_default()));
    let kept: Vec<_> = kept.filter(|it| !it.is_empty()).collect();
    format!("{}?{}", uri.path(), kept.join("&"))
}

/// The lists that were requested so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lists(Arc<Mutex<BTreeMap<String, HeaderMap>>>);

impl Lists {
    /// Records a list with its request headers.
    pub(crate) fn saw(&self, uri: &Uri, headers: &HeaderMap) {
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lists.entry(key(uri)).or_insert_with(|| headers.clone());
    }

    /// Requests all of them now.
    pub(crate) async fn snapshot(&self, upstream: &Client) -> Result<Snapshot, String> {
        let lists = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let mut answers = BTreeMap::new();
        for (uri, headers) in lists {
            let mut request = Request::new(kube::client::Body::empty());
            *request.method_mut() = Method::GET;
            *request.uri_mut() = uri.parse().map_err(|_| format!("no URI: {uri}"))?;
            *request.headers_mut() = headers;
            let answer = upstream.clone().send(request).await;
            let answer = answer.map_err(|error| format!("{uri}: {error}"))?;
            if !answer.status().is_success() {
                return Err(format!("{uri}: {}", answer.status()));
            }
            let body = to_bytes(Body::new(answer.into_body()), BODY_LIMIT).await;
            answers.insert(uri, body.map_err(|error| error.to_string())?);
        }
        Ok(Snapshot(Arc::new(answers)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freshness_parameters_do_not_change_the_key_of_a_list() {
        let of = |uri: &'static str| key(&Uri::from_static(uri));
        let first = of("/api/v1/pods?labelSelector=a&limit=500");
        let again = of("/api/v1/pods?labelSelector=a&limit=500&resourceVersion=0&continue=x");
        assert_eq!(first, again);
        assert_ne!(first, of("/api/v1/pods?limit=500"));
        assert_ne!(first, of("/api/v1/services?labelSelector=a&limit=500"));
        // A key can be requested as it is.
        assert_eq!(of("/api/v1/pods"), "/api/v1/pods?");
    }
}
