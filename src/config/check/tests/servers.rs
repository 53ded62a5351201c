//! The flags of the servers: their addresses, ports and certificates.

use super::*;

#[test]
fn webhooks_are_on_and_speak_tls_from_1_2_on_unless_told_otherwise() {
    let config = load(&[]).unwrap();
    assert_eq!(
        config.webhook_address.map(|address| address.port),
        Some(9443)
    );
    assert_eq!(config.tls_min_version, TlsVersion::Tls12);
    assert_eq!(
        load(&["--enable-webhooks=false"]).unwrap().webhook_address,
        None
    );
    let config = load(&["--tls-min-version=VersionTLS13", "--webhook-port=0"]).unwrap();
    assert_eq!(config.tls_min_version, TlsVersion::Tls13);
    assert!(
        rejection(&["--tls-min-version=VersionTLS11"]).contains("VersionTLS12 or VersionTLS13")
    );
    assert!(rejection(&["--webhook-port=65536"]).contains("--webhook-port"));
}

#[test]
fn metrics_are_for_those_who_may_read_them_unless_told_otherwise() {
    let security = |arguments: &[&str]| load(arguments).unwrap().metrics_security;
    assert_eq!(
        security(&["--metrics-bind-address=:8443"]),
        MetricsSecurity::SelfSigned
    );
    assert_eq!(
        security(&["--metrics-cert-path="]),
        MetricsSecurity::SelfSigned
    );
    assert_eq!(
        security(&["--metrics-secure=false"]),
        MetricsSecurity::Plain
    );
    let files = |certificate: &str, key: &str| {
        MetricsSecurity::Directory(Files {
            certificate: certificate.into(),
            key: key.into(),
        })
    };
    assert_eq!(
        security(&["--metrics-cert-path=/c"]),
        files("/c/tls.crt", "/c/tls.key")
    );
    let named = [
        "--metrics-cert-path=/c",
        "--metrics-cert-name=a",
        "--metrics-cert-key=b",
    ];
    assert_eq!(security(&named), files("/c/a", "/c/b"));
}

#[test]
fn certificates_are_looked_for_where_controller_runtime_looks() {
    let source = |arguments: &[&str]| load(arguments).unwrap().certificates;
    let at = |certificate: &str, key: &str| {
        CertificateSource::Directory(Files {
            certificate: certificate.into(),
            key: key.into(),
        })
    };
    let default = at(
        "/tmp/k8s-webhook-server/serving-certs/tls.crt",
        "/tmp/k8s-webhook-server/serving-certs/tls.key",
    );
    assert_eq!(source(&[]), default);
    assert_eq!(source(&["--webhook-cert-path="]), default);
    assert_eq!(
        source(&[
            "--webhook-cert-path=/certs",
            "--webhook-cert-name=a.pem",
            "--webhook-cert-key=b.pem"
        ]),
        at("/certs/a.pem", "/certs/b.pem")
    );
    assert_eq!(
        source(&["--cert-mode=self-managed"]),
        CertificateSource::SelfManaged
    );
}

#[test]
fn http_2_is_refused_with_the_reason_and_may_be_turned_off() {
    assert!(load(&["--enable-http2=false"]).is_ok());
    for on in ["--enable-http2", "--enable-http2=true"] {
        let said = rejection(&[on]);
        assert!(said.contains("HTTP/2 is not served"), "{said}");
    }
}
