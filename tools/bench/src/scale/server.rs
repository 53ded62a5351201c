//! Serves the [`Cluster`] over HTTP/1.1 and TLS on loopback, as an API server does, and counts what it
//! is asked.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use modelapi::{Answer, Call, Target, parameters};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use super::cluster::{Cluster, DEPLOYMENTS};
use super::table::Table;
use super::watch;
use super::writes::{self, Done};
use crate::audit::{self, Requests};
use crate::webhook::bare;

/// As kube-apiserver reports it.
const VERSION: &str = r#"{"major":"1","minor":"34","gitVersion":"v1.34.1","gitCommit":"","gitTreeState":"clean","buildDate":"","goVersion":"","compiler":"gc","platform":"linux/amd64"}"#;
/// As in kube-apiserver, for those who name none.
const PAGE: usize = usize::MAX;

/// What happened that somebody may wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum News {
    /// The head of an apply of this Deployment has arrived.
    Applied(String, Instant),
    /// A status says that this resource is Ready in its generation.
    Ready(String),
}

/// The server. Clones are the same one; it ends with the runtime.
#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) cluster: Cluster,
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    seen: Mutex<Seen>,
    news: mpsc::UnboundedSender<News>,
}

#[derive(Debug)]
struct Seen {
    requests: Requests,
    /// When something else than a watch was asked for last.
    last: Instant,
}

type AnyBody = UnsyncBoxBody<Bytes, Infallible>;

impl Server {
    /// Listens, with the certificate in the folder `certificates`.
    pub(super) async fn start(
        certificates: &Path,
    ) -> io::Result<(Self, mpsc::UnboundedReceiver<News>)> {
        let tls = TlsAcceptor::from(Arc::new(bare::config(certificates)?));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (news, told) = mpsc::unbounded_channel();
        let seen = Seen {
            requests: Requests::new(),
            last: Instant::now(),
        };
        let server = Self {
            cluster: Cluster::new(),
            address: listener.local_addr()?,
            shared: Arc::new(Shared {
                seen: Mutex::new(seen),
                news,
            }),
        };
        let serving = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().connection(stream, tls.clone()));
            }
        });
        Ok((server, told))
    }

    async fn connection(self, stream: TcpStream, tls: TlsAcceptor) {
        let _ = stream.set_nodelay(true);
        let Ok(stream) = tls.accept(stream).await else {
            return;
        };
        let service = service_fn(|request| {
            let server = self.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        // Ends when the manager closes it, in whatever way.
        let _ = http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.shared
            .seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// What was asked since the last look.
    pub(super) fn take_requests(&self) -> Requests {
        std::mem::take(&mut self.seen().requests)
    }

    /// When something else than a watch was asked for last.
    pub(super) fn last_request(&self) -> Instant {
        self.seen().last
    }

    fn note(&self, target: &Target, path: &str, code: u16) {
        let resource = match target.verb {
            "discover" => path.to_owned(),
            _ => target.resource.clone(),
        };
        let request = audit::Request {
            verb: target.verb.to_owned(),
            resource,
            code,
        };
        let mut seen = self.seen();
        if !request.is_watch() {
            seen.last = Instant::now();
        }
        *seen.requests.entry(request).or_default() += 1;
    }

    fn tell(&self, news: News) {
        // Nobody may be waiting.
        let _ = self.shared.news.send(news);
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<AnyBody> {
        let arrived = Instant::now();
        let (head, body) = request.into_parts();
        let content_type = head.headers.get(CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok());
        let mut call = Call {
            method: head.method,
            path: head.uri.path().to_owned(),
            query: parameters(head.uri.query().unwrap_or_default()),
            content_type: content_type.unwrap_or_default().to_owned(),
            body: Value::Null,
        };
        let target = call.target();
        let key = format!("{}/{}", target.namespace, target.name);
        if (target.verb, target.resource.as_str()) == ("apply", DEPLOYMENTS) {
            self.tell(News::Applied(key.clone(), arrived));
        }
        if let Ok(body) = body.collect().await {
            call.body = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
        }
        if target.verb == "watch" {
            return self.watch(&call, &target);
        }
        let done = self.done(&call, &target, &key);
        self.note(&target, &call.path, done.code);
        if done.is_ready {
            self.tell(News::Ready(key));
        }
        response(done.code, done.body)
    }

    fn done(&self, call: &Call, target: &Target, key: &str) -> Done {
        let found = |body: Option<Bytes>| match body {
            Some(body) => Done {
                code: 200,
                body,
                is_ready: false,
            },
            None => not_found().into(),
        };
        match target.verb {
            "discover" if call.path == "/version" => found(Some(VERSION.into())),
            "discover" => found(self.cluster.discovery(&call.path)),
            "create" if target.resource == "events" => writes::created(call),
            verb => match self.table(call, target) {
                None => not_found().into(),
                Some(table) if verb == "get" => found(table.get(key)),
                Some(table) if verb == "list" => found(Some(list(table, call, target))),
                Some(table) => writes::obey(&self.cluster, table, call, target),
            },
        }
    }

    fn table(&self, call: &Call, target: &Target) -> Option<&Table> {
        self.cluster.served(&call.path, target.plural())
    }

    fn watch(&self, call: &Call, target: &Target) -> Response<AnyBody> {
        let plural = target.plural();
        let begun = match self.table(call, target) {
            Some(_) => watch::begin(&self.cluster, plural, call),
            None => Err(not_found()),
        };
        match begun {
            Ok(frames) => {
                self.note(target, &call.path, 200);
                let body = UnsyncBoxBody::new(StreamBody::new(frames));
                Response::new(body)
            }
            Err(refusal) => {
                self.note(target, &call.path, refusal.code);
                let done = Done::from(refusal);
                response(done.code, done.body)
            }
        }
    }
}

/// Every object of a type is selected by the manager's selectors, which this does not look at.
fn list(table: &Table, call: &Call, target: &Target) -> Bytes {
    let limit = call.parameter("limit").and_then(|limit| limit.parse().ok());
    let field = call.parameter("fieldSelector").unwrap_or_default();
    if let Some(name) = field.strip_prefix("metadata.name=") {
        return table.list_of_one(&format!("{}/{name}", target.namespace));
    }
    let after = call.parameter("continue");
    table.page(&target.namespace, limit.unwrap_or(PAGE), after)
}

fn not_found() -> Answer {
    Answer::failure(
        404,
        "NotFound",
        "the server could not find the requested resource",
    )
}

fn response(code: u16, body: Bytes) -> Response<AnyBody> {
    let mut response = Response::new(UnsyncBoxBody::new(Full::new(body)));
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let json = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
