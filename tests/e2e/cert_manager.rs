//! Certificates of the real cert-manager controllers: issued, renewed every minute, expired.

use std::thread;
use std::time::{Duration, Instant};

use crate::calls::Calls;
use crate::node::{NAMESPACE, NEXT, Node};
use crate::operands;
use crate::plain::{self, MANAGER};
use crate::shell::Shell;
use crate::uninstall::{self, Before};

const AUTHORITY: &str = "quartet-operator-ca";
const SERVING: &str = "quartet-operator-serving-cert";

/// The time from a change of a Secret to the files in pods: the kubelet's sync period, up to a
/// minute, and its cache's expiry.
const PROPAGATION: Duration = Duration::from_secs(180);

/// `config/certmanager`.
pub(crate) fn issues_renews_and_recovers(node: &Node) {
    let shell = &node.shell;
    node.cert_manager();
    let installed = Before::installation(shell);
    install(shell);
    uninstall::by_row(shell, uninstall::CERT_MANAGER);
    installed.nothing_left(shell);

    install(shell);
    operands::samples(shell);
    operands::answer(shell);
    operands::rejected_and_converted(shell);
    metrics_are_verified(shell);

    let before = operands::State::of(shell);
    authority_renewed(node);
    renewed_every_minute(node);
    expired(shell);
    before.assert_unchanged(shell);

    operands::clean(shell);
    shell.must(&format!(
        "make deploy OVERLAY=config/certmanager VERSION={NEXT}"
    ));
    plain::rolled_out(shell);
    uninstall::by_row(shell, uninstall::CERT_MANAGER);
    installed.nothing_left(shell);
}

fn install(shell: &Shell) {
    shell.must("kubectl apply --server-side -k config/certmanager");
    plain::rolled_out(shell);
    trusted(shell);
}

/// Waits until calls that need the webhooks succeed.
pub(crate) fn trusted(shell: &Shell) {
    shell.until(
        "kubectl apply --dry-run=server -o name -f config/samples/cache_v1alpha1_memcached.yaml | wc -l",
        "1",
        Duration::from_secs(60),
    );
}

/// A client that trusts only the authority in the metrics Secret connects, and is asked for
/// credentials.
fn metrics_are_verified(shell: &Shell) {
    let service = "quartet-operator-controller-manager-metrics-service";
    let host = format!("{service}.{NAMESPACE}.svc");
    let status = shell.must(&format!(
        "address=$(kubectl -n {NAMESPACE} get service {service} -o jsonpath='{{.spec.clusterIP}}') && \
         kubectl -n {NAMESPACE} get secret metrics-server-cert -o jsonpath='{{.data.ca\\.crt}}' | \
         base64 -d | curl --silent --max-time 10 --cacert /dev/stdin --resolve {host}:8443:$address \
             --output /dev/null --write-out '%{{http_code}}' https://{host}:8443/metrics"
    ));
    assert_eq!(status, "401");
}

/// The shortest duration that cert-manager accepts: an hour, renewed after a minute. No call fails,
/// and the pods serve the renewed certificate.
fn renewed_every_minute(node: &Node) {
    let shell = &node.shell;
    let calls = Calls::start(&node.cluster.kubeconfig());
    let served = fingerprint(shell);
    issue(shell, SERVING, "1h", "59m");
    let next = revision(shell, SERVING) + 4;
    reaches(shell, SERVING, next, Duration::from_secs(360));
    let later = fingerprint(shell);
    assert_ne!(served, later, "pods serve another certificate");
    issue(shell, SERVING, "2160h", "720h");
    thread::sleep(PROPAGATION / 2);
    none_failed(calls);
    assert_ne!(fingerprint(shell), later, "and another one");
}

/// A new certificate of the authority, then one that it signs: the certificates that pods still
/// serve are trusted until they are replaced.
fn authority_renewed(node: &Node) {
    let shell = &node.shell;
    let calls = Calls::start(&node.cluster.kubeconfig());
    let bundle = "kubectl get crd memcacheds.cache.example.com -o jsonpath='{.spec.conversion.webhook.clientConfig.caBundle}'";
    let before = shell.must(bundle);
    for (certificate, duration) in [(AUTHORITY, "87000h"), (SERVING, "2000h")] {
        issue(shell, certificate, duration, "720h");
    }
    shell.until(
        &format!(
            "now=$({bundle}) && [ -n \"$now\" ] && [ \"$now\" != '{before}' ] && echo another"
        ),
        "another",
        Duration::from_secs(60),
    );
    thread::sleep(PROPAGATION / 2);
    none_failed(calls);
}

