//! What hostile bodies cost the manager in memory: the real binary, whose memory the kernel
//! tells apart from that of its clients.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use devcluster::{Process, Program, StateFolder, free_port};
use futures::future::join_all;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Barrier;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const MIB: usize = 1024 * 1024;
/// What hostile bodies may add to the memory of the manager.
const LIMIT: usize = 64 * MIB;
const CLIENTS: usize = 24;
const ADMISSION: &str = "/validate-cache-example-com-v1-memcached";
/// For a debug build on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// The manager, without a cluster, which webhooks do not need. Killed when dropped.
struct Manager {
    process: Process,
    address: SocketAddr,
    connector: TlsConnector,
    _folder: StateFolder,
}

impl Manager {
    async fn start() -> Self {
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
        let port = free_port().unwrap();
        let arguments = [
            format!("--kubeconfig={}", file("kubeconfig").display()),
            "--leader-elect=false".to_owned(),
            "--metrics-bind-address=0".to_owned(),
            "--health-probe-bind-address=0".to_owned(),
            format!("--webhook-port={port}"),
            format!("--webhook-cert-path={}", folder.path().display()),
        ];
        let program = Program::foreign(env!("CARGO_BIN_EXE_manager"));
        let log = file("manager.log");
        let process = Process::spawn("manager", &program, arguments, [], &log).unwrap();

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
            address: (Ipv4Addr::LOCALHOST, port).into(),
            connector: TlsConnector::from(Arc::new(tls)),
            _folder: folder,
        };
        let began = Instant::now();
        while manager.try_connect().await.is_err() {
            manager.process.check().unwrap();
            assert!(began.elapsed() < DEADLINE, "does not answer");
            sleep(Duration::from_millis(20)).await;
        }
        manager
    }

    async fn try_connect(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        self.handshake(stream).await
    }

    async fn handshake(&self, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from("localhost").unwrap();
        self.connector.connect(name, stream).await
    }

    /// A connection on which the kernel takes little of an answer before we do.
    async fn connect_narrow(&self) -> TlsStream<TcpStream> {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(16 * 1024).unwrap();
        let stream = socket.connect(self.address).await.unwrap();
        self.handshake(stream).await.unwrap()
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        timeout(DEADLINE, self.try_connect())
            .await
            .unwrap()
            .unwrap()
    }

    /// A line of `/proc/<pid>/status`, in bytes: what is resident, or the most that ever was.
    fn memory(&self, line: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()));
        let status = status.unwrap();
        let mut lines = status.lines();
        let value = lines.find_map(|it| it.strip_prefix(line)?.strip_prefix(':'));
        let kib: usize = value
            .unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap();
        kib * 1024
    }

    /// Makes the most that ever was the most from now on: proc_pid_clear_refs(5).
    fn forget_peak(&self) {
        std::fs::write(format!("/proc/{}/clear_refs", self.process.id()), "5").unwrap();
    }

    /// By how much the memory had grown at most since `before`; forgets it.
    fn growth(&self, before: usize, what: &str) -> usize {
        let grown = self.memory("VmHWM").saturating_sub(before);
        let left = self.memory("VmRSS").saturating_sub(before);
        println!(
            "{what}: grown by {} KiB, {} KiB of it left",
            grown / 1024,
            left / 1024
        );
        self.forget_peak();
        grown
    }
}

/// A request's first lines; `length` is the declared one, if any.
fn head(path: &str, length: Option<usize>) -> String {
    let length = match length {
        Some(length) => format!("content-length: {length}"),
        None => "transfer-encoding: chunked".to_owned(),
    };
    format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n{length}\r\n\r\n")
}

/// Sends `text` over and over until the server answers; its status code, or `None` if it hung
/// up without one that could be read.
async fn pour(
    mut stream: TlsStream<TcpStream>,
    path: &str,
    declared: Option<usize>,
    text: &[u8],
) -> Option<u16> {
    stream
        .write_all(head(path, declared).as_bytes())
        .await
        .ok()?;
    let repeated = text.repeat(0x4000 / text.len());
    let size = format!("{:x}\r\n", repeated.len());
    let chunk = match declared {
        Some(_) => repeated,
        None => [size.as_bytes(), &repeated, b"\r\n"].concat(),
    };
    let (mut from, mut to) = tokio::io::split(&mut stream);
    let endless = async {
        while to.write_all(&chunk).await.is_ok() {}
        std::future::pending::<()>().await;
    };
    tokio::select! {
        code = read_code(&mut from) => code,
        () = endless => None,
    }
}

async fn read_code(from: &mut (impl tokio::io::AsyncRead + Unpin)) -> Option<u16> {
    let mut answer = [0; 12];
    from.read_exact(&mut answer).await.ok()?;
    std::str::from_utf8(&answer).ok()?.get(9..)?.parse().ok()
}

