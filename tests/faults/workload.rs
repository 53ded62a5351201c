//! What the user of a scenario does: four resources, one of each kind, are changed from one state to
//! another.

use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::{Value, json};
use testkit::{
    DEPLOYMENT, ELASTIC_WEB, HELLO_WORLD, Kind, MEMCACHED, NGINX, SERVICE, TestEnv, is_ready,
};

/// What the resources ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// One pod each. Two of them have a Service.
    First,
    /// Other numbers, another image, and one Service less.
    Second,
}

struct Wanted {
    kind: Kind,
    name: &'static str,
    spec: Value,
    annotations: Value,
    replicas: i64,
    has_service: bool,
}

/// Returns a node port that no other scenario and no other test uses.
pub(crate) fn node_port() -> u16 {
    static COUNT: AtomicU16 = AtomicU16::new(0);
    32_100 + COUNT.fetch_add(1, Ordering::Relaxed) % 600
}

fn wanted(state: State, node_port: u16) -> [Wanted; 4] {
    let is_first = state == State::First;
    let sizes = match state {
        State::First => [1, 1, 1, 1],
        State::Second => [3, 2, 2, 0],
    };
    let image = if is_first {
        "nginx:1.17.1"
    } else {
        "nginx:1.28"
    };
    // The original version of Nginx keeps the fields of the new one in an annotation.
    let with_service = json!({
        "quartet-operator.example.com/conversion-data": r#"{"v1":{"service":{"port":80}}}"#,
    });
    let nginx = if is_first { with_service } else { json!({}) };
    let web = json!({"image": image, "port": node_port, "singlePodsQPS": 1, "totalQPS": sizes[2]});
    let wanted = |kind, name, spec, annotations, replicas, has_service| Wanted {
        kind,
        name,
        spec,
        annotations,
        replicas,
        has_service,
    };
    let size = |number: usize| json!({"size": sizes[number]});
    let (none, count) = (|| json!({}), json!({"count": sizes[1]}));
    [
        wanted(MEMCACHED, "memcached", size(0), none(), sizes[0], false),
        wanted(NGINX, "nginx", count, nginx, sizes[1], is_first),
        wanted(ELASTIC_WEB, "elasticweb", web, none(), sizes[2], true),
        wanted(HELLO_WORLD, "helloworld", size(3), none(), sizes[3], false),
    ]
}

impl Wanted {
    /// Returns what differs from the desired state.
    async fn is_met(&self, env: &TestEnv) -> Result<(), String> {
        let name = self.name;
        let get = async |kind| env.get(kind, name).await.unwrap_or_default();
        let resource = get(self.kind).await;
        if !is_ready(&resource) || resource["status"]["readyReplicas"] != self.replicas {
            return Err(format!("{name} is not Ready: {:#}", resource["status"]));
        }
        let is_owned = |child: &Value| {
            child["metadata"]["ownerReferences"][0]["uid"] == resource["metadata"]["uid"]
        };
        let deployment = get(DEPLOYMENT).await;
        let status = &deployment["status"];
        let pods = |field: &str| status[field].as_i64().unwrap_or_default();
        let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
        if !is_owned(&deployment)
            || deployment["spec"]["replicas"] != self.replicas
            || status["observedGeneration"] != deployment["metadata"]["generation"]
            || [pods("replicas"), pods("readyReplicas")] != [self.replicas; 2]
            // It changes once more when these pods are gone.
            || pods("terminatingReplicas") != 0
            || self.spec.get("image").is_some_and(|wanted| wanted != image)
        {
            return Err(format!("the Deployment {name} differs: {deployment:#}"));
        }
        let service = get(SERVICE).await;
        if is_owned(&service) != self.has_service || service.is_null() == self.has_service {
            return Err(format!("the Service {name} differs: {service:#}"));
        }
        Ok(())
    }
}

/// Applies the four resources.
pub(crate) async fn apply(env: &TestEnv, state: State, node_port: u16) {
    for wanted in wanted(state, node_port) {
        let mut object = wanted.kind.object(wanted.name, wanted.spec);
        object["metadata"]["annotations"] = wanted.annotations;
        env.apply(&object).await.expect("applied");
    }
}

/// Returns the first difference from `state`.
pub(crate) async fn is_met(env: &TestEnv, state: State, node_port: u16) -> Result<(), String> {
    for wanted in wanted(state, node_port) {
        wanted.is_met(env).await?;
    }
    Ok(())
}
