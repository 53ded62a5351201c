//! The life of a resource, in steps: what a user changes, and what must then be stored. Data and
//! comparisons only.

use serde_json::{Map, Value, json};

use testkit::{ELASTIC_WEB, HELLO_WORLD, Kind, MEMCACHED, NGINX, condition, is_ready};

/// The annotation by which the original version carries what only the new one can say.
const CONVERSION_DATA: &str = "quartet-operator.example.com/conversion-data";
const PAUSED: &str = "quartet-operator.example.com/paused";

/// The image that a step changes to.
const OTHER_IMAGE: &str = "docker.io/library/other:2";
/// What an ElasticWeb asks for, which has no default.
const IMAGE: &str = "nginx:1.17.1";

/// The four kinds.
pub(crate) const KINDS: [Kind; 4] = [MEMCACHED, NGINX, ELASTIC_WEB, HELLO_WORLD];

/// What a user does to a resource that is as asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    Create,
    ScaleUp,
    ScaleDown,
    Image,
    ServiceOn,
    ServiceOff,
    Port,
    /// What was changed while it was paused comes into force.
    Resume,
    /// Deleted, and created anew by the same name.
    Replace,
}

/// All of them.
const STEPS: [Step; 9] = [
    Step::Create,
    Step::ScaleUp,
    Step::ScaleDown,
    Step::Image,
    Step::ServiceOn,
    Step::ServiceOff,
    Step::Port,
    Step::Resume,
    Step::Replace,
];

/// What a resource asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form {
    replicas: i64,
    has_other_image: bool,
    has_service: bool,
    has_other_port: bool,
    is_paused: bool,
}

/// One pod, of the default image, without a Service where that can be.
const PLAIN: Form = Form {
    replicas: 1,
    has_other_image: false,
    has_service: false,
    has_other_port: false,
    is_paused: false,
};

/// The steps in the life of this kind. An ElasticWeb always has its Service.
pub(crate) fn steps(kind: Kind) -> impl Iterator<Item = Step> {
    STEPS.into_iter().filter(move |step| {
        kind.kind != "ElasticWeb" || !matches!(step, Step::ServiceOn | Step::ServiceOff)
    })
}

impl Step {
    /// As it was before; none if it was not there.
    pub(crate) fn before(self) -> Option<Form> {
        let form = match self {
            Step::Create => return None,
            Step::ScaleDown => Form {
                replicas: 2,
                ..PLAIN
            },
            Step::ServiceOff | Step::Port => Form {
                has_service: true,
                ..PLAIN
            },
            _ => PLAIN,
        };
        Some(form)
    }

    pub(crate) fn after(self) -> Form {
        let before = self.before().unwrap_or(PLAIN);
        match self {
            Step::Create | Step::ScaleDown | Step::Replace | Step::ServiceOff => PLAIN,
            Step::ScaleUp | Step::Resume => Form {
                replicas: 2,
                ..before
            },
            Step::Image => Form {
                has_other_image: true,
                ..before
            },
            Step::ServiceOn => Form {
                has_service: true,
                ..before
            },
            Step::Port => Form {
                has_other_port: true,
                ..before
            },
        }
    }

    /// As [`Step::after`] in a resource that is paused, where the step comes out of a pause.
    pub(crate) fn paused(self) -> Option<Form> {
        let paused = Form {
            is_paused: true,
            ..self.after()
        };
        (self == Step::Resume).then_some(paused)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Step::Create => "create",
            Step::ScaleUp => "scale-up",
            Step::ScaleDown => "scale-down",
            Step::Image => "image",
            Step::ServiceOn => "service-on",
            Step::ServiceOff => "service-off",
            Step::Port => "port",
            Step::Resume => "resume",
            Step::Replace => "replace",
        }
    }
}

/// What is stored of a resource and its children.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Stored {
    pub(crate) resource: Option<Value>,
    pub(crate) deployment: Option<Value>,
    pub(crate) service: Option<Value>,
}

