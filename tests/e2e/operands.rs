//! What users of the operands see: responses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::load::Load;
use crate::shell::Shell;

const TIMEOUT: Duration = Duration::from_secs(5);
const READY: &str = "--for=condition=Ready --timeout=120s";

/// Creates the samples of both versions of every kind and waits until they are Ready.
pub(crate) fn samples(shell: &Shell) {
    shell.must("ls config/samples/*_*_*.yaml | xargs -n 1 kubectl apply -f");
    ready(shell);
}

/// The same right after an installation by OLM, which rewrites the caBundles of the CRDs for about
/// ten seconds after Succeeded: until then calls in the version that is not stored may fail closed.
/// The duration is printed.
pub(crate) fn samples_under_olm(shell: &Shell) {
    for sample in shell.must("ls config/samples/*_*_*.yaml").lines() {
        shell.until(
            &format!("kubectl apply -f {sample} -o name | wc -l"),
            "1",
            Duration::from_secs(60),
        );
    }
    ready(shell);
}

fn ready(shell: &Shell) {
    for kind in ["memcached", "nginx", "elasticweb", "helloworld"] {
        shell.must(&format!("kubectl wait {kind} --all {READY}"));
    }
}

/// Stores and reads a value through every pod of a Memcached, and requests the page of every web.
pub(crate) fn answer(shell: &Shell) {
    answer_of(shell, 3);
}

/// The same after memcached-sample was scaled to 4.
pub(crate) fn answer_after_scaling(shell: &Shell) {
    answer_of(shell, 4);
}

fn answer_of(shell: &Shell, memcached_pods: usize) {
    let pods = shell.must(
        "kubectl get memcached memcached-sample -o jsonpath='{.status.selector}' | \
         xargs -I{} kubectl get pods -l {} -o jsonpath='{.items[*].status.podIP}'",
    );
    let pods: Vec<&str> = pods.split_whitespace().collect();
    assert_eq!(
        pods.len(),
        memcached_pods,
        "the pods of memcached-sample: {pods:?}"
    );
    for pod in pods {
        store_and_read(pod);
    }
    for port in [30003, 30004] {
        page_soon("10.250.0.1", port);
    }
    for name in ["nginx-v1-sample", "helloworld-v1-sample"] {
        let address = shell.must(&format!(
            "kubectl get service {name} -o jsonpath='{{.spec.clusterIP}}'"
        ));
        page_soon(address.trim(), 80);
    }
}

/// Scales under load: the only failures are connections to pods that terminate, and their requests
/// succeed on the next connection.
pub(crate) fn scaled_under_load(shell: &Shell) {
    for (kind, name, from) in [
        ("nginx", "nginx-v1-sample", 3),
        ("helloworld", "helloworld-v1-sample", 2),
    ] {
        let address = shell.must(&format!(
            "kubectl get service {name} -o jsonpath='{{.spec.clusterIP}}:{{.spec.ports[0].port}}'"
        ));
        let load = Load::start(address.trim().parse().expect("an address"));
        for replicas in [6, 2, 5, 1, from] {
            shell.must(&format!(
                "kubectl scale {kind} {name} --replicas={replicas}"
            ));
            let ready = format!(
                "kubectl get {kind} {name} -o jsonpath='{{.status.readyReplicas}} {{.status.replicas}}'"
            );
            shell.until(
                &ready,
                &format!("{replicas} {replicas}"),
                Duration::from_secs(90),
            );
            // Pods that were scaled down are gone, too.
            shell.until(
                &format!(
                    "kubectl get pods --no-headers -l $(kubectl get {kind} {name} -o jsonpath='{{.status.selector}}') | wc -l"
                ),
                &replicas.to_string(),
                Duration::from_secs(90),
            );
        }
        let requests = load.stop();
        let bites = requests.answered > 1000 && requests.cut > 0;
        assert!(bites, "{requests:?}: the tested situation occurred");
        assert!(requests.lost.is_empty(), "{requests:?}");
    }
}

/// What every way of installing must reject and convert.
pub(crate) fn rejected_and_converted(shell: &Shell) {
    let negative = |version: &str, field: &str| {
        format!(
            "kubectl apply -f - <<<'{{\"apiVersion\":\"cache.example.com/{version}\",\
             \"kind\":\"Memcached\",\"metadata\":{{\"name\":\"negative\"}},\
             \"spec\":{{\"{field}\":-1}}}}'"
        )
    };
    for (version, field) in [("v1alpha1", "size"), ("v1", "replicas")] {
        let refusal = shell.must_fail(&negative(version, field));
        assert!(
            refusal.contains(&format!("spec.{field}: Invalid value: -1")),
            "{refusal}"
        );
    }
    // Only the webhook knows this limit.
    let refusal = shell.must_fail("kubectl scale memcached memcached-sample --replicas=5000");
    assert!(refusal.contains("less than or equal to 1000"), "{refusal}");
    shell.must("kubectl patch memcacheds.v1.cache.example.com memcached-sample --type=merge -p '{\"spec\":{\"memory\":96}}'");
    shell.must("kubectl patch memcacheds.v1alpha1.cache.example.com memcached-sample --type=merge -p '{\"spec\":{\"size\":3}}'");
    let kept = shell.must(
        "kubectl get memcacheds.v1.cache.example.com memcached-sample -o jsonpath='{.spec.memory} {.spec.replicas}'",
    );
    let found = kept.trim();
    assert_eq!(
        found, "96 3",
        "fields that the original version lacks are kept"
    );
    shell.must(&format!("kubectl wait memcached --all {READY}"));
}

