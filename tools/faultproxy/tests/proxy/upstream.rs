//! A server that counts the writes it processes, and a client that reaches it through a proxy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use faultproxy::{Installed, Proxy};
use futures::{StreamExt as _, stream};
use http::{Method, Request};
use kube::Client;
use kube::config::{Config, Kubeconfig};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// Long for the loopback network, and short for a test that waits for its end.
pub(crate) const SILENCE: Duration = Duration::from_millis(300);
/// Longer than any response takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/ns/deployments/a";
pub(crate) const LIST: &str = "/apis/apps/v1/namespaces/ns/deployments";
pub(crate) const WATCH: &str = "/apis/apps/v1/namespaces/ns/deployments?watch=true";

/// See the top of this file.
pub(crate) struct TestEnv {
    pub(crate) proxy: Proxy,
    pub(crate) client: Client,
    server: Server,
}

#[derive(Clone)]
struct Server {
    writes: Arc<AtomicU64>,
    watches: Arc<std::sync::Mutex<Vec<mpsc::UnboundedSender<String>>>>,
}

/// A running watch.
pub(crate) struct Events {
    body: axum::body::BodyDataStream,
    partial: String,
}

impl TestEnv {
    pub(crate) async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let server = Server {
            writes: Arc::default(),
            watches: Arc::default(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let routes = Router::new().fallback(answer).with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let upstream = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "c", "user": {}}],
        });
        let proxy = Proxy::start(kubeconfig(upstream)).await.expect("a proxy");
        let client = kubeconfig(proxy.kubeconfig("somebody", &["some"]));
        let config = Config::from_custom_kubeconfig(client, &Default::default()).await;
        let mut config = config.expect("a config");
        config.default_retry = false;
        TestEnv {
            client: Client::try_from(config).expect("a client"),
            proxy,
            server,
        }
    }

    /// Returns how many writes the server has processed.
    pub(crate) fn obeyed(&self) -> u64 {
        self.server.writes.load(Ordering::SeqCst)
    }

    /// Sends these bytes on every running watch.
    pub(crate) fn tell(&self, text: &str) {
        let mut watches = self.server.watches.lock().expect("not poisoned");
        watches.retain(|watch| watch.send(text.to_owned()).is_ok());
    }

    /// Sends an event of an object on every running watch.
    pub(crate) fn tell_of(&self, kind: &str, name: &str, version: u64) {
        self.tell(&format!("{}\n", event(kind, name, version)));
    }

    /// Returns code and body of the response, or why there is none: `Err(true)` on a timeout.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        patience: Duration,
    ) -> Result<(u16, Bytes), bool> {
        let asked = async {
            let answer = self.send(method, path).await.map_err(|_| false)?;
            let code = answer.status().as_u16();
            let body = axum::body::to_bytes(Body::new(answer.into_body()), usize::MAX).await;
            Ok((code, body.map_err(|_| false)?))
        };
        timeout(patience, asked).await.unwrap_or(Err(true))
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
    ) -> Result<Response<kube::client::Body>, kube::Error> {
        let mut request = Request::new(kube::client::Body::from(b"{}".to_vec()));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().expect("a path");
        self.client.send(request).await
    }

    /// Makes a write that must succeed as at the server.
    pub(crate) async fn write(&self) -> (u16, Bytes) {
        let answer = self.ask(Method::PATCH, DEPLOYMENT, PATIENCE).await;
        answer.expect("a response")
    }

    /// Makes a write that gets no response until this rule has taken effect, nor for a while then.
    pub(crate) async fn write_in_silence(&self, rule: &Installed) {
        let silence = async {
            while rule.took_effect() == 0 {
                sleep(Duration::from_millis(5)).await;
            }
            sleep(SILENCE).await;
        };
        tokio::select! {
            answer = self.ask(Method::PATCH, DEPLOYMENT, PATIENCE) => panic!("{answer:?}"),
            () = silence => {}
        }
    }

    /// Starts a watch; returns when it runs at the server, too.
    pub(crate) async fn watch(&self) -> Events {
        let watches = || self.server.watches.lock().expect("not poisoned").len();
        let before = watches();
        let answer = timeout(PATIENCE, self.send(Method::GET, WATCH)).await;
        let answer = answer.expect("in time").expect("a response");
        assert_eq!(answer.status().as_u16(), 200);
        assert_eq!(watches(), before + 1);
        Events {
            body: Body::new(answer.into_body()).into_data_stream(),
            partial: String::new(),
        }
    }
}

impl Events {
    /// Returns the next line; none if the watch ends, and an error if the connection does.
    pub(crate) async fn line(&mut self) -> Result<Option<String>, ()> {
        loop {
            if let Some((line, rest)) = self.partial.split_once('\n') {
                let line = line.to_owned();
                self.partial = rest.to_owned();
                return Ok(Some(line));
            }
            match timeout(PATIENCE, self.body.next()).await.expect("in time") {
                Some(Ok(bytes)) => self.partial += &String::from_utf8_lossy(&bytes),
                Some(Err(_)) => return Err(()),
                None if self.partial.is_empty() => return Ok(None),
                None => return Ok(Some(std::mem::take(&mut self.partial))),
            }
        }
    }

    /// Returns type and resourceVersion of the next event.
    pub(crate) async fn event(&mut self) -> (String, u64) {
        let line = self.line().await.expect("no reset").expect("no end");
        let event: Value = serde_json::from_str(&line).expect("JSON");
        let version = &event["object"]["metadata"]["resourceVersion"];
        let type_ = event["type"].as_str().unwrap_or_default().to_owned();
        (type_, version.as_u64().unwrap_or_default())
    }

    /// Reports whether nothing is received for a while.
    pub(crate) async fn is_silent(&mut self) -> bool {
        self.partial.is_empty() && timeout(SILENCE, self.body.next()).await.is_err()
    }
}

pub(crate) fn event(kind: &str, name: &str, version: u64) -> Value {
    let metadata = json!({"name": name, "resourceVersion": version});
    json!({"type": kind, "object": {"metadata": metadata}})
}

fn kubeconfig(config: Value) -> Kubeconfig {
    serde_json::from_value(config).expect("a kubeconfig")
}

async fn answer(State(server): State<Server>, request: Request<Body>) -> Response {
    if request.uri().query().is_some_and(|it| it.contains("watch")) {
        let (sender, receiver) = mpsc::unbounded_channel();
        server.watches.lock().expect("not poisoned").push(sender);
        let lines = stream::unfold(receiver, |mut receiver| async move {
            let line = receiver.recv().await?;
            Some((Ok::<_, std::convert::Infallible>(line), receiver))
        });
        return Response::new(Body::from_stream(lines));
    }
    let writes = match *request.method() {
        Method::GET => server.writes.load(Ordering::SeqCst),
        _ => server.writes.fetch_add(1, Ordering::SeqCst) + 1,
    };
    Response::new(Body::from(json!({"writes": writes}).to_string()))
}