/// Sends `body` and reads all of the answer: its code and its length.
async fn call(manager: &Manager, path: &str, body: &[u8]) -> (u16, usize) {
    let mut stream = manager.connect().await;
    let exchange = async {
        let request = [head(path, Some(body.len())).as_bytes(), body].concat();
        let (mut from, mut to) = tokio::io::split(&mut stream);
        let write = async {
            let _ = to.write_all(&request).await;
            std::future::pending::<()>().await;
        };
        let read = async {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(from.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let mut answer = vec![0; length.unwrap().parse().unwrap()];
            from.read_exact(&mut answer).await.unwrap();
            (head[9..12].parse().unwrap(), answer.len())
        };
        tokio::select! {
            answer = read => answer,
            () = write => unreachable!(),
        }
    };
    timeout(DEADLINE, exchange).await.expect("an answer")
}

/// A good conversion of at least so many bytes.
fn list_of(bytes: usize) -> Vec<u8> {
    let object = json!({
        "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
        "metadata": {"name": "x", "namespace": "n", "uid": "u", "annotations": {"k": "v".repeat(6000)}},
        "spec": {"size": 3},
    })
    .to_string();
    let objects = vec![object.as_str(); bytes.div_ceil(object.len())].join(",");
    format!(
        r#"{{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{{"uid":"u","desiredAPIVersion":"cache.example.com/v1","objects":[{objects}]}}}}"#
    )
    .into_bytes()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_bodies_cost_64_mib_at_most() {
    let manager = Arc::new(Manager::start().await);
    let small = list_of(1);
    assert_eq!(call(&manager, "/convert", &small).await.0, 200);
    let before = manager.memory("VmRSS");
    manager.forget_peak();

    // Bodies without an end, declared as long as may be, or not at all.
    let endless: [(&str, &[u8], Option<usize>); 8] = [
        ("/convert", b" ", Some(64 * MIB)),
        ("/convert", b"[0,", Some(64 * MIB)),
        ("/convert", b"{\"request\":", Some(64 * MIB - 1)),
        ("/convert", b" ", None),
        ("/convert", b"[0,", None),
        (ADMISSION, b" ", Some(7 * MIB)),
        (ADMISSION, b"{\"a\":", Some(7 * MIB)),
        (ADMISSION, b"{\"a\":", None),
    ];
    let all_connected = Arc::new(Barrier::new(CLIENTS));
    let clients = (0..CLIENTS).map(|number| {
        let (manager, all_connected) = (Arc::clone(&manager), Arc::clone(&all_connected));
        let (path, text, declared) = endless[number % endless.len()];
        tokio::spawn(async move {
            let stream = manager.connect().await;
            all_connected.wait().await;
            timeout(DEADLINE, pour(stream, path, declared, text)).await
        })
    });
    let codes: Vec<_> = join_all(clients)
        .await
        .into_iter()
        .map(|code| code.unwrap().expect("an answer"))
        .collect();
    println!("answers: {codes:?}");
    for code in codes.into_iter().flatten() {
        // 400 to a body of 7 MiB that was read to its end.
        assert!([400, 408, 411, 413, 503].contains(&code), "{code}");
    }
    let grown = manager.growth(before, "endless bodies");
    assert!(grown <= LIMIT);

    // Texts that an error might repeat.
    let text = |length: usize| "x".repeat(length);
    let bodies = [
        ("/convert", format!(r#"{{"request":"{}"}}"#, text(20 * MIB))),
        (
            "/convert",
            format!(
                r#"{{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{{"uid":"u","desiredAPIVersion":"cache.example.com/v1","objects":[{{"kind":"{0}","metadata":{{"namespace":"{0}","name":"{0}"}}}}]}}}}"#,
                text(7 * MIB)
            ),
        ),
        (
            ADMISSION,
            format!(
                r#"{{"kind":"AdmissionReview","request":"{}"}}"#,
                text(6 * MIB)
            ),
        ),
    ];
    let clients = bodies.iter().cycle().take(CLIENTS);
    let clients = clients.map(|(path, body)| call(&manager, path, body.as_bytes()));
    let mut codes = Vec::new();
    for (code, length) in join_all(clients).await {
        assert!([200, 400, 503].contains(&code), "{code}");
        assert!(length < 8192, "an error repeats {length} bytes");
        codes.push(code);
    }
    println!("answers: {codes:?}");
    let grown = manager.growth(before, "texts that an error might repeat");
    assert!(grown <= LIMIT);

    // Good calls whose answers nobody takes.
    let list = Arc::new(list_of(6 * MIB));
    let clients = (0..CLIENTS).map(|_| {
        let (manager, list) = (Arc::clone(&manager), Arc::clone(&list));
        tokio::spawn(async move {
            let mut stream = manager.connect_narrow().await;
            let request = [head("/convert", Some(list.len())).as_bytes(), &list].concat();
            let _ = timeout(DEADLINE, stream.write_all(&request)).await;
            stream
        })
    });
    let held = join_all(clients).await;
    // Beside them, one that is good is answered at once, and large ones soon again: a client
    // has ten seconds to take its answer.
    assert_eq!(call(&manager, "/convert", &small).await.0, 200);
    let grown = manager.growth(before, "answers that nobody takes");
    assert!(grown <= LIMIT);
    let began = Instant::now();
    while call(&manager, "/convert", &list).await.0 != 200 {
        assert!(began.elapsed() < DEADLINE, "no large body is taken");
    }
    println!("large bodies are taken again after {:?}", began.elapsed());
    drop(held);

    // The largest that may be is still answered, when nobody else wants the memory.
    let largest = list_of(64 * MIB - 32 * 1024);
    assert!(largest.len() <= 64 * MIB);
    let began = Instant::now();
    let answer = loop {
        let (code, length) = call(&manager, "/convert", &largest).await;
        match code {
            200 => break length,
            code => assert_eq!(code, 503),
        }
        assert!(began.elapsed() < 2 * DEADLINE, "the largest is not taken");
        sleep(Duration::from_secs(1)).await;
    };
    assert!(answer > 60 * MIB);
    println!("64 MiB converted after {:?}", began.elapsed());
    manager.growth(before, "one list of 64 MiB");
}
