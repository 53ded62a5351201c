//! The model API server of the explorer, compared with a real one: the same random requests get the
//! same answers. A finding of the explorer is then no fault of the model, and the model hides none.

mod random;
mod side;

use std::sync::Arc;
use std::time::Duration;

use modelapi::{ApiServer, Definition, Network, Perfect};
use serde_json::{Value, json};

use random::Random;
use side::Side;
use testkit::{DEADLINE, Limit, TestEnv};

/// Number of sequences, and of requests in each.
const SEQUENCES: u64 = 20;
const REQUESTS: usize = 40;

/// How a request gives a UID or a resourceVersion of its object.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Named {
    Nothing,
    AsItIs,
    AsItWas,
    Another,
}

#[derive(Debug, Clone)]
enum Step {
    Apply {
        plural: &'static str,
        manager: &'static str,
        force: bool,
        body: Value,
        uid: Named,
        version: Named,
    },
    Merge(&'static str, Value),
    Create(&'static str, Value),
    Delete(&'static str, Named, Named),
    Get(&'static str),
    Look(&'static str),
    /// A JSON patch that begins with this operation on the version.
    Status {
        operation: &'static str,
        version: Named,
        status: Value,
    },
}

#[derive(Debug, Clone, PartialEq)]
struct Answer {
    code: u16,
    reason: String,
    object: Value,
}

const NAME: &str = "one";

/// The optional fields of the requests: the path, and whether the API server adds to the field.
const FIELDS: [(&str, bool); 12] = [
    ("/metadata/labels/extra", false),
    ("/metadata/annotations/note", false),
    ("/metadata/finalizers", false),
    ("/spec/replicas", false),
    ("/spec/template/spec/containers/0/image", false),
    ("/spec/template/spec/containers/0/args", false),
    ("/spec/template/spec/containers/0/env", false),
    ("/spec/template/spec/containers/0/livenessProbe", true),
    ("/spec/template/spec/nodeSelector", false),
    ("/spec/template/spec/imagePullSecrets", false),
    ("/spec/externalTrafficPolicy", false),
    ("/status/conditions", false),
];

/// Returns the parts of an answer that have to be equal.
fn comparable(answer: &Answer) -> Value {
    let object = &answer.object;
    let fields = FIELDS.iter().map(|(path, is_completed)| {
        let found = object.pointer(path);
        // The Deployment controller writes the status of a Deployment.
        let is_status = path.starts_with("/status") && object["kind"] != "Memcached";
        let found = found.filter(|_| !is_status);
        let found = if *is_completed {
            found.map(|_| json!("there"))
        } else {
            found.cloned()
        };
        json!([path, found])
    });
    let ports = object["spec"]["ports"].as_array();
    let ports = ports.into_iter().flatten();
    let ports = ports.map(|port| json!([port["port"], port["name"], port["nodePort"].is_null()]));
    let entries = object["metadata"]["managedFields"].as_array();
    let applied = entries
        .into_iter()
        .flatten()
        .filter(|it| it["operation"] == "Apply");
    let mut applied: Vec<_> = applied
        .map(|it| json!([it["manager"], it["fieldsV1"]]))
        .collect();
    applied.sort_by_key(ToString::to_string);
    json!({
        "code": answer.code,
        "reason": answer.reason,
        // Of a failed JSON patch, whose details are empty. The model words others in its own way.
        "message": (object["details"] == json!({})).then(|| &object["message"]),
        "ends": object["metadata"].get("deletionTimestamp").is_some(),
        "fields": fields.collect::<Vec<_>>(),
        "ports": ports.collect::<Vec<_>>(),
        // A Status names the object in its details.
        "applied": if answer.code < 300 { applied } else { vec![] },
    })
}

#[tokio::test]
async fn the_model_of_the_explorer_answers_as_the_real_api_server() {
    let env = TestEnv::without_manager("model").await;
    let seed = std::env::var("MODEL_SEED").ok();
    let seed: Option<u64> = seed.map(|it| it.parse().expect("MODEL_SEED is a number"));
    let mut requests = 0;
    for seed in seed.map_or(0..SEQUENCES, |seed| seed..seed + 1) {
        let custom = Definition {
            is_custom: true,
            ..Definition::built_in("cache.example.com", "v1alpha1", "Memcached", "memcacheds")
        };
        let network: Arc<dyn Network> = Arc::new(Perfect);
        let model = ApiServer::new(vec![custom]);
        let side = |client| Side {
            client,
            namespace: env.namespace.clone(),
            earlier: Vec::new(),
        };
        let real = side(env.api.client.clone());
        let mut sides = (side(modelapi::client(&model, &network)), real);
        let mut random = Random(fastrand::Rng::with_seed(seed));
        for number in 0..REQUESTS {
            let step = random.step();
            let answer = sides.0.make(&step).await;
            let mut real = sides.1.make(&step).await;
            // The Deployment controller has written in between; more than once on a busy machine.
            for tries in 0..20 {
                if real.code == 409 && answer.code != 409 && real.reason == "Conflict" {
                    tokio::time::sleep(Duration::from_millis(10 * tries)).await;
                    real = sides.1.make(&step).await;
                }
            }
            requests += 1;
            let (model, actual) = (comparable(&answer), comparable(&real));
            let differ: Vec<_> = actual
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(name, value)| model[*name] != **value)
                .map(|(name, value)| format!("{name}: {} instead of {value}", model[name]))
                .collect();
            assert!(
                differ.is_empty(),
                "MODEL_SEED={seed}, request {number}: {step:?}\n{differ:#?}\nmodel: {}\nreal: {}",
                answer.object,
                real.object
            );
        }
        for plural in ["deployments", "services", "memcacheds"] {
            let free = json!({"metadata": {"finalizers": null}});
            sides.1.make(&Step::Merge(plural, free)).await;
            let delete = Step::Delete(plural, Named::Nothing, Named::Nothing);
            sides.1.make(&delete).await;
            let mut limit = Limit::new(DEADLINE);
            while sides.1.get(plural).await.is_some() {
                limit.pause(|| format!("{plural} is not deleted")).await;
            }
        }
    }
    println!("{requests} requests had equal answers");
}
