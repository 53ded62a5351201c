//! A manager whose certificate files are replaced every second for a minute while it is called:
//! by an API server, and on connections that each begin with a handshake.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quartet_operator::api::{Kind, memcached};
use quartet_operator::packaging::{crd, sample};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::stage::{DEADLINE, Running, Stage, collection, crd_path, object, path};
use crate::webhook_server::Endpoint;

const MEMCACHED: &Kind = &memcached::KIND;
const LOAD: Duration = Duration::from_secs(60);
/// The manager looks every ten seconds.
const CERTIFICATES_SHOWN: usize = 4;

/// An authority and the certificates that it signs.
struct Authority {
    certificate: CertificateDer<'static>,
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut parameters = CertificateParams::new(Vec::new()).expect("parameters");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = parameters.self_signed(&key).expect("an authority");
        Self {
            certificate: certificate.der().clone(),
            pem: certificate.pem(),
            issuer: Issuer::new(parameters, key),
        }
    }

    /// Certificate and key for the loopback address.
    fn pair(&self) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let parameters = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
        let certificate = parameters.signed_by(&key, &self.issuer);
        (
            certificate.expect("a certificate").pem(),
            key.serialize_pem(),
        )
    }

    fn trusting(&self) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("TLS versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        // Or most handshakes would never see a certificate.
        config.resumption = rustls::client::Resumption::disabled();
        TlsConnector::from(Arc::new(config))
    }
}

/// A folder of certificate files as the kubelet lays it out.
struct Folder(PathBuf);

impl Folder {
    fn create(path: PathBuf, pair: &(String, String)) -> Self {
        fs::create_dir(&path).expect("a folder");
        let folder = Self(path);
        folder.swap(0, pair);
        for file in ["tls.crt", "tls.key"] {
            symlink(format!("..data/{file}"), folder.0.join(file)).expect("a link");
        }
        folder
    }

    /// As the kubelet does it: a new folder, and a link renamed over the link to the old one.
    fn swap(&self, generation: usize, pair: &(String, String)) {
        let name = format!("..{generation}");
        fs::create_dir(self.0.join(&name)).expect("a folder");
        write(&self.0.join(&name), pair);
        symlink(&name, self.0.join("..data_tmp")).expect("a link");
        fs::rename(self.0.join("..data_tmp"), self.0.join("..data")).expect("renamed");
    }
}

/// As anybody else does it: one file after the other, in place.
fn write(folder: &Path, (certificate, key): &(String, String)) {
    fs::write(folder.join("tls.crt"), certificate).expect("written");
    fs::write(folder.join("tls.key"), key).expect("written");
}

/// A manager that serves the webhooks from `folder`, and both versions of one kind that ask it.
async fn manager(stage: &Stage, endpoint: &Endpoint, folder: &Folder) -> Running {
    let log = fs::File::create(stage.manager_log()).expect("a log");
    let mut command = stage.manager(&[
        "--health-probe-bind-address=0",
        "--watch-namespace=none",
        "--enable-webhooks=true",
        &format!("--webhook-port={}", endpoint.address.port()),
        &format!("--webhook-cert-path={}", folder.0.display()),
    ]);
    let manager = Running(command.stderr(log).spawn().expect("the manager starts"));
    let mut crd = serde_json::to_value(crd::both_versions(MEMCACHED)).expect("JSON");
    crd["spec"]["conversion"] = endpoint.conversion();
    let target = format!("{}?fieldManager=installer", crd_path(MEMCACHED));
    stage.apply(&target, &crd).await.expect("applied");
    let seed = collection(MEMCACHED, &MEMCACHED.seed, "default");
    stage.until(&seed, "served", |_| true).await;
    manager
}

/// What is called over and over, and how often it was.
struct Load {
    stage: Stage,
    endpoint: Endpoint,
    connector: TlsConnector,
}

