//! Credentials in files that are replaced while the manager runs. The server is not an API server: it answers
//! `/version` to everybody.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::CertifiedKey;
use rustls::pki_types::PrivateKeyDer;
use testkit::{Limit, Manager};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;

use crate::process::Kubeconfig;

/// What kube and the manager promise, on an idle machine: every minute, and then the next attempt.
const READ_AGAIN: Duration = Duration::from_secs(150);

/// To every request, that for the version.
const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n\
    {\"major\":\"1\",\"minor\":\"34\",\"gitVersion\":\"v1.34.0\",\"gitCommit\":\"\",\"gitTreeState\":\"\",\
    \"buildDate\":\"\",\"goVersion\":\"\",\"compiler\":\"\",\"platform\":\"\"}";

fn issued() -> CertifiedKey<rcgen::KeyPair> {
    rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap()
}

/// Serves with this certificate. Returns the address and the last request.
async fn serve(issued: &CertifiedKey<rcgen::KeyPair>) -> (String, Arc<Mutex<String>>) {
    let key = PrivateKeyDer::try_from(issued.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![issued.cert.der().clone()], key);
    let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let last = Arc::new(Mutex::new(String::new()));
    let requests = Arc::clone(&last);
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let (acceptor, requests) = (acceptor.clone(), Arc::clone(&requests));
            tokio::spawn(async move {
                let mut connection = acceptor.accept(connection).await?;
                let mut request = vec![0; 4096];
                let bytes = connection.read(&mut request).await?;
                *requests.lock().unwrap() = String::from_utf8_lossy(&request[..bytes]).into_owned();
                connection.write_all(ANSWER.as_bytes()).await?;
                connection.shutdown().await
            });
        }
    });
    (address, last)
}

/// A manager whose kubeconfig has `user` and an authority, in files of these names beside it.
fn start(server: &str, user: &str, files: &[(&str, &str)]) -> (Kubeconfig, Manager) {
    let kubeconfig = Kubeconfig::for_server(&format!("https://{server}"));
    for (name, text) in files {
        std::fs::write(beside(&kubeconfig, name), text).unwrap();
    }
    let text = std::fs::read_to_string(&kubeconfig.file).unwrap();
    let text = text.replace("{server:", "{certificate-authority: ca.crt, server:");
    std::fs::write(&kubeconfig.file, text.replace("token: secret", user)).unwrap();
    let running = kubeconfig.start(&[], &[]);
    (kubeconfig, running)
}

fn beside(kubeconfig: &Kubeconfig, name: &str) -> PathBuf {
    Path::new(&kubeconfig.file).with_file_name(name)
}

#[tokio::test]
async fn an_authority_and_a_token_in_files_are_read_again() {
    let (old, new) = (issued().cert.pem(), issued());
    let (address, last) = serve(&new).await;
    let files = [("ca.crt", old.as_str()), ("token", "one")];
    let (kubeconfig, running) = start(&address, "tokenFile: token", &files);
    running
        .logged(&["cannot reach the API server", "invalid peer certificate"])
        .await;
    std::fs::write(beside(&kubeconfig, "ca.crt"), new.cert.pem()).unwrap();
    std::fs::write(beside(&kubeconfig, "token"), "two").unwrap();
    let mut limit = Limit::new(READ_AGAIN);
    while !last.lock().unwrap().contains("authorization: Bearer two") {
        limit.pause(|| running.log()).await;
    }
}

#[tokio::test]
async fn a_new_client_certificate_ends_the_process_with_a_clear_line() {
    let (old, new) = (issued(), issued().cert.pem());
    let (address, _) = serve(&old).await;
    let (pem, key) = (old.cert.pem(), old.signing_key.serialize_pem());
    let user = "client-certificate: tls.crt, client-key: tls.key";
    let files = [
        ("ca.crt", pem.as_str()),
        ("tls.crt", &pem),
        ("tls.key", &key),
    ];
    let (kubeconfig, mut running) = start(&address, user, &files);
    running.logged(&["API server reached"]).await;
    let certificate = beside(&kubeconfig, "tls.crt");
    std::fs::write(&certificate, new).unwrap();
    let mut limit = Limit::new(READ_AGAIN);
    while running.runs() {
        limit.pause(|| running.log()).await;
    }
    assert_eq!(running.code(), Some(1), "{}", running.log());
    let said = format!(
        "client certificate failed: {} has changed",
        certificate.display()
    );
    assert!(running.log().contains(&said), "{}", running.log());
}