/// cert-manager is stopped until the certificate has expired: calls on new connections fail closed,
/// and new pods are not ready, while operands keep running. After cert-manager has started again,
/// everything recovers without intervention.
fn expired(shell: &Shell) {
    let served = fingerprint(shell);
    issue(shell, SERVING, "150s", "10s");
    scale(shell, 0);
    let began = Instant::now();
    while fingerprint(shell) == served {
        assert!(
            began.elapsed() < PROPAGATION,
            "the short-lived certificate is not served"
        );
        thread::sleep(Duration::from_secs(2));
    }
    let address = pod_address(shell);
    let is_over = format!(
        "served=$(openssl s_client -connect {address}:9443 </dev/null 2>/dev/null | openssl x509) && \
         {{ openssl x509 -noout -checkend 0 <<<\"$served\" >/dev/null && echo valid || echo expired; }}"
    );
    shell.until(&is_over, "expired", Duration::from_secs(260));
    // A connection that the API server keeps open still works; with other pods it needs new ones.
    let write = "kubectl scale memcached memcached-sample --replicas=2 --dry-run=server";
    shell.must(&format!(
        "kubectl -n {NAMESPACE} delete pods -l control-plane=controller-manager --wait=false"
    ));
    shell.until(
        &format!("said=$({write} 2>&1) || grep -c 'failed calling webhook' <<<\"$said\""),
        "1",
        Duration::from_secs(60),
    );
    shell.show(write);
    operands::answer(shell);
    shell.must("kubectl get memcacheds.v1.cache.example.com memcached-sample");

    scale(shell, 1);
    shell.until(&format!("{write} -o name | wc -l"), "1", PROPAGATION);
    shell.must(&format!(
        "kubectl -n {NAMESPACE} rollout status {MANAGER} --timeout=180s"
    ));
}

fn scale(shell: &Shell, replicas: u32) {
    shell.must(&format!(
        "kubectl -n cert-manager scale deployment/cert-manager --replicas={replicas} && \
         kubectl -n cert-manager rollout status deployment/cert-manager --timeout=60s"
    ));
}

/// Changes the duration of a certificate and the time of its renewal, and issues it as `cmctl
/// renew` does; a change of these fields alone only takes effect at the next renewal.
fn issue(shell: &Shell, certificate: &str, duration: &str, renew_before: &str) {
    let patch = format!("kubectl -n {NAMESPACE} patch certificate {certificate}");
    shell.must(&format!(
        "{patch} --type=merge -p '{{\"spec\":{{\"duration\":\"{duration}\",\"renewBefore\":\"{renew_before}\"}}}}'"
    ));
    let began = Instant::now();
    loop {
        let next = revision(shell, certificate) + 1;
        let said = shell.run(&format!(
            "{patch} --subresource=status --type=json -p '[{{\"op\":\"add\",\"path\":\"/status/conditions/-\",\"value\":\
             {{\"type\":\"Issuing\",\"status\":\"True\",\"reason\":\"ManuallyTriggered\",\"message\":\"\"}}}}]'"
        ));
        if said.is_success {
            return reaches(shell, certificate, next, Duration::from_secs(60));
        }
        // An issuance is in progress at this moment.
        let is_issuing = said.errors.contains("Duplicate value");
        assert!(
            is_issuing && began.elapsed() < Duration::from_secs(30),
            "{}",
            said.errors
        );
        thread::sleep(Duration::from_secs(1));
    }
}

/// Waits until a certificate has been issued this many times.
fn reaches(shell: &Shell, certificate: &str, wanted: u32, limit: Duration) {
    shell.until(
        &format!(
            "[ $(kubectl -n {NAMESPACE} get certificate {certificate} -o jsonpath='{{.status.revision}}') -ge {wanted} ] && \
             echo issued"
        ),
        "issued",
        limit,
    );
}

fn revision(shell: &Shell, certificate: &str) -> u32 {
    shell
        .must(&format!(
            "kubectl -n {NAMESPACE} get certificate {certificate} -o jsonpath='{{.status.revision}}'"
        ))
        .parse()
        .expect("a number")
}

/// Returns the fingerprint of the certificate that one of the pods serves.
fn fingerprint(shell: &Shell) -> String {
    let address = pod_address(shell);
    shell.must(&format!(
        "openssl s_client -connect {address}:9443 </dev/null 2>/dev/null | \
         openssl x509 -noout -fingerprint -sha256"
    ))
}

fn pod_address(shell: &Shell) -> String {
    shell.must(&format!(
        "kubectl -n {NAMESPACE} get pods -l control-plane=controller-manager \
         -o jsonpath='{{.items[0].status.podIP}}'"
    ))
}

fn none_failed(calls: Calls) {
    for (sort, tally) in calls.stop() {
        assert_eq!(tally.failed, 0, "{sort:?}");
    }
}
