//! The manager as `config/certmanager` starts it, with the files that cert-manager writes into the
//! mounted Secrets (PKCS#8 keys, a chain, `ca.crt`). Webhooks and metrics are served with that
//! certificate under the names of the Certificates, and with the next one after a renewal.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use std::sync::Arc;
use std::time::Instant;

use devcluster::Environment;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use serde_json::Value;
use testkit::{DEADLINE, Limit, Manager};

use crate::rendered::{overlay, scratch};

pub(crate) type Issuer = CertifiedIssuer<'static, KeyPair>;

/// Returns the object of this kind for which `wanted` is true.
fn object<'a>(objects: &'a [Value], kind: &str, wanted: impl Fn(&Value) -> bool) -> &'a Value {
    let mut objects = objects.iter().filter(|it| it["kind"] == kind);
    objects
        .find(|it| wanted(it))
        .unwrap_or_else(|| panic!("no {kind}"))
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// A Secret as the kubelet mounts it.
struct Mount {
    folder: PathBuf,
    hosts: Vec<String>,
    generation: u32,
}

impl Mount {
    /// Returns the Secret of the volume that the container has at the path of `mount`.
    fn of(objects: &[Value], pod: &Value, mount: &Value) -> Self {
        let volumes = pod["volumes"].as_array().expect("volumes");
        let mut volumes = volumes.iter().filter(|it| it["name"] == mount["name"]);
        let secret = &volumes.next().expect("a volume")["secret"]["secretName"];
        let certificate = object(objects, "Certificate", |it| {
            it["spec"]["secretName"] == *secret
        });
        assert_eq!(certificate["spec"]["privateKey"]["encoding"], "PKCS8");
        let hosts = certificate["spec"]["dnsNames"].as_array().expect("names");
        let folder = scratch(&format!("mounted-{}", text(&mount["name"])));
        for file in ["ca.crt", "tls.crt", "tls.key"] {
            symlink(Path::new("..data").join(file), folder.join(file)).expect("a link");
        }
        Self {
            folder,
            hosts: hosts.iter().map(|host| text(host).to_owned()).collect(),
            generation: 0,
        }
    }

    /// Issues a certificate for its names and replaces all files at once, as the kubelet does.
    fn renew(&mut self, issuer: &Issuer) -> Vec<u8> {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(self.hosts.clone()).expect("names");
        let certificate = params.signed_by(&key, issuer).expect("signed");
        self.generation += 1;
        let data = self
            .folder
            .join(format!("..generation_{}", self.generation));
        fs::create_dir(&data).expect("a folder");
        let pem = key.serialize_pem();
        assert!(pem.starts_with("-----BEGIN PRIVATE KEY-----"), "PKCS#8");
        for (file, text) in [
            ("ca.crt", issuer.pem()),
            ("tls.crt", certificate.pem()),
            ("tls.key", pem),
        ] {
            fs::write(data.join(file), text).expect("written");
        }
        let link = self.folder.join("..data_tmp");
        symlink(data.file_name().expect("a name"), &link).expect("a link");
        fs::rename(&link, self.folder.join("..data")).expect("renamed");
        certificate.der().to_vec()
    }
}

/// Returns the certificate served at `port` to a client that trusts `issuer` and asks for `host`.
fn served(port: u16, host: &str, issuer: &Issuer) -> Option<Vec<u8>> {
    let mut roots = RootCertStore::empty();
    roots.add(issuer.der().clone()).expect("an authority");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).expect("a name");
    let mut connection = ClientConnection::new(Arc::new(config), name).expect("a connection");
    let mut socket = TcpStream::connect(("127.0.0.1", port)).ok()?;
    socket.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    while connection.is_handshaking() {
        connection.complete_io(&mut socket).ok()?;
    }
    let _ = socket.flush();
    Some(connection.peer_certificates()?.first()?.to_vec())
}

async fn until_served(port: u16, host: &str, issuer: &Issuer, wanted: &[u8]) {
    let (started, mut limit) = (Instant::now(), Limit::new(DEADLINE));
    while served(port, host, issuer).as_deref() != Some(wanted) {
        limit.pause(|| format!("{host} at {port}")).await;
    }
    println!("{host} after {:?}", started.elapsed());
}

pub(crate) fn authority() -> Issuer {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "quartet-operator-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    CertifiedIssuer::self_signed(params, key).expect("an authority")
}

#[tokio::test]
async fn mounted_certificates_of_cert_manager_are_served_and_so_are_renewed_ones() {
    let objects = overlay("certmanager");
    let deployment = object(&objects, "Deployment", |_| true);
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let issuer = authority();

    let ports = [(); 2].map(|()| devcluster::free_port().expect("a port"));
    let environment = Environment::from_variables().expect("a cluster for the tests");
    let mut manager = testkit::manager();
    manager
        .args(
            container["args"]
                .as_array()
                .expect("arguments")
                .iter()
                .map(text),
        )
        .args([
            "--leader-elect=false",
            "--health-probe-bind-address=127.0.0.1:0",
            &format!("--webhook-port={}", ports[0]),
            &format!("--metrics-bind-address=127.0.0.1:{}", ports[1]),
        ])
        .env("KUBECONFIG", &environment.kubeconfig)
        .env("WATCH_NAMESPACE", "nothing-is-here")
        .env("POD_NAMESPACE", "default");

    let mut mounts = Vec::new();
    for mount in container["volumeMounts"].as_array().expect("mounts") {
        let secret = Mount::of(&objects, pod, mount);
        let variables = container["env"].as_array().expect("variables");
        let named = variables
            .iter()
            .find(|it| it["value"] == mount["mountPath"]);
        // The folder of the webhooks' certificate is a default: `manager/tests.rs`.
        let (variable, port) = match named {
            Some(variable) => (text(&variable["name"]), ports[1]),
            None => ("WEBHOOK_CERT_PATH", ports[0]),
        };
        manager.env(variable, &secret.folder);
        mounts.push((secret, port));
    }
    assert_eq!(mounts.len(), 2);
    let first: Vec<_> = mounts.iter_mut().map(|(it, _)| it.renew(&issuer)).collect();
    let _manager = Manager::spawn(manager);
    for ((mount, port), wanted) in mounts.iter().zip(&first) {
        for host in &mount.hosts {
            until_served(*port, host, &issuer, wanted).await;
        }
    }
    let second: Vec<_> = mounts.iter_mut().map(|(it, _)| it.renew(&issuer)).collect();
    assert_ne!(first, second);
    for ((mount, port), wanted) in mounts.iter().zip(&second) {
        until_served(*port, &mount.hosts[0], &issuer, wanted).await;
    }
}
