//! What hostile bodies cost the webhook server in memory, in a process that does nothing else:
//! one test, whose client sends the same small buffer over and over.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use quartet_operator::packaging::kinds;
use quartet_operator::webhook::{Handlers, Metrics, Stopping, TlsVersion, serve};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const MIB: usize = 1024 * 1024;
/// What all large bodies share.
const SHARED: usize = 64 * MIB;
const CLIENTS: usize = 24;

#[derive(Debug)]
struct OneCertificate(Arc<CertifiedKey>);

impl ResolvesServerCert for OneCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

/// The most memory that this process has had so far.
fn peak_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    let kib: usize = peak.trim().trim_end_matches(" kB").parse().unwrap();
    kib * 1024
}

/// What `buffers` of any size take more where the kernel gives out memory in huge pages only
/// (`transparent_hugepage` is `always`, the default of some distributions).
fn rounding(buffers: usize) -> usize {
    const HUGE_PAGE: usize = 2 * MIB;
    let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    match setting.is_ok_and(|setting| setting.contains("[always]")) {
        true => buffers * HUGE_PAGE,
        false => 0,
    }
}

/// Sends a chunked body of `text` over and over until the server answers; its status code, or
/// `None` if it hung up without one that could be read.
async fn pour(mut stream: TlsStream<TcpStream>, path: &str, text: &[u8]) -> Option<u16> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.ok()?;
    let repeated = text.repeat(0x4000 / text.len());
    let size = format!("{:x}\r\n", repeated.len());
    let chunk = [size.as_bytes(), &repeated, b"\r\n"].concat();
    let mut answer = [0; 12];
    let (mut from, mut to) = tokio::io::split(&mut stream);
    let endless = async { while to.write_all(&chunk).await.is_ok() {} };
    let answered = from.read_exact(&mut answer);
    tokio::pin!(answered);
    tokio::select! {
        read = &mut answered => { read.ok()?; }
        () = endless => { answered.await.ok()?; }
    }
    std::str::from_utf8(&answer)
        .ok()?
        .rsplit(' ')
        .next()?
        .parse()
        .ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_bodies_at_both_endpoints_cost_what_they_may_share_and_no_more() {
    let issued = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let certificate = issued.cert.der().clone();
    let key = PrivateKeyDer::try_from(issued.signing_key.serialize_der()).unwrap();
    let key = rustls::crypto::ring::sign::any_supported_type(&key).unwrap();
    let certified = CertifiedKey::new(vec![certificate.clone()], key);
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(tls));

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let metrics = Metrics::register(&mut Registry::default());
    let stopping = Stopping {
        grace: Duration::ZERO,
        drain: Duration::ZERO,
    };
    tokio::spawn(serve(
        listener,
        Arc::new(OneCertificate(Arc::new(certified))),
        TlsVersion::Tls12,
        Handlers::new(&kinds(), 1000, &metrics),
        stopping,
        std::future::pending(),
    ));

    let before = peak_bytes();
    let bodies: [(&str, &[u8]); 4] = [
        ("/convert", b" "),
        ("/convert", b"[0,"),
        ("/validate-cache-example-com-v1-memcached", b" "),
        ("/validate-cache-example-com-v1-memcached", b"{\"a\":"),
    ];
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let connector = connector.clone();
            let (path, text) = bodies[number % bodies.len()];
            tokio::spawn(async move {
                let stream = TcpStream::connect(address).await.unwrap();
                let name = ServerName::try_from("localhost").unwrap();
                let stream = connector.connect(name, stream).await.unwrap();
                pour(stream, path, text).await
            })
        })
        .collect();
    let mut codes = Vec::new();
    for client in clients {
        codes.push(client.await.unwrap());
    }
    let grown = peak_bytes() - before;
    println!("grown by {} MiB, answers {codes:?}", grown / MIB);
    for code in codes.into_iter().flatten() {
        assert!([408, 413, 503].contains(&code), "{code}");
    }
    let limit = SHARED + 32 * MIB + rounding(CLIENTS);
    assert!(grown < limit, "grown by {} MiB", grown / MIB);
}