impl Load {
    /// Through the API server: a write that the webhook checks, and a read that it converts.
    async fn by_the_api_server(&self, end: Instant) -> usize {
        let sample = sample::sample(&MEMCACHED.hub).expect("a sample");
        let hub = collection(MEMCACHED, &MEMCACHED.hub, "default");
        let (target, mut calls) = (format!("{hub}?dryRun=All"), 0);
        while Instant::now() < end {
            let created = self.stage.create(&target, &sample).await;
            created.expect("checked");
            let read = self
                .stage
                .get(&path(MEMCACHED, &MEMCACHED.seed, "default", "m"))
                .await;
            assert_eq!(read.expect("converted")["spec"], json!({"size": 1}));
            calls += 2;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        calls
    }

    /// Each on a connection of its own; also which certificates were shown.
    async fn by_newcomers(&self, end: Instant) -> (usize, BTreeSet<Vec<u8>>) {
        let (mut calls, mut shown) = (0, BTreeSet::new());
        while Instant::now() < end {
            shown.insert(self.call().await.expect("a call"));
            calls += 1;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        (calls, shown)
    }

    /// One conversion; returns the certificate that was shown.
    async fn call(&self) -> std::io::Result<Vec<u8>> {
        let object = object(MEMCACHED, &MEMCACHED.hub, "m", json!({"replicas": 1}));
        let review = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": {
                "uid": "u", "objects": [object],
                "desiredAPIVersion": MEMCACHED.api_version(&MEMCACHED.seed),
            },
        })
        .to_string();
        let name = ServerName::from(self.endpoint.address.ip());
        let stream = TcpStream::connect(self.endpoint.address).await?;
        let mut stream = self.connector.connect(name, stream).await?;
        let (_, session) = stream.get_ref();
        let shown = session.peer_certificates().expect("a certificate")[0].to_vec();
        let head = format!(
            "POST /convert HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n\
             connection: close\r\ncontent-length: {}\r\n\r\n",
            review.len()
        );
        stream
            .write_all(format!("{head}{review}").as_bytes())
            .await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        let review: Value = serde_json::from_str(body).expect("JSON");
        let converted = &review["response"]["convertedObjects"][0];
        assert_eq!(converted["spec"], json!({"size": 1}), "{review}");
        Ok(shown)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_call_fails_while_the_certificate_is_replaced_every_second_for_a_minute() {
    let mut stage = Stage::with_api_server().await;
    let authority = Authority::new();
    let folder = Folder::create(stage.cluster.dir().join("certificate"), &authority.pair());
    stage.webhooks.go_away().await;
    let endpoint = Endpoint {
        address: ([127, 0, 0, 1], devcluster::free_port().expect("a port")).into(),
        authority: authority.pem.clone(),
    };
    let _manager = manager(&stage, &endpoint, &folder).await;
    stage.register_validation(&endpoint.validation()).await;
    let object = object(MEMCACHED, &MEMCACHED.hub, "m", json!({"replicas": 1}));
    let hub = collection(MEMCACHED, &MEMCACHED.hub, "default");
    stage.until_created(&hub, &object).await;

    let load = Arc::new(Load {
        connector: authority.trusting(),
        endpoint,
        stage,
    });
    let (began, end) = (Instant::now(), Instant::now() + LOAD);
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let load = Arc::clone(&load);
        tasks.push(tokio::spawn(async move { load.by_newcomers(end).await }));
    }
    let by_api_server = tokio::spawn({
        let load = Arc::clone(&load);
        async move { load.by_the_api_server(end).await }
    });
    let mut swaps = 0;
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_secs(1)).await;
        swaps += 1;
        match swaps % 2 {
            0 => folder.swap(swaps, &authority.pair()),
            _ => write(&folder.0, &authority.pair()),
        }
    }
    let by_api_server = by_api_server.await.expect("no call failed");
    let (mut by_newcomers, mut shown) = (0, BTreeSet::new());
    for task in tasks {
        let (calls, certificates) = task.await.expect("no call failed");
        by_newcomers += calls;
        shown.extend(certificates);
    }
    println!(
        "{swaps} swaps in {:?}: {} certificates shown in {by_newcomers} handshakes, and \
         {by_api_server} calls by the API server",
        began.elapsed(),
        shown.len()
    );
    assert!(shown.len() >= CERTIFICATES_SHOWN, "{}", shown.len());
    assert!(began.elapsed() < DEADLINE);
}
