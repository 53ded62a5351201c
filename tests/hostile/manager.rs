//! A manager process without a cluster, which its servers do not need, and clients of it.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;

use devcluster::{StateFolder, free_port};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use testkit::{Limit, http, load_factor};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Duration, Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::DEADLINE;

/// The server closes a connection whose handshake takes longer.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The tests run one at a time, so that none takes CPU time from another.
static TURN: Mutex<()> = Mutex::const_new(());

/// A running manager.
pub(crate) struct Manager {
    process: testkit::Manager,
    pub(crate) webhooks: SocketAddr,
    pub(crate) health: SocketAddr,
    tls: TlsConnector,
    _folder: StateFolder,
    _turn: MutexGuard<'static, ()>,
}

/// A status code and a body.
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) body: Vec<u8>,
}

impl Manager {
    pub(crate) async fn start() -> Self {
        let turn = TURN.lock().await;
        let folder = StateFolder::create().unwrap();
        let issued = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let write = |name: &str, text: String| {
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        write("tls.crt", issued.cert.pem());
        write("tls.key", issued.signing_key.serialize_pem());
        let nobody = format!(
            "{{apiVersion: v1, kind: Config, current-context: none, \
             clusters: [{{name: none, cluster: {{server: 'https://127.0.0.1:{}'}}}}], \
             users: [{{name: none, user: {{}}}}], \
             contexts: [{{name: none, context: {{cluster: none, user: none}}}}]}}",
            free_port().unwrap()
        );
        write("kubeconfig", nobody);
        // Another build, such as the image's, which has another allocator.
        let binary = std::env::var("HOSTILE_MANAGER");
        let binary = binary.unwrap_or_else(|_| env!("CARGO_BIN_EXE_manager").to_owned());
        let path = folder.path().display();
        let mut command = Command::new("sh");
        command
            // The limit of open files of a container: the manager raises it.
            .args(["-c", "ulimit -S -n 1024; exec \"$0\" \"$@\"", &binary])
            .arg(format!("--kubeconfig={path}/kubeconfig"))
            .arg(format!("--webhook-cert-path={path}"))
            .args(["--leader-elect=false", "--metrics-bind-address=0"])
            .arg("--health-probe-bind-address=127.0.0.1:0")
            .arg("--webhook-port=0")
            // glibc then returns large blocks to the kernel when they are freed. By default it keeps
            // up to twice the largest, in each of its arenas.
            .env("MALLOC_MMAP_THRESHOLD_", "131072");
        let process = testkit::Manager::spawn(command);
        let address = async |purpose| process.address_of(purpose).await.parse().unwrap();
        let health: SocketAddr = address("health probes").await;
        let webhooks: SocketAddr = address("webhooks").await;

        let mut roots = RootCertStore::empty();
        roots.add(issued.cert.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let manager = Self {
            process,
            // It listens on all interfaces.
            webhooks: ([127, 0, 0, 1], webhooks.port()).into(),
            health,
            tls: TlsConnector::from(Arc::new(tls)),
            _folder: folder,
            _turn: turn,
        };
        let mut limit = Limit::new(DEADLINE);
        while http::probe(health, "/readyz").await != Some(200) {
            limit.pause(|| manager.process.log()).await;
        }
        let list = list_of(1);
        assert_eq!(manager.good_call(crate::CONVERSION, &list).await.code, 200);
        manager
    }

    /// Opens a TLS connection to the webhook server. Its receive buffer is small, so that a response that
    /// is not read stays with the manager.
    pub(crate) async fn connect(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(16 * 1024)?;
        let stream = socket.connect(self.webhooks).await?;
        let name = ServerName::try_from("localhost").unwrap();
        stream.set_nodelay(true)?;
        self.tls.connect(name, stream).await
    }

    /// Makes one call on a new connection and reads the whole response.
    async fn call(&self, path: &str, body: &[u8]) -> std::io::Result<Reply> {
        let mut stream = self.connect().await?;
        let request = [head(path, Some(body.len())).as_bytes(), body].concat();
        let (mut read, mut write) = tokio::io::split(&mut stream);
        let sent = async {
            // A server that has read enough responds before everything is written.
            let _ = write.write_all(&request).await;
            let _ = write.flush().await;
            std::future::pending().await
        };
        tokio::select! {
            reply = read_reply(&mut read) => reply,
            () = sent => unreachable!(),
        }
    }

    /// Makes a call whose response must come in time. On a busy machine a handshake may take longer than
    /// the server waits for it; the call is then repeated, as by an API server.
    pub(crate) async fn good_call(&self, path: &str, body: &[u8]) -> Reply {
        let mut limit = Limit::new(DEADLINE);
        loop {
            let began = Instant::now();
            let call = timeout(DEADLINE.mul_f64(load_factor()), self.call(path, body));
            match call.await.expect("in time") {
                Err(_) if began.elapsed() >= HANDSHAKE && !limit.is_over() => {}
                reply => return reply.expect("a response"),
            }
        }
    }

    /// Returns a line of `/proc/<pid>/status`, in bytes.
    fn memory(&self, line: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()));
        let status = status.unwrap();
        let mut lines = status.lines();
        let value = lines.find_map(|it| it.strip_prefix(line)?.strip_prefix(':'));
        let kib = value.unwrap().trim().trim_end_matches(" kB");
        kib.parse::<usize>().unwrap() * 1024
    }

    /// Returns the resident memory and resets its peak: proc_pid_clear_refs(5).
    pub(crate) fn resident(&self) -> usize {
        std::fs::write(format!("/proc/{}/clear_refs", self.process.id()), "5").unwrap();
        self.memory("VmRSS")
    }

    /// Returns the peak of resident memory since [`Manager::resident`], and resets it.
    pub(crate) fn peak(&self, what: &str) -> usize {
        let peak = self.memory("VmHWM");
        println!("{what}: {} KiB at most", peak / 1024);
        self.resident();
        peak
    }
}

/// Returns the head of a request; `length` is the declared one, if any.
pub(crate) fn head(path: &str, length: Option<usize>) -> String {
    let length = match length {
        Some(length) => format!("content-length: {length}"),
        None => "transfer-encoding: chunked".to_owned(),
    };
    format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n{length}\r\n\r\n")
}

pub(crate) async fn read_reply(from: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Reply> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(from.read_u8().await?);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.lines();
    let length = lines.find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |it| it.parse().unwrap())];
    from.read_exact(&mut body).await?;
    let code = head[9..12].parse().unwrap();
    Ok(Reply { code, body })
}

/// Returns a valid conversion of at least this many bytes.
pub(crate) fn list_of(bytes: usize) -> Vec<u8> {
    let object = memcached(
        json!({"name": "x", "namespace": "n", "uid": "u", "annotations": {"k": "v".repeat(6000)}}),
    );
    conversion_of(&object.to_string(), bytes.div_ceil(6000))
}

/// Returns a Memcached in its original version.
pub(crate) fn memcached(metadata: Value) -> Value {
    json!({
        "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
        "metadata": metadata, "spec": {"size": 3},
    })
}

/// Returns a conversion of `count` copies of this object.
pub(crate) fn conversion_of(object: &str, count: usize) -> Vec<u8> {
    let objects = vec![object; count].join(",");
    format!(
        r#"{{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{{"uid":"u","desiredAPIVersion":"cache.example.com/v1","objects":[{objects}]}}}}"#
    )
    .into_bytes()
}
