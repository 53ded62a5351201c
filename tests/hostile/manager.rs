//! A manager process without a cluster, which its servers do not need, and clients of it from
//! different loopback addresses.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use devcluster::{Process, Program, StateFolder, free_port};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use serde_json::{Value, json};
use testkit::{Limit, load_factor};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::MutexGuard;
use tokio::time::{Duration, Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::{DEADLINE, TURN};

pub(crate) const ADMISSION: &str = "/validate-cache-example-com-v1-memcached";
/// Good clients use this address, as an API server or a kubelet would.
pub(crate) const GOOD: u8 = 1;
/// Hostile clients use this address, as another pod would.
pub(crate) const HOSTILE: u8 = 2;
/// The server closes a connection whose handshake takes longer.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Whether so many processes wait for a processor that the server may miss its own limits.
pub(crate) fn is_busy() -> bool {
    load_factor() > 2.0
}

/// A running manager, killed when dropped.
pub(crate) struct Manager {
    process: Process,
    webhooks: u16,
    health: u16,
    tls: Arc<ClientConfig>,
    folder: StateFolder,
    _turn: MutexGuard<'static, ()>,
}

/// A status code and a body.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl Manager {
    pub(crate) async fn start() -> Self {
        let turn = TURN.lock().await;
        let folder = StateFolder::create().unwrap();
        let issued = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let file = |name: &str| folder.path().join(name);
        std::fs::write(file("tls.crt"), issued.cert.pem()).unwrap();
        std::fs::write(file("tls.key"), issued.signing_key.serialize_pem()).unwrap();
        let nobody = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: none\n\
             clusters: [{{name: none, cluster: {{server: 'https://127.0.0.1:{}'}}}}]\n\
             users: [{{name: none, user: {{}}}}]\n\
             contexts: [{{name: none, context: {{cluster: none, user: none}}}}]\n",
            free_port().unwrap()
        );
        std::fs::write(file("kubeconfig"), nobody).unwrap();
        let (webhooks, health) = (free_port().unwrap(), free_port().unwrap());
        let arguments = [
            format!("--kubeconfig={}", file("kubeconfig").display()),
            "--leader-elect=false".to_owned(),
            "--metrics-bind-address=0".to_owned(),
            format!("--health-probe-bind-address=:{health}"),
            format!("--webhook-port={webhooks}"),
            format!("--webhook-cert-path={}", folder.path().display()),
        ];
        // Another build, such as the image's, which has another allocator.
        let binary = std::env::var("HOSTILE_MANAGER");
        let binary = binary.unwrap_or_else(|_| env!("CARGO_BIN_EXE_manager").to_owned());
        // The limit of open files of a container: the manager raises it.
        let limited = "ulimit -S -n 1024; exec \"$0\" \"$@\"".to_owned();
        let arguments = ["-c".to_owned(), limited, binary]
            .into_iter()
            .chain(arguments);
        let program = Program::foreign("/bin/sh");
        let log = file("manager.log");
        // glibc then returns large blocks to the kernel when they are freed. By default it keeps up
        // to twice the largest, in each of its arenas.
        let allocator = ("MALLOC_MMAP_THRESHOLD_".to_owned(), "131072".to_owned());
        let process = Process::spawn("manager", &program, arguments, [allocator], &log).unwrap();

        let mut roots = RootCertStore::empty();
        roots.add(issued.cert.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut manager = Self {
            process,
            webhooks,
            health,
            tls: Arc::new(tls),
            folder,
            _turn: turn,
        };
        let mut limit = Limit::new(DEADLINE);
        while manager.get("/readyz").await != Some(200) {
            manager.process.check().unwrap();
            limit.pause(|| "never ready").await;
        }
        manager
    }

    /// Opens a TCP connection to the health server.
    pub(crate) async fn connect_health(&self, from: u8) -> std::io::Result<TcpStream> {
        connect(from, self.health, None).await
    }

    /// Returns the status code of a probe, made on a new connection as the kubelet does.
    pub(crate) async fn get(&self, path: &str) -> Option<u16> {
        let mut stream = self.connect_health(GOOD).await.ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        read_code(&mut stream).await
    }

    /// Opens a TCP connection to the webhook server.
    pub(crate) async fn connect_tcp(&self, from: u8) -> std::io::Result<TcpStream> {
        connect(from, self.webhooks, None).await
    }

    /// Opens a TLS connection to the webhook server.
    pub(crate) async fn connect(&self, from: u8) -> std::io::Result<TlsStream<TcpStream>> {
        self.handshake(self.connect_tcp(from).await?).await
    }

    /// Opens a connection with a small receive buffer.
    pub(crate) async fn connect_narrow(&self, from: u8) -> TlsStream<TcpStream> {
        let stream = connect(from, self.webhooks, Some(16 * 1024)).await.unwrap();
        self.handshake(stream).await.unwrap()
    }

    /// Returns the first message of a TLS handshake.
    pub(crate) fn hello(&self) -> Vec<u8> {
        let name = ServerName::try_from("localhost").unwrap();
        let mut connection = ClientConnection::new(Arc::clone(&self.tls), name).unwrap();
        let mut hello = Vec::new();
        connection.write_tls(&mut hello).unwrap();
        hello
    }

    /// Returns the number of its open files, connections among them.
    pub(crate) fn files(&self) -> usize {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.process.id()));
        files.unwrap().count()
    }

    async fn handshake(&self, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from("localhost").unwrap();
        let connector = TlsConnector::from(Arc::clone(&self.tls));
        connector.connect(name, stream).await
    }

    /// Makes one call on a new connection and reads the whole response.
    pub(crate) async fn call(&self, from: u8, path: &str, body: &[u8]) -> std::io::Result<Reply> {
        let mut stream = self.connect(from).await?;
        let request = [head(path, Some(body.len())).as_bytes(), body].concat();
        let (mut read, mut write) = tokio::io::split(&mut stream);
        let sent = async {
            // A server that has read enough responds before everything is written.
            let _ = write.write_all(&request).await;
            let _ = write.flush().await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            reply = read_reply(&mut read) => reply,
            () = sent => unreachable!(),
        }
    }

    /// Like [`Manager::call`] of a good client, whose response must come in time.
    pub(crate) async fn good_call(&self, path: &str, body: &[u8]) -> Reply {
        self.patient_call(GOOD, path, body).await
    }

    /// Like [`Manager::call`], whose response must come in time. On a busy machine a handshake may take
    /// longer than the server waits for it; the call is then repeated, as by an API server.
    pub(crate) async fn patient_call(&self, from: u8, path: &str, body: &[u8]) -> Reply {
        let mut limit = Limit::new(DEADLINE);
        loop {
            let began = Instant::now();
            let call = timeout(DEADLINE.mul_f64(load_factor()), self.call(from, path, body));
            match call.await.expect("in time") {
                Err(error) if is_busy() && began.elapsed() >= HANDSHAKE && !limit.is_over() => {
                    println!("{path} after {:.0?}: {error}", began.elapsed());
                }
                reply => return reply.expect("a response"),
            }
        }
    }

    /// Returns a line of `/proc/<pid>/status`, in bytes, such as the current or the peak resident
    /// memory.
    pub(crate) fn memory(&self, line: &str) -> usize {
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

    /// Returns the peak of resident memory since [`Manager::resident`].
    pub(crate) fn peak(&self, what: &str) -> usize {
        let (peak, left) = (self.memory("VmHWM"), self.memory("VmRSS"));
        println!(
            "{what}: {} KiB at most, {} KiB left",
            peak / 1024,
            left / 1024
        );
        peak
    }

    /// Returns the log so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("manager.log")).unwrap()
    }
}

