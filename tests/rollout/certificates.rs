//! An authority, its certificates, and the two ways to replace their files: all at once, as the
//! kubelet does, and by overwriting them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use quartet_operator::names::{NAMESPACE, WEBHOOK_SERVICE};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Issues certificates for the Service of the webhooks.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
pub(crate) struct Pair {
    certificate: String,
    key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let issuer = CertifiedIssuer::self_signed(params, key).unwrap();
        Self { issuer }
    }

    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    pub(crate) fn issue(&self) -> Pair {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![host()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Pair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }

    /// Returns the certificate that the server shows to a client that trusts only this authority.
    pub(crate) async fn shown_at(&self, port: u16) -> Vec<u8> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let name = ServerName::try_from(host()).unwrap();
        let stream = TlsConnector::from(Arc::new(client))
            .connect(name, stream)
            .await;
        let stream = stream.expect("a handshake");
        stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    }
}

fn host() -> String {
    format!("{WEBHOOK_SERVICE}.{NAMESPACE}.svc")
}

/// A folder with `tls.crt` and `tls.key`; removed when dropped.
pub(crate) struct Folder {
    path: PathBuf,
    generation: u32,
}

impl Folder {
    pub(crate) fn new(pair: &Pair) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("rollout-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        let mut folder = Self {
            path,
            generation: 0,
        };
        folder.swap(pair);
        for file in ["tls.crt", "tls.key"] {
            symlink(Path::new("..data").join(file), folder.path.join(file)).unwrap();
        }
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the files as the kubelet does: a new folder, and one rename of the link `..data` to
    /// it.
    pub(crate) fn swap(&mut self, pair: &Pair) {
        let name = |generation| format!("..generation_{generation}");
        let old = self.path.join(name(self.generation));
        self.generation += 1;
        let new = self.path.join(name(self.generation));
        fs::create_dir(&new).unwrap();
        fs::write(new.join("tls.crt"), &pair.certificate).unwrap();
        fs::write(new.join("tls.key"), &pair.key).unwrap();
        let link = self.path.join("..data_tmp");
        symlink(name(self.generation), &link).unwrap();
        fs::rename(&link, self.path.join("..data")).unwrap();
        let _ = fs::remove_dir_all(old);
    }

    /// Overwrites the files with pauses in between; call it where blocking is allowed.
    #[allow(clippy::disallowed_methods)] // on a thread of its own
    pub(crate) fn overwrite(&self, pair: &Pair) {
        const PAUSE: Duration = Duration::from_millis(50);
        let certificate = &pair.certificate;
        let half = &certificate[..certificate.len() / 2];
        fs::write(self.path.join("tls.crt"), half).unwrap();
        thread::sleep(PAUSE);
        fs::write(self.path.join("tls.crt"), certificate).unwrap();
        thread::sleep(PAUSE);
        fs::write(self.path.join("tls.key"), &pair.key).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
