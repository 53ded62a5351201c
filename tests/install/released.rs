//! Helm on a cluster with simulated nodes: it takes over what `make deploy` made; then a release for one
//! team, and one for two, with a real manager that has exactly its permissions. `tests/e2e/helm.rs`
//! upgrades and rolls back.

use std::fs;

use devcluster::Environment;
use serde_json::{Value, json};
use testkit::{DEADLINE, Limit, Manager};

use crate::helm::{answer, helm, value_file};
use crate::rendered::{kubectl_in, repository, scratch};
use testkit::Private;

const NAMESPACE: &str = "quartet-operator-system";
const CRD: &str = "memcacheds.cache.example.com";
const WEBHOOKS: &str = "quartet-operator-validating-webhook-configuration";

struct Cluster {
    environment: Environment,
}

impl Cluster {
    #[track_caller]
    fn helm(&self, arguments: &[&str], values: &Value) -> String {
        self.try_helm(arguments, values)
            .unwrap_or_else(|failed| panic!("helm {arguments:?}: {failed}"))
    }

    fn try_helm(&self, arguments: &[&str], values: &Value) -> Result<String, String> {
        let mut helm = helm();
        helm.args(arguments)
            .envs(self.environment.variables())
            .args(["--namespace", NAMESPACE])
            .current_dir(repository());
        if !values.is_null() {
            helm.arg("--values").arg(value_file(values));
        }
        answer(&mut helm)
    }

    fn kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        kubectl_in(&self.environment, arguments, &[])
    }

    #[track_caller]
    fn must(&self, arguments: &[&str]) -> String {
        self.kubectl(arguments)
            .unwrap_or_else(|failed| panic!("kubectl {arguments:?}: {failed}"))
    }

    #[track_caller]
    fn get(&self, kind: &str, name: &str) -> Value {
        let arguments = ["get", kind, name, "-n", NAMESPACE, "-o", "json"];
        serde_json::from_str(&self.must(&arguments)).expect("JSON")
    }

    async fn until_applied(&self, object: &Value) {
        let mut limit = Limit::new(DEADLINE);
        // For a moment the API server still calls deleted webhooks and does not serve new CRDs.
        let apply = ["apply", "--server-side", "-f", "-"];
        let objects = std::slice::from_ref(object);
        while let Err(refused) = kubectl_in(&self.environment, &apply, objects) {
            limit.pause(|| refused).await;
        }
    }
}

fn memcached(namespace: &str) -> Value {
    json!({
        "apiVersion": "cache.example.com/v1", "kind": "Memcached",
        "metadata": {"name": "sessions", "namespace": namespace},
        "spec": {"replicas": 1},
    })
}

/// Helm takes over the objects of `make deploy` only if it is told to, and kubectl does not take over those
/// of Helm. The change in both directions keeps the CRDs.
pub(crate) fn take_over(environment: Environment) {
    let here = Cluster { environment };
    let uids = || {
        let manager = here.get("deployment", "quartet-operator-controller-manager");
        [manager, here.get("crd", CRD)].map(|it| it["metadata"]["uid"].clone())
    };
    let before = uids();
    let install = ["install", "quartet", "dist/chart"];
    let refused = here.try_helm(&install, &Value::Null);
    assert!(refused.is_err_and(|it| it.contains("invalid ownership metadata")));
    let anyway = ["--take-ownership", "--force-conflicts", "--wait"];
    here.helm(&[&install[..], &anyway].concat(), &Value::Null);
    assert_eq!(uids(), before);

    let refused = here.kubectl(&["apply", "--server-side", "-f", "dist/install.yaml"]);
    assert!(refused.is_err_and(|it| it.contains("conflict with \"helm\"")));
    here.helm(&["uninstall", "quartet", "--wait"], &Value::Null);
    assert_eq!(here.get("crd", CRD)["metadata"]["uid"], before[1]);
}