/// Every resource can be read in both versions, and changes reach the webhooks, once the caBundles
/// have settled.
pub(crate) fn both_versions_answer(shell: &Shell) {
    for version in ["v1alpha1", "v1"] {
        shell.until(
            &format!(
                "kubectl label memcacheds.{version}.cache.example.com memcached-sample \
                 --overwrite asked=in-{version} -o name | wc -l"
            ),
            "1",
            Duration::from_secs(60),
        );
    }
}

/// Returns the pods of all samples that are to stay, with name and number of restarts, for a later
/// comparison.
pub(crate) fn pods(shell: &Shell) -> String {
    shell.must(
        "kubectl get pods -n default --sort-by=.metadata.name -o go-template='{{range .items}}\
         {{if not .metadata.deletionTimestamp}}{{.metadata.name}} \
         {{(index .status.containerStatuses 0).restartCount}}{{\"\\n\"}}{{end}}{{end}}'",
    )
}

/// What an upgrade must not change.
pub(crate) struct State {
    pods: String,
    specs: String,
}

impl State {
    pub(crate) fn of(shell: &Shell) -> Self {
        Self {
            pods: pods(shell),
            specs: shell.must("kubectl get quartet -n default -o jsonpath='{range .items[*]}{.metadata.name} {.spec}{\"\\n\"}{end}'"),
        }
    }

    /// Asserts that no field is lost, no pod of an operand was restarted, and all respond.
    #[track_caller]
    pub(crate) fn assert_unchanged(&self, shell: &Shell) {
        let now = Self::of(shell);
        assert_eq!(now.specs, self.specs, "no field is lost");
        assert_eq!(now.pods, self.pods, "no pod of an operand was restarted");
        answer(shell);
    }
}

/// Deletes all samples and waits for their children.
pub(crate) fn clean(shell: &Shell) {
    shell.must("kubectl delete memcached,nginx,elasticweb,helloworld --all --timeout=60s");
    shell.until(
        "kubectl get pods,deployments -n default -o name | wc -l",
        "0",
        Duration::from_secs(90),
    );
}

/// Stores a value in a memcached and reads it.
pub(crate) fn store_and_read(pod: &str) {
    let mut stream = connect(pod, 11211, TIMEOUT).unwrap_or_else(|error| panic!("{error}"));
    write!(stream, "set key 0 60 5\r\nvalue\r\nget key\r\n").unwrap();
    let mut lines = BufReader::new(stream)
        .lines()
        .map(|line| line.expect("a response"));
    let answer: Vec<String> = lines.by_ref().take(4).collect();
    let expected = ["STORED", "VALUE key 0 5", "value", "END"];
    assert_eq!(answer, expected, "of {pod}");
}

/// Requests the page of a web until it succeeds: kube-proxy rejects connections until it knows the ready
/// pods, a moment after the resource is Ready.
#[track_caller]
fn page_soon(address: &str, port: u16) {
    let began = Instant::now();
    while let Err(error) = fetch(address, port, TIMEOUT) {
        assert!(began.elapsed() < TIMEOUT, "{error}");
        sleep(Duration::from_millis(100));
    }
}

/// Requests the page of a web, which must succeed.
#[track_caller]
pub(crate) fn page(address: &str, port: u16) {
    fetch(address, port, TIMEOUT).unwrap_or_else(|error| panic!("{error}"));
}

/// Requests the page of a web, with the timeout `limit` for each step.
///
/// # Errors
/// The error, or the unexpected response.
pub(crate) fn fetch(address: &str, port: u16, limit: Duration) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{address}:{port}: {error}");
    let mut stream = connect(address, port, limit)?;
    write!(stream, "GET / HTTP/1.0\r\nHost: {address}\r\n\r\n").map_err(told)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(told)?;
    if answer.starts_with("HTTP/1.1 200") && answer.contains("Welcome to nginx!") {
        Ok(())
    } else {
        Err(format!("{address}:{port}: {answer:?}"))
    }
}

fn connect(address: &str, port: u16, limit: Duration) -> Result<TcpStream, String> {
    let told = |error: std::io::Error| format!("{address}:{port}: {error}");
    let target = format!("{address}:{port}").parse().expect("an address");
    let stream = TcpStream::connect_timeout(&target, limit).map_err(told)?;
    stream.set_read_timeout(Some(limit)).map_err(told)?;
    Ok(stream)
}