impl Form {
    /// The resource, in the original version.
    pub(crate) fn object(self, kind: Kind, name: &str, node_port: u16) -> Value {
        let spec = match kind.kind {
            "Nginx" => json!({"count": self.replicas}),
            "ElasticWeb" => json!({
                "image": if self.has_other_image { OTHER_IMAGE } else { IMAGE },
                "port": self.node_port(node_port), "singlePodsQPS": 1, "totalQPS": self.replicas,
            }),
            _ => json!({"size": self.replicas}),
        };
        let mut object = kind.object(name, spec);
        let mut annotations = Map::new();
        let data = self.conversion_data(kind);
        if data.as_object().is_some_and(|it| !it.is_empty()) {
            let data = json!({"v1": data}).to_string();
            annotations.insert(CONVERSION_DATA.to_owned(), data.into());
        }
        if self.is_paused {
            annotations.insert(PAUSED.to_owned(), "true".into());
        }
        if !annotations.is_empty() {
            object["metadata"]["annotations"] = annotations.into();
        }
        object
    }

    fn conversion_data(self, kind: Kind) -> Value {
        let mut data = json!({});
        if kind.kind == "ElasticWeb" {
            return data;
        }
        if self.has_other_image {
            data["image"] = OTHER_IMAGE.into();
        }
        if self.has_service && kind.kind == "Memcached" {
            data["service"] = json!({"enabled": true});
            data["port"] = self.port(kind).into();
        } else if self.has_service {
            data["service"] = json!({"port": self.port(kind)});
        }
        data
    }

    fn port(self, kind: Kind) -> u16 {
        let port = if kind.kind == "Memcached" { 11211 } else { 80 };
        port + u16::from(self.has_other_port)
    }

    fn node_port(self, node_port: u16) -> u16 {
        node_port + u16::from(self.has_other_port)
    }

    /// Whether this is what is stored, and the status says so.
    pub(crate) fn is_met(self, kind: Kind, stored: &Stored, node_port: u16) -> Result<(), String> {
        let resource = stored.resource.as_ref().ok_or("the resource is absent")?;
        if self.is_paused {
            return is_paused(resource);
        }
        if !is_ready(resource) || resource["status"]["readyReplicas"] != self.replicas {
            return Err(format!("not Ready: {}", resource["status"]));
        }
        let uid = &resource["metadata"]["uid"];
        let of_this = |child: &Value| child["metadata"]["ownerReferences"][0]["uid"] == *uid;
        let deployment = stored.deployment.as_ref();
        let deployment = deployment.ok_or("the Deployment is absent")?;
        let (spec, status) = (&deployment["spec"], &deployment["status"]);
        let pods = ["replicas", "updatedReplicas", "readyReplicas"];
        let image = &spec["template"]["spec"]["containers"][0]["image"];
        if !of_this(deployment)
            || spec["replicas"] != self.replicas
            || pods.iter().any(|field| status[*field] != self.replicas)
            || status["observedGeneration"] != deployment["metadata"]["generation"]
            || (image == OTHER_IMAGE) != self.has_other_image
        {
            return Err(format!("the Deployment is not so: {deployment}"));
        }
        let port = |service: &Value| match kind.kind {
            "ElasticWeb" => service["spec"]["ports"][0]["nodePort"] == self.node_port(node_port),
            _ => service["spec"]["ports"][0]["port"] == self.port(kind),
        };
        match (
            &stored.service,
            self.has_service || kind.kind == "ElasticWeb",
        ) {
            (Some(service), true) if of_this(service) && port(service) => Ok(()),
            (None, false) => Ok(()),
            (service, _) => Err(format!("the Service is not so: {service:?}")),
        }
    }
}

fn is_paused(resource: &Value) -> Result<(), String> {
    let ready = condition(resource, "Ready");
    let is_told = ready.is_some_and(|it| it["reason"] == "Paused")
        && resource["status"]["observedGeneration"] == resource["metadata"]["generation"];
    match is_told {
        true => Ok(()),
        false => Err(format!("not paused: {}", resource["status"])),
    }
}