/// A release for a team, and then one for two teams, which adopts the CRDs: uninstalling keeps them and the
/// resources. Begins without CRDs.
pub(crate) async fn of_teams(private: &Private) {
    let here = Cluster {
        environment: private.cluster.environment(),
    };
    for team in ["team-a", "team-b", "team-c"] {
        here.must(&["create", "namespace", team]);
    }
    let install = ["install", "quartet", "dist/chart", "--create-namespace"];
    let ready = ["--force-conflicts", "--wait", "--timeout=300s"];
    for teams in [&["team-a"][..], &["team-a", "team-c"]] {
        let values = json!({"watchNamespaces": teams});
        here.helm(&[&install[..], &ready].concat(), &values);
        a_manager_of(teams, &here, private).await;
        here.helm(&["uninstall", "quartet", "--wait"], &Value::Null);
        here.must(&["get", CRD, "sessions", "-n", "team-a"]);
    }
}

/// Runs the manager as the release configures it, as its ServiceAccount: it reconciles its
/// namespaces and not that of team-b, and no request is forbidden. Webhooks and conversion are off,
/// because no node serves them here.
async fn a_manager_of(teams: &[&str], here: &Cluster, private: &Private) {
    here.must(&["delete", "validatingwebhookconfiguration", WEBHOOKS]);
    let unconverted =
        json!([{"op": "replace", "path": "/spec/conversion", "value": {"strategy": "None"}}]);
    let patch = ["patch", "crd", CRD, "--type=json", "-p"];
    here.must(&[&patch[..], &[&unconverted.to_string()]].concat());
    for team in teams.iter().chain(&["team-b"]) {
        here.until_applied(&memcached(team)).await;
    }
    let account = "quartet-operator-controller-manager";
    let token = here.must(&["create", "token", account, "-n", NAMESPACE]);
    let admin = fs::read_to_string(&here.environment.kubeconfig).expect("a kubeconfig");
    let mut kubeconfig: Value = serde_saphyr::from_str(&admin).expect("YAML");
    kubeconfig["users"][0]["user"] = json!({"token": token.trim()});
    let file = scratch("released-account").join("kubeconfig");
    fs::write(&file, kubeconfig.to_string()).expect("written");

    let deployment = here.get("deployment", account);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let mut manager = testkit::manager();
    for argument in container["args"].as_array().expect("arguments") {
        manager.arg(argument.as_str().expect("a text"));
    }
    for variable in container["env"].as_array().expect("variables") {
        if let (Some(name), Some(value)) = (variable["name"].as_str(), variable["value"].as_str()) {
            manager.env(name, value);
        }
    }
    manager
        .args(["--health-probe-bind-address=0", "--enable-webhooks=false"])
        .env_remove("CERT_MODE")
        .env("POD_NAMESPACE", NAMESPACE)
        .env("KUBECONFIG", &file);
    let running = Manager::spawn(manager);
    let resource = format!("{CRD}/sessions");
    for team in teams {
        let is_ready = "--for=condition=Ready";
        let ready = ["wait", is_ready, "--timeout=300s", &resource, "-n", team];
        if let Err(refused) = here.kubectl(&ready) {
            panic!("{refused}\n{}", running.log());
        }
    }
    let elsewhere = here.must(&["get", "deployments", "-n", "team-b", "-o", "name"]);
    assert_eq!(elsewhere, "");
    drop(running);

    let user = format!("system:serviceaccount:{NAMESPACE}:{account}");
    let log = fs::read_to_string(private.cluster.audit_log()).expect("the audit log");
    let read = |line| serde_json::from_str::<Value>(line).ok();
    let events = log.lines().filter_map(read);
    let mut ours: Vec<_> = events.filter(|it| it["user"]["username"] == user).collect();
    assert!(ours.len() > 10, "too few requests: {}", ours.len());
    ours.retain(|it| it["responseStatus"]["code"] == 403);
    assert_eq!(ours, [Value::Null; 0]);
}
