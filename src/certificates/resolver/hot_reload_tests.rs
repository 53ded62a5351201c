//! Continuous handshakes over TCP while the certificate is swapped ten times a second. Each one
//! completes, with the old or the new certificate. Real time, real sockets.

use std::time::Duration;

use jiff::Timestamp;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::super::identity::Identity;
use super::super::identity::issue;
use super::*;

const LOAD: Duration = Duration::from_secs(3);
const BETWEEN_SWAPS: Duration = Duration::from_millis(100);
const CLIENTS: usize = 4;

/// A server that sends back the first byte of each connection.
async fn echo(listener: TcpListener, resolver: Arc<Resolver>) {
    let config =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(resolver);
    let acceptor = TlsAcceptor::from(Arc::new(config));
    while let Ok((stream, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            if let Ok(mut stream) = acceptor.accept(stream).await
                && let Ok(byte) = stream.read_u8().await
            {
                let _ = stream.write_u8(byte).await;
                let _ = stream.shutdown().await;
            }
        });
    }
}

fn client(identities: &[Identity]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    for identity in identities {
        for authority in super::super::pair::certificates(identity.texts[2].as_bytes()).unwrap() {
            roots.add(authority).unwrap();
        }
    }
    let mut config =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
    // Otherwise most handshakes would run without a swap.
    config.resumption = rustls::client::Resumption::disabled();
    TlsConnector::from(Arc::new(config))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_handshake_fails_while_the_certificate_is_swapped_ten_times_a_second() {
    let names = ["localhost".to_owned()];
    let identities: Vec<_> = (0..4)
        .map(|_| issue(&names, Timestamp::now()).unwrap())
        .collect();
    let resolver = Resolver::new(Metrics::default());
    resolver.install(identities[0].pair.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(echo(listener, Arc::clone(&resolver)));
    // A connection from before the first swap stays open.
    let connector = client(&identities);
    let name = || ServerName::try_from("localhost").unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let mut lasting = connector.connect(name(), stream).await.unwrap();

    let end = Instant::now() + LOAD;
    let load: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let connector = connector.clone();
            tokio::spawn(async move {
                let (mut handshakes, mut shown) = (0_u32, std::collections::BTreeSet::new());
                while Instant::now() < end {
                    let stream = TcpStream::connect(address).await.unwrap();
                    let mut stream = connector
                        .connect(name(), stream)
                        .await
                        .expect("a handshake");
                    let (_, session) = stream.get_ref();
                    shown.insert(session.peer_certificates().unwrap()[0].to_vec());
                    stream.write_u8(7).await.unwrap();
                    assert_eq!(stream.read_u8().await.unwrap(), 7);
                    handshakes += 1;
                }
                (handshakes, shown.len())
            })
        })
        .collect();
    let mut swaps = 0;
    while Instant::now() < end {
        sleep(BETWEEN_SWAPS).await;
        swaps += 1;
        resolver.install(identities[swaps % identities.len()].pair.clone());
    }
    let mut handshakes = 0;
    for client in load {
        let (made, shown) = client.await.unwrap();
        handshakes += made;
        assert_eq!(shown, identities.len(), "each certificate was shown");
    }
    println!("{handshakes} handshakes, {swaps} swaps");
    lasting.write_u8(9).await.unwrap();
    assert_eq!(lasting.read_u8().await.unwrap(), 9);
    server.abort();
}
