//! What the user of a scenario does: four resources, one of each kind, in two states. Knows
//! what the cluster shall hold then, and asks whether it does.

use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::{Value, json};

use testkit::{
    DEPLOYMENT, ELASTIC_WEB, HELLO_WORLD, Kind, MEMCACHED, NGINX, SERVICE, TestEnv, is_ready,
};

/// The annotation by which the spoke version carries what only the hub version can say.
const CONVERSION_DATA: &str = "quartet-operator.example.com/conversion-data";

/// What the user does while the fault is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Workload {
    /// Creates the four.
    Create,
    /// Has the four in their first state, and brings them into the second.
    Change,
    /// Has the four, deletes them and creates them anew by the same names.
    Replace,
}

/// What the four resources ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// One pod each; two of them have a Service.
    First,
    /// Other numbers, another image, a Service less.
    Second,
}

impl Workload {
    /// Whether the four are there before the fault.
    pub(crate) fn begins_with_resources(self) -> bool {
        self != Workload::Create
    }

    /// What is asked for in the end.
    pub(crate) fn end(self) -> State {
        match self {
            Workload::Create | Workload::Replace => State::First,
            Workload::Change => State::Second,
        }
    }
}

/// One of the four.
pub(crate) struct Wanted {
    pub(crate) kind: Kind,
    pub(crate) name: &'static str,
    pub(crate) spec: Value,
    pub(crate) conversion_data: Option<Value>,
    pub(crate) replicas: i64,
    pub(crate) has_service: bool,
}

/// A NodePort for each scenario of this process, of a range that no other test takes.
pub(crate) fn node_port() -> u16 {
    static COUNT: AtomicU16 = AtomicU16::new(0);
    32_100 + COUNT.fetch_add(1, Ordering::Relaxed) % 600
}

/// The four in a state.
pub(crate) fn wanted(state: State, node_port: u16) -> [Wanted; 4] {
    let is_first = state == State::First;
    let either = |first: i64, second: i64| if is_first { first } else { second };
    let (web, image) = (
        either(1, 2),
        if is_first {
            "nginx:1.17.1"
        } else {
            "nginx:1.28"
        },
    );
    [
        Wanted {
            kind: MEMCACHED,
            name: "memcached",
            spec: json!({"size": either(1, 3)}),
            conversion_data: None,
            replicas: either(1, 3),
            has_service: false,
        },
        Wanted {
            kind: NGINX,
            name: "nginx",
            spec: json!({"count": either(1, 2)}),
            conversion_data: is_first.then(|| json!({"v1": {"service": {"port": 80}}})),
            replicas: either(1, 2),
            has_service: is_first,
        },
        Wanted {
            kind: ELASTIC_WEB,
            name: "elasticweb",
            spec: json!({"image": image, "port": node_port, "singlePodsQPS": 1, "totalQPS": web}),
            conversion_data: None,
            replicas: web,
            has_service: true,
        },
        Wanted {
            kind: HELLO_WORLD,
            name: "helloworld",
            spec: json!({"size": either(1, 0)}),
            conversion_data: None,
            replicas: either(1, 0),
            has_service: false,
        },
    ]
}

impl Wanted {
    fn object(&self) -> Value {
        let mut object = self.kind.object(self.name, self.spec.clone());
        if let Some(data) = &self.conversion_data {
            object["metadata"]["annotations"] = json!({CONVERSION_DATA: data.to_string()});
        }
        object
    }

    /// Whether the cluster holds what this asks for, and its status says so.
    fn is_met(&self, resource: Option<&Value>, children: &Children) -> Result<(), String> {
        let name = self.name;
        let resource = resource.ok_or_else(|| format!("{name} is absent"))?;
        let uid = &resource["metadata"]["uid"];
        if !is_ready(resource) {
            return Err(format!("{name} is not Ready: {:#}", resource["status"]));
        }
        let deployment = find(&children.deployments, name);
        let deployment = deployment.ok_or_else(|| format!("{name} has no Deployment"))?;
        let of_this = |child: &Value| child["metadata"]["ownerReferences"][0]["uid"] == *uid;
        let status = &deployment["status"];
        let pods = |field: &str| status[field].as_i64().unwrap_or_default();
        if !of_this(deployment)
            || deployment["spec"]["replicas"] != self.replicas
            || status["observedGeneration"] != deployment["metadata"]["generation"]
            || [pods("replicas"), pods("readyReplicas")] != [self.replicas; 2]
            // It would change once more when these pods are gone.
            || pods("terminatingReplicas") != 0
            || resource["status"]["readyReplicas"] != self.replicas
        {
            return Err(format!(
                "the Deployment of {name} is not so: {deployment:#}"
            ));
        }
        if let Some(image) = self.spec["image"].as_str() {
            let container = &deployment["spec"]["template"]["spec"]["containers"][0];
            if container["image"] != image {
                return Err(format!("{name} has another image: {container}"));
            }
        }
        let service = find(&children.services, name);
        match (service, self.has_service) {
            (Some(service), true) if of_this(service) => Ok(()),
            (None, false) => Ok(()),
            (service, _) => Err(format!("the Service of {name} is not so: {service:?}")),
        }
    }
}

/// What the namespace holds of the children's kinds.
pub(crate) struct Children {
    pub(crate) deployments: Vec<Value>,
    pub(crate) services: Vec<Value>,
}

impl Children {
    pub(crate) async fn of(stage: &TestEnv) -> Self {
        Children {
            deployments: stage.list(DEPLOYMENT).await,
            services: stage.list(SERVICE).await,
        }
    }
}

pub(crate) fn find<'a>(objects: &'a [Value], name: &str) -> Option<&'a Value> {
    let mut objects = objects.iter();
    objects.find(|object| object["metadata"]["name"] == name)
}

/// Applies the four.
pub(crate) async fn apply(stage: &TestEnv, state: State, node_port: u16) {
    for wanted in wanted(state, node_port) {
        stage.apply(&wanted.object()).await.expect("applied");
    }
}

/// Deletes the four.
pub(crate) async fn delete(stage: &TestEnv, node_port: u16) {
    for wanted in wanted(State::First, node_port) {
        stage.delete(wanted.kind, wanted.name).await;
    }
}

/// Whether all four are as they ask to be.
pub(crate) async fn is_met(stage: &TestEnv, state: State, node_port: u16) -> Result<(), String> {
    let children = Children::of(stage).await;
    for wanted in wanted(state, node_port) {
        let resource = stage.get(wanted.kind, wanted.name).await;
        wanted.is_met(resource.as_ref(), &children)?;
    }
    Ok(())
}
