//! Credentials in files that are replaced. Outside the cluster, the token of a ServiceAccount is revoked, and then
//! a new one is written; in a pod, the authority of the API server.

use std::ffi::OsStr;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use faultproxy::{Entry, Proxy};
use kube::config::Kubeconfig;
use serde_json::json;

use crate::changes;
use crate::metrics::token;
use crate::rights::{allow_manager, kubeconfig_of};
use testkit::{DEADLINE, Kind, Limit, MEMCACHED, Manager, TestEnv, is_ready, kind};

const SECRET: Kind = kind("v1", "Secret", "secrets");

/// The file is read every minute; retries and a new process take the rest.
const READ_AGAIN: Duration = Duration::from_secs(150);

/// Returns a token that is valid as long as this Secret exists.
async fn bound_token(env: &TestEnv, secret: &str) -> String {
    let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret}});
    env.apply(&object).await.expect("applied");
    let bound = json!({"apiVersion": "v1", "kind": "Secret", "name": secret});
    token(env, "manager", json!({"boundObjectRef": bound})).await
}

/// Returns how often the manager's process ended, and was started again as a service manager does.
async fn revoked_and_replaced(name: &str, flags: &[&str]) -> usize {
    let mut env = TestEnv::without_manager(name).await;
    let namespace = format!("--leader-election-namespace={}", env.namespace);
    let flags = [flags, &[&namespace]].concat();
    allow_manager(&env).await;
    let file = std::env::temp_dir().join(format!("{}.token", env.namespace));
    fs::write(&file, bound_token(&env, "first").await).expect("written");
    let kubeconfig = kubeconfig_of(&env, json!({"tokenFile": file}));
    env.start_manager_as(&kubeconfig, &flags);
    changes::apply_ready(&env, MEMCACHED, "before", json!({"size": 1})).await;

    env.delete(SECRET, "first").await;
    let (mut limit, mut size) = (Limit::new(DEADLINE), 1);
    // The API server remembers for 10 s that a token was valid, and does not end watches.
    while !env.log().contains("Unauthorized") {
        limit.pause(|| format!("no 401: {}", env.log())).await;
        size = 3 - size;
        changes::apply(&env, MEMCACHED, "before", json!({"size": size})).await;
    }
    fs::write(&file, bound_token(&env, "second").await).expect("written");
    changes::apply(&env, MEMCACHED, "after", json!({"size": 1})).await;
    let (began, mut limit, mut ends) = (Instant::now(), Limit::new(READ_AGAIN), 0);
    loop {
        let after = env.get(MEMCACHED, "after").await;
        if after.is_some_and(|it| is_ready(&it)) {
            break;
        }
        if !env.manager().runs() {
            ends += 1;
            let log = env.log();
            let said = "leader election lost: the lease could not be renewed in time";
            assert!(
                env.manager().code() == Some(1) && log.contains(said),
                "{log}"
            );
            env.start_manager_as(&kubeconfig, &flags);
        }
        limit.pause(|| format!("not Ready: {}", env.log())).await;
    }
    println!("{name}: Ready after {:.0?}", began.elapsed());
    for file in [file, kubeconfig] {
        fs::remove_file(file).expect("removed");
    }
    ends
}

#[tokio::test]
async fn a_revoked_token_is_replaced_in_its_file_and_new_resources_become_ready() {
    let alone = revoked_and_replaced("token", &[]);
    let leader = revoked_and_replaced("token-of-leader", &["--leader-elect"]);
    let (alone, leader) = tokio::join!(alone, leader);
    // A leader ends unless it reads the file within the 10 s in which it must renew its Lease.
    assert!(alone == 0 && leader <= 1, "{alone}, {leader}");
}

/// The proxy is also the collector of the traces: it forwards them, and the answer is 404.
#[tokio::test]
async fn in_a_pod_a_new_authority_is_read_by_the_controllers_and_for_traces() {
    let env = TestEnv::without_manager("authority").await;
    let upstream = Kubeconfig::read_from(env.kubeconfig()).expect("a kubeconfig");
    let old = Proxy::start(upstream.clone()).await.expect("a proxy");
    let (address, server) = (old.address, format!("https://{}", old.address));
    let run = devcluster::StateFolder::create().expect("a folder");
    let account = run.path().join("secrets/kubernetes.io/serviceaccount");
    fs::create_dir_all(&account).expect("a folder");
    let write = |file, text: &str| fs::write(account.join(file), text).expect("written");
    write("ca.crt", &old.certificate);
    write("token", &token(&env, "manager", json!({})).await);
    write("namespace", &env.namespace);
    let in_a_pod = |program: &OsStr| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c"]);
        command.arg(r#"mount --bind "$0" /var/run && exec "$@""#);
        command.args([run.path().as_os_str(), program]);
        command
    };
    let tried = in_a_pod("true".as_ref()).status();
    if !tried.is_ok_and(|status| status.success()) {
        println!("not tested: mounts are not permitted here");
        return;
    }
    let flags = [format!("--watch-namespace={}", env.namespace)];
    let manager = Manager::command(env.kubeconfig(), &flags, &[]);
    let mut command = in_a_pod(manager.get_program());
    command
        .args(manager.get_args())
        .env("ENABLE_WEBHOOKS", "false")
        .env_remove("KUBECONFIG")
        .env("KUBERNETES_SERVICE_HOST", address.ip().to_string())
        .env("KUBERNETES_SERVICE_PORT", address.port().to_string())
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", server)
        .env("OTEL_EXPORTER_OTLP_CERTIFICATE", account.join("ca.crt"));
    let mut manager = Manager::spawn(command);
    changes::apply_ready(&env, MEMCACHED, "before", json!({"size": 1})).await;

    drop(old);
    // The port is free when the task of the proxy has ended.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let new = Proxy::start_at(address, upstream).await.expect("a proxy");
    changes::apply(&env, MEMCACHED, "after", json!({"size": 1})).await;
    let why = manager.logged(&["the watch failed", "invalid peer certificate"]);
    why.await;
    write("ca.crt", &new.certificate);
    let (began, mut limit) = (Instant::now(), Limit::new(READ_AGAIN));
    let is_of_traces = |it: Entry| it.target.resource == "/v1/traces";
    while !is_ready(&env.get(MEMCACHED, "after").await.expect("it exists"))
        || !new.journal().into_iter().any(is_of_traces)
    {
        limit.pause(|| manager.log()).await;
    }
    println!("Ready and traced after {:.0?}", began.elapsed());
    assert!(manager.runs(), "{}", manager.log());
}
