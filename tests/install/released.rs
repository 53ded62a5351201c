//! `helm install`, `upgrade`, `rollback` and `uninstall` on a cluster with simulated nodes: fields
//! that the manager writes into the chart's objects are kept, the CRDs follow the chart, and CRDs
//! and resources are kept on uninstall. Then a release for one team, and one for two, with a real manager
//! that has exactly its permissions.

use std::fs;
use std::process::Command;

use devcluster::Environment;
use serde_json::{Value, json};
use testkit::{DEADLINE, Limit, Manager};

use crate::chart::bundle;
use crate::helm::{answer, helm, value_file};
use crate::private::Private;
use crate::rendered::{documents, kubectl, repository, scratch};

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
        let mut kubectl = kubectl();
        kubectl.envs(self.environment.variables()).args(arguments);
        let run = kubectl.output().expect("kubectl runs");
        let [said, failed] =
            [run.stdout, run.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
        match run.status.success() {
            true => Ok(said),
            false => Err(failed),
        }
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

    fn apply(&self, name: &str, object: &Value) -> Result<String, String> {
        let file = scratch(&format!("released-{name}")).join("object.json");
        fs::write(&file, object.to_string()).expect("written");
        let file = file.to_str().expect("UTF-8");
        self.kubectl(&["apply", "--server-side", "-f", file])
    }

    async fn until_applied(&self, name: &str, object: &Value) {
        let mut limit = Limit::new(DEADLINE);
        // For a moment the API server still calls deleted webhooks and does not serve new CRDs.
        while let Err(refused) = self.apply(name, object) {
            limit.pause(|| refused).await;
        }
    }
}

/// Writes a copy of the chart whose CRD lacks a printer column.
fn older_chart() -> String {
    let folder = scratch("older").join("chart");
    let chart = repository().join("dist/chart");
    let copied = Command::new("cp")
        .arg("-r")
        .args([&chart, &folder])
        .status();
    assert!(copied.expect("cp runs").success());
    let file = folder.join("files/crd/cache.example.com_memcacheds.yaml");
    let mut crd = documents(&file).remove(0);
    let columns = crd.pointer_mut("/spec/versions/0/additionalPrinterColumns");
    let columns = columns.and_then(Value::as_array_mut).expect("columns");
    columns.remove(0);
    // JSON is valid YAML.
    fs::write(&file, crd.to_string()).expect("written");
    folder.to_str().expect("UTF-8").to_owned()
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

/// Upgrade, rollback and uninstall of a release keep CRDs and resources. Begins without CRDs.
pub(crate) async fn upgrade_roll_back_and_uninstall(private: &Private) {
    let here = Cluster {
        environment: private.cluster.environment(),
    };
    let ready = ["--wait", "--timeout=300s"];
    let older = older_chart();
    let install = ["install", "quartet", &older, "--create-namespace"];
    here.helm(&[&install[..], &ready].concat(), &json!({}));
    let deployment = || here.get("deployment", "quartet-operator-controller-manager");
    assert_eq!(deployment()["status"]["availableReplicas"], 2);

    // As a self-managed manager does.
    let add =
        |pointer: &str| json!([{"op": "add", "path": pointer, "value": bundle()}]).to_string();
    for (kind, name, pointer) in [
        (
            "validatingwebhookconfiguration",
            WEBHOOKS,
            "/webhooks/0/clientConfig/caBundle",
        ),
        ("crd", CRD, "/spec/conversion/webhook/clientConfig/caBundle"),
    ] {
        here.must(&["patch", kind, name, "--type=json", "-p", &add(pointer)]);
    }
    let versions = || here.get("crd", CRD)["spec"]["versions"].clone();
    let old = versions();
    let upgraded = json!({"replicas": 3, "image": {"tag": "v9"}});
    here.helm(
        &[&["upgrade", "quartet", "dist/chart"][..], &ready].concat(),
        &upgraded,
    );
    assert_eq!(deployment()["status"]["availableReplicas"], 3);
    assert_ne!(versions(), old, "the chart upgrades CRDs");
    let assert_registered = || {
        let webhooks = here.get("validatingwebhookconfiguration", WEBHOOKS);
        assert_eq!(
            webhooks["webhooks"][0]["clientConfig"]["caBundle"],
            bundle()
        );
        let client = &here.get("crd", CRD)["spec"]["conversion"]["webhook"]["clientConfig"];
        assert_eq!(client["caBundle"], bundle());
    };
    assert_registered();

    here.helm(
        &[&["rollback", "quartet", "1"][..], &ready].concat(),
        &Value::Null,
    );
    assert_eq!(deployment()["spec"]["replicas"], 2);
    assert_registered();
    assert_eq!(versions(), old);

    // A resource in the stored version, which needs no manager.
    here.helm(&["uninstall", "quartet", "--wait"], &Value::Null);
    for (kind, name) in [
        ("deployment", "quartet-operator-controller-manager"),
        ("clusterrole", "quartet-operator-manager-role"),
        ("validatingwebhookconfiguration", WEBHOOKS),
    ] {
        let gone = here.kubectl(&["get", kind, name, "-n", NAMESPACE]);
        assert!(
            gone.is_err_and(|it| it.contains("NotFound")),
            "{kind} {name}"
        );
    }
    here.until_applied("kept", &memcached("default")).await;
    assert!(here.must(&["get", CRD, "sessions"]).contains("sessions"));

    // A release for a team, and one for two teams, adopt the CRDs.
    for team in ["team-a", "team-b", "team-c"] {
        here.must(&["create", "namespace", team]);
    }
    for teams in [&["team-a"][..], &["team-a", "team-c"]] {
        // The first manager was tried without the conversion of the CRD.
        let install = ["install", "quartet", "dist/chart", "--force-conflicts"];
        here.helm(
            &[&install[..], &ready].concat(),
            &json!({"watchNamespaces": teams}),
        );
        assert!(here.must(&["get", CRD, "sessions"]).contains("sessions"));
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
    here.must(&[
        "patch",
        "crd",
        CRD,
        "--type=json",
        "-p",
        &unconverted.to_string(),
    ]);
    for team in teams.iter().chain(&["team-b"]) {
        here.until_applied(team, &memcached(team)).await;
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
    let events = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ours: Vec<_> = events.filter(|it| it["user"]["username"] == user).collect();
    assert!(ours.len() > 10, "too few requests: {}", ours.len());
    let refused: Vec<_> = ours
        .iter()
        .filter(|it| it["responseStatus"]["code"] == 403)
        .map(|it| &it["requestURI"])
        .collect();
    assert_eq!(refused, [&Value::Null; 0]);
}