async fn connect(from: u8, port: u16, receive: Option<u32>) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    if let Some(bytes) = receive {
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.bind((Ipv4Addr::new(127, 0, 0, from), 0).into())?;
    let stream = socket
        .connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Returns the head of a request; `length` is the declared one, if any.
pub(crate) fn head(path: &str, length: Option<usize>) -> String {
    let length = match length {
        Some(length) => format!("content-length: {length}"),
        None => "transfer-encoding: chunked".to_owned(),
    };
    format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n{length}\r\n\r\n")
}

/// Reads the status code of a response.
pub(crate) async fn read_code(from: &mut (impl AsyncRead + Unpin)) -> Option<u16> {
    let mut answer = [0; 12];
    from.read_exact(&mut answer).await.ok()?;
    std::str::from_utf8(&answer).ok()?.get(9..)?.parse().ok()
}

async fn read_reply(from: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Reply> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(from.read_u8().await?);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.unwrap().parse().unwrap()];
    from.read_exact(&mut body).await?;
    let code = head[9..12].parse().unwrap();
    Ok(Reply { code, body })
}

/// Returns a valid conversion of at least this many bytes.
pub(crate) fn list_of(bytes: usize) -> Vec<u8> {
    let object = json!({
        "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
        "metadata": {"name": "x", "namespace": "n", "uid": "u", "annotations": {"k": "v".repeat(6000)}},
        "spec": {"size": 3},
    })
    .to_string();
    conversion_of(&object, bytes.div_ceil(object.len()))
}

/// Returns a conversion of `count` copies of this object.
pub(crate) fn conversion_of(object: &str, count: usize) -> Vec<u8> {
    let objects = vec![object; count].join(",");
    format!(
        r#"{{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{{"uid":"u","desiredAPIVersion":"cache.example.com/v1","objects":[{objects}]}}}}"#
    )
    .into_bytes()
}
