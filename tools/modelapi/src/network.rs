//! What is between a client and the API server: the way there, the way back, and what goes
//! wrong on them.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use kube::client::Body;
use serde_json::Value;
use tokio::time::sleep;

use crate::counter::Counter;
use crate::request::{Answer, Call, Target, parameters};
use crate::storage::{ApiServer, Change};

/// A point on the way of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The API server has not seen it.
    Sent,
    /// The API server has obeyed, and its answer is not there yet.
    Obeyed,
    /// The client has the answer.
    Answered,
}

/// What happens to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum RequestFault {
    /// Nothing.
    None,
    /// This answer comes, and the API server has not seen the request.
    Rejected(Answer),
    /// No answer ever comes, and the API server has not seen the request.
    Lost,
    /// The connection breaks, and the API server has not seen the request.
    Refused,
    /// The API server obeys, and this answer comes.
    ObeyedBut(Answer),
    /// The API server obeys, and the connection breaks in the middle of the answer.
    Cut,
    /// The API server obeys, and no answer ever comes.
    Unanswered,
    /// The API server obeys, and the answer takes so long.
    Late(Duration),
    /// The client's process ends.
    Crash(Moment),
}

/// What happens to an event of a watch.
#[derive(Debug)]
pub enum EventFault {
    /// Nothing.
    None,
    /// It is not delivered, and the connection breaks.
    Dropped,
    /// It is delivered twice.
    Doubled,
    /// It is delivered when the number is at least this, or after five seconds; what follows on
    /// the same watch waits behind it.
    Held(Arc<Counter>, u64),
    /// The watch ends with the error 410 in its place.
    Expired,
}

/// An event that is about to be delivered.
#[derive(Debug)]
pub struct Delivery<'a> {
    /// Plural of the watch.
    pub plural: &'a str,
    /// Name of the object.
    pub name: &'a str,
    /// How it changed, as the watch sees it.
    pub change: Change,
    /// Resource version.
    pub revision: u64,
}

/// One client's way to the API server. The defaults make no faults.
pub trait Network: Send + Sync {
    /// A request is sent.
    fn request(&self, _call: &Call, _target: &Target) -> RequestFault {
        RequestFault::None
    }

    /// The API server has answered.
    fn answered(&self, _call: &Call, _target: &Target, _answer: &Answer) {}

    /// The client's process is to end now.
    fn crash(&self) {}

    /// Whether the client's process has ended: nothing gets through any more.
    fn is_dead(&self) -> bool {
        false
    }

    /// An event is to be delivered.
    fn event(&self, _delivery: &Delivery<'_>) -> EventFault {
        EventFault::None
    }

    /// The revision that a list is served from, if not the latest.
    fn list_at(&self, _target: &Target) -> Option<u64> {
        None
    }

    /// The revision after which a watch begins, if not the one that is asked for.
    fn watch_after(&self, _target: &Target) -> Option<u64> {
        None
    }

    /// One way of a request.
    fn delay(&self) -> Duration {
        Duration::from_millis(1)
    }

    /// Between two events of one watch that are there at the same time.
    fn between_events(&self) -> Duration {
        Duration::ZERO
    }

    /// From a write to its event.
    fn event_delay(&self, _plural: &str) -> Duration {
        Duration::from_millis(1)
    }
}

/// A network without faults.
#[derive(Debug)]
pub struct Perfect;

impl Network for Perfect {}

type AnyBody = UnsyncBoxBody<Bytes, io::Error>;

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "the connection broke")
}

/// A client of `server` behind `network`.
pub fn client(server: &ApiServer, network: &Arc<dyn Network>) -> kube::Client {
    let (server, network) = (server.clone(), Arc::clone(network));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (server, network) = (server.clone(), Arc::clone(&network));
        async move { serve(&server, &network, request).await }
    });
    kube::Client::new(service, "default")
}

async fn serve(
    server: &ApiServer,
    network: &Arc<dyn Network>,
    request: Request<Body>,
) -> Result<Response<AnyBody>, io::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let content_type = head.headers.get(http::header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    let call = Call {
        method: head.method,
        path: head.uri.path().to_owned(),
        query: parameters(head.uri.query().unwrap_or_default()),
        content_type: content_type.unwrap_or_default().to_owned(),
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    };
    let target = call.target();
    if network.is_dead() {
        return pending().await;
    }
    let fault = network.request(&call, &target);
    match &fault {
        RequestFault::Crash(Moment::Sent) => {
            network.crash();
            return pending().await;
        }
        RequestFault::Lost => return pending().await,
        RequestFault::Refused => return Err(broken()),
        RequestFault::Rejected(answer) => {
            sleep(network.delay()).await;
            network.answered(&call, &target, answer);
            return Ok(response(answer));
        }
        _ => {}
    }
    sleep(network.delay()).await;
    if target.verb == "watch" {
        let after = network.watch_after(&target);
        let stream = server.watch(&call, &target, after, Arc::clone(network));
        let body = UnsyncBoxBody::new(StreamBody::new(stream));
        return Ok(Response::new(body));
    }
    // What a process has sent before its end arrives all the same.
    let snapshot = network.list_at(&target).filter(|_| target.verb == "list");
    let answer = server.answer(&call, snapshot);
    network.answered(&call, &target, &answer);
    if fault == RequestFault::Crash(Moment::Obeyed) {
        network.crash();
        return pending().await;
    }
    match fault {
        RequestFault::Late(delay) => sleep(delay).await,
        _ => sleep(network.delay()).await,
    }
    if network.is_dead() {
        return pending().await;
    }
    match fault {
        RequestFault::ObeyedBut(answer) => Ok(response(&answer)),
        RequestFault::Unanswered => pending().await,
        RequestFault::Cut => {
            let bytes = answer.body.to_string().into_bytes();
            let half = Bytes::from(bytes[..bytes.len() / 2].to_vec());
            let frames = [Ok(http_body::Frame::data(half)), Err(broken())];
            let body = StreamBody::new(futures::stream::iter(frames));
            let mut response = Response::new(UnsyncBoxBody::new(body));
            *response.status_mut() = status(answer.code);
            Ok(response)
        }
        RequestFault::Crash(_) => {
            network.crash();
            Ok(response(&answer))
        }
        _ => Ok(response(&answer)),
    }
}

fn status(code: u16) -> http::StatusCode {
    http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR)
}

fn response(answer: &Answer) -> Response<AnyBody> {
    let body = Full::new(Bytes::from(answer.body.to_string()));
    let body = body.map_err(|never: Infallible| match never {});
    let mut response = Response::new(UnsyncBoxBody::new(body));
    *response.status_mut() = status(answer.code);
    if let Some(seconds) = answer.retry_after {
        let headers = response.headers_mut();
        headers.insert(http::header::RETRY_AFTER, seconds.into());
    }
    response
}
