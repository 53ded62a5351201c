//! What the lists of a client were at a moment: the cache of an API server that stands still
//! since then.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, Bytes, to_bytes};
use http::{HeaderMap, Method, Request, Uri};
use kube::Client;

/// The largest list.
const BODY_LIMIT: usize = 64 * 1024 * 1024;

/// Parameters of a list that say how new it is to be, and which page: a snapshot has one answer
/// for all of them.
const IGNORED: [&str; 3] = ["resourceVersion", "resourceVersionMatch", "continue"];

/// The answers to every list that a client had asked for, as they were at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot(Arc<BTreeMap<String, Bytes>>);

impl Snapshot {
    /// How many different lists it holds.
    pub fn lists(&self) -> usize {
        self.0.len()
    }

    /// The answer to this list, in JSON.
    pub(crate) fn answer(&self, uri: &Uri) -> Option<Bytes> {
        self.0.get(&key(uri)).cloned()
    }
}

/// Path and query without [`IGNORED`].
fn key(uri: &Uri) -> String {
    let query = uri.query().unwrap_or_default().split('&');
    let kept = query.filter(|it| !IGNORED.contains(&it.split('=').next().unwrap_or_default()));
    let kept: Vec<_> = kept.filter(|it| !it.is_empty()).collect();
    format!("{}?{}", uri.path(), kept.join("&"))
}

/// The lists that were asked for so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lists(Arc<Mutex<BTreeMap<String, HeaderMap>>>);

impl Lists {
    /// Remembers a list, with the headers that it is to be asked for with.
    pub(crate) fn saw(&self, uri: &Uri, headers: &HeaderMap) {
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lists.entry(key(uri)).or_insert_with(|| headers.clone());
    }

    /// Asks for all of them now.
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
    fn a_list_is_the_same_however_new_it_is_to_be() {
        let of = |uri: &'static str| key(&Uri::from_static(uri));
        let first = of("/api/v1/pods?labelSelector=a&limit=500");
        let again = of("/api/v1/pods?labelSelector=a&limit=500&resourceVersion=0&continue=x");
        assert_eq!(first, again);
        assert_ne!(first, of("/api/v1/pods?limit=500"));
        assert_ne!(first, of("/api/v1/services?labelSelector=a&limit=500"));
        // A key is asked for as it stands.
        assert_eq!(of("/api/v1/pods"), "/api/v1/pods?");
    }
}
