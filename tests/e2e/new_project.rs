//! The project of docs/new-project.md, installed by OLM: a Redis with files and volumes, with running
//! containers.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::node::Node;
use crate::shell::Shell;
use crate::uninstall;

const TIMEOUT: Duration = Duration::from_secs(5);
const READY: &str = "kubectl wait redis/redis-sample --for=condition=Ready --timeout=120s";
const PODS: &str = "kubectl get pods -l app.kubernetes.io/name=redis --sort-by=.metadata.name -o";
const CHANGE: &str = "kubectl patch redises.v1.cache.example.com redis-sample --type=merge -p";
const VOLUMES: [&str; 2] = ["redis-0", "redis-1"];

/// Stored data is kept over changed settings, another image, and a deleted and recreated Redis of
/// the same name.
pub(crate) fn redis_keeps_its_data(node: &Node) {
    let shell = &node.shell;
    node.olm();
    let folder = shell.must("realpath ${CARGO_TARGET_DIR:-target}/new-project");
    let folder = folder.trim();
    let project = format!("cd {folder}/redis-operator && export CARGO_TARGET_DIR={folder}/target");
    shell.must(&format!("{project} && make docker-build docker-push"));
    shell.must(&format!(
        "{project} && make bundle bundle-build bundle-push"
    ));
    shell.must("kubectl create namespace redis-operator-system");
    let tools = Node::tools();
    shell.must(&format!(
        "{tools} operator-sdk run bundle example.com/redis-operator-bundle:v0.1.0 -n redis-operator-system --timeout 5m"
    ));
    let pods = format!("{PODS} name | wc -l");
    let gone = || shell.until(&pods, "0", Duration::from_secs(90));
    volumes(shell, &format!("{folder}/volumes"));
    // OLM goes on writing the authority of the webhooks for a moment.
    let sample = format!("{folder}/redis-operator/config/samples/cache_v1alpha1_redis.yaml");
    shell.until(
        &format!("kubectl apply -f {sample} -o name | wc -l"),
        "1",
        Duration::from_secs(60),
    );
    shell.must(READY);
    let addresses = addresses(shell);
    for (number, address) in addresses.iter().enumerate() {
        assert_eq!(ask(address, &format!("SET number {number}")), "+OK");
    }
    let actual = ask(&addresses[0], "CONFIG GET maxmemory");
    assert_eq!(actual, (64 << 20).to_string());

    // A change of the files rolls the pods.
    let before = shell.must(&format!("{PODS} jsonpath='{{.items[*].metadata.uid}}'"));
    shell.must(&format!("{CHANGE} '{{\"spec\":{{\"memory\":96}}}}'"));
    let addresses = rolled(shell, &before);
    let actual = ask(&addresses[0], "CONFIG GET maxmemory");
    assert_eq!(actual, (96 << 20).to_string());
    assert_data_is_kept(&addresses);

    let before = shell.must(&format!("{PODS} jsonpath='{{.items[*].metadata.uid}}'"));
    shell.must(&format!(
        "{CHANGE} '{{\"spec\":{{\"image\":\"docker.io/library/redis:8.2-alpine\"}}}}'"
    ));
    assert_data_is_kept(&rolled(shell, &before));

    let refusal = shell.must_fail(&format!("{CHANGE} '{{\"spec\":{{\"storage\":\"2Gi\"}}}}'"));
    assert!(refusal.contains("spec.storage: Invalid value"), "{refusal}");

    shell.must("kubectl delete redis redis-sample --timeout=60s");
    gone();
    let config_map = "kubectl get configmap redis-sample-config --ignore-not-found -o name | wc -l";
    shell.until(config_map, "0", Duration::from_secs(60));
    shell.must(&format!("kubectl apply -f {sample}"));
    shell.must(READY);
    assert_data_is_kept(&self::addresses(shell));

    shell.must("kubectl delete redis redis-sample --timeout=60s");
    gone();
    shell.must("kubectl delete pvc data-redis-sample-0 data-redis-sample-1 --timeout=60s");
    shell.must("kubectl delete persistentvolume redis-0 redis-1 --timeout=60s");
    for command in uninstall::commands(uninstall::BUNDLE) {
        shell.must(&format!("{tools} {}", command.replace("quartet", "redis")));
    }
}

/// Creates two empty folders of the node, below `folder`, as volumes.
fn volumes(shell: &Shell, folder: &str) {
    shell.must(&format!("rm -rf {folder} && mkdir {folder}"));
    for name in VOLUMES {
        // The kubelet does not change the group of hostPath volumes to that of the pod.
        shell.must(&format!("mkdir -m 777 {folder}/{name}"));
        let volume = format!(
            r#"{{"apiVersion":"v1","kind":"PersistentVolume","metadata":{{"name":"{name}"}},"spec":{{"capacity":{{"storage":"1Gi"}},"accessModes":["ReadWriteOnce"],"hostPath":{{"path":"{folder}/{name}"}}}}}}"#
        );
        shell.must(&format!("kubectl apply -f - <<<'{volume}'"));
    }
}

/// Returns the addresses of the two pods, ordered by name.
fn addresses(shell: &Shell) -> Vec<String> {
    let addresses = shell.must(&format!("{PODS} jsonpath='{{.items[*].status.podIP}}'"));
    let addresses: Vec<String> = addresses.split_whitespace().map(str::to_owned).collect();
    assert_eq!(addresses.len(), VOLUMES.len(), "{addresses:?}");
    addresses
}

/// Returns the same once none of the pods in `before` exists and Redis is Ready.
fn rolled(shell: &Shell, before: &str) -> Vec<String> {
    let left = before.split_whitespace().collect::<Vec<_>>().join("|");
    shell.until(
        &format!(
            "uids=$({PODS} jsonpath='{{.items[*].metadata.uid}}') && \
             ! grep -qE '{left}' <<<\"$uids\" && echo rolled"
        ),
        "rolled",
        Duration::from_secs(120),
    );
    shell.must(READY);
    addresses(shell)
}

fn assert_data_is_kept(addresses: &[String]) {
    for (number, address) in addresses.iter().enumerate() {
        assert_eq!(ask(address, "GET number"), number.to_string(), "{address}");
    }
}

/// Returns the last line of Redis's reply: the value, or `+OK`.
fn ask(address: &str, command: &str) -> String {
    let mut stream = TcpStream::connect((address, 6379)).expect("Redis listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    // QUIT closes the connection after the reply.
    write!(stream, "{command}\r\nQUIT\r\n").expect("written");
    let lines: Vec<String> = BufReader::new(stream)
        .lines()
        .map(|line| line.expect("a response"))
        .collect();
    let [answers @ .., quit] = lines.as_slice() else {
        panic!("{address}: no answer to {command}");
    };
    assert_eq!(quit, "+OK", "{lines:?}");
    answers.last().expect("a response").clone()
}
