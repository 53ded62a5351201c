//! Sequences of server-side applies, by two field managers and in both versions: the object has the fields
//! that their last manifests name, and no others.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use quartet_operator::kinds::memcached;
use quartet_versions::{Kind, Version};
use serde_json::{Value, json};

use crate::environment::{TestEnv, object, path};
use crate::shared::BOTH_VERSIONS;

const MEMCACHED: &Kind = &memcached::KIND;
const SEQUENCES: u64 = 300;
const LONGEST: usize = 4;

/// Each field, with the values that a manifest may have. The first [`IN_BOTH`] are fields of both versions.
const FIELDS: [&[&str]; 12] = [
    &[
        r#"{"metadata":{"labels":{"team":"a"}}}"#,
        r#"{"metadata":{"labels":{"team":"b"}}}"#,
    ],
    &[r#"{"metadata":{"annotations":{"example.com/note":"a"}}}"#],
    &[r#"{"spec":{"memory":64}}"#, r#"{"spec":{"memory":128}}"#],
    &[r#"{"spec":{"threads":8}}"#],
    &[
        r#"{"spec":{"service":{"enabled":true}}}"#,
        r#"{"spec":{"service":{"enabled":false}}}"#,
    ],
    &[r#"{"spec":{"imagePullSecrets":[{"name":"c"}]}}"#],
    &[r#"{"spec":{"imagePullSecrets":[{"name":"d.example.com"}]}}"#],
    &[r#"{"spec":{"resources":{"limits":{"cpu":"1"}}}}"#],
    &[r#"{"spec":{"scheduling":{"nodeSelector":{"example.com/disk":"ssd"}}}}"#],
    &[r#"{"spec":{"scheduling":{"nodeSelector":{"kubernetes.io/arch":"arm64"}}}}"#],
    &[
        r#"{"spec":{"scheduling":{"tolerations":[{"operator":"Exists"}]}}}"#,
        r#"{"spec":{"scheduling":{"tolerations":[{"operator":"Exists"},{"key":"a","operator":"Exists"}]}}}"#,
    ],
    &[r#"{"spec":{"scheduling":{"topologySpreadConstraints":[
        {"maxSkew":1,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"DoNotSchedule"}]}}}"#],
];
const IN_BOTH: usize = 2;

/// The index of the value of each field that a manifest names.
type Manifest = BTreeMap<usize, usize>;

/// A manifest with the number of pods, which is the same in all of them.
fn bare(version: &Version, name: &str) -> Value {
    let mut bare = object(MEMCACHED, version, name, json!({}));
    let (field, _) = version.pods.blamed(&Value::Null);
    bare["spec"] = json!({field.trim_start_matches("spec."): 3});
    bare
}

/// Adds the members of `more`, and the entries of its lists.
fn add(target: &mut Value, more: Value) {
    match (target, more) {
        (Value::Object(target), Value::Object(more)) => {
            for (name, value) in more {
                add(target.entry(name).or_insert(Value::Null), value);
            }
        }
        (Value::Array(target), Value::Array(more)) => target.extend(more),
        (target, more) => *target = more,
    }
}

fn with_fields(mut object: Value, fields: impl Iterator<Item = (usize, usize)>) -> Value {
    for (field, value) in fields {
        let members = serde_json::from_str(FIELDS[field][value]).expect("JSON");
        add(&mut object, members);
    }
    object
}

/// Null and empty objects and lists are equal to absent ones; lists have no order.
fn settled(value: Value) -> Value {
    let is_empty = |it: &Value| [json!(null), json!({}), json!([])].contains(it);
    match value {
        Value::Object(members) => {
            let members = members.into_iter().map(|(name, it)| (name, settled(it)));
            let members = members.filter(|(_, it)| !is_empty(it));
            Value::Object(members.collect())
        }
        Value::Array(mut entries) => {
            entries.sort_by_key(ToString::to_string);
            Value::Array(entries)
        }
        scalar => scalar,
    }
}

/// The rules of server-side apply: the value of each field, and the managers that own it.
#[derive(Default)]
struct Model(BTreeMap<usize, (usize, BTreeSet<&'static str>)>);

impl Model {
    /// Returns false if the apply ends with a conflict.
    fn apply(&mut self, manager: &'static str, manifest: &Manifest, force: bool) -> bool {
        let conflicts = manifest.iter().any(|(field, value)| {
            let stored = self.0.get(field).filter(|(stored, _)| stored != value);
            stored.is_some_and(|(_, owners)| owners.iter().any(|owner| *owner != manager))
        });
        if conflicts && !force {
            return false;
        }
        for (field, value) in manifest {
            let stored = self.0.entry(*field).or_default();
            if stored.0 != *value {
                *stored = (*value, BTreeSet::new());
            }
            stored.1.insert(manager);
        }
        self.0.retain(|field, (_, owners)| {
            owners.retain(|owner| *owner != manager || manifest.contains_key(field));
            !owners.is_empty()
        });
        true
    }

    fn object(&self, labels: Value) -> Value {
        let bare = json!({"metadata": {"labels": labels}, "spec": {"replicas": 3}});
        let fields = self.0.iter().map(|(field, (value, _))| (*field, *value));
        with_fields(bare, fields)
    }
}

struct Step {
    manager: &'static str,
    force: bool,
    version: &'static Version,
    manifest: Manifest,
}

/// Two to [`LONGEST`] applies.
fn random_steps(seed: u64) -> Vec<Step> {
    let mut random = fastrand::Rng::with_seed(seed);
    let steps = 0..random.usize(2..=LONGEST);
    let step = |_| {
        let (manager, force) = (random.choice(["a", "b"]).expect("one"), random.bool());
        let (version, fields) = match random.usize(0..3) {
            0 => (&MEMCACHED.spoke, IN_BOTH),
            _ => (&MEMCACHED.hub, FIELDS.len()),
        };
        let named = (0..fields).filter(|_| random.bool()).collect::<Vec<_>>();
        let manifest = named.into_iter();
        let manifest = manifest.map(|field| (field, random.usize(0..FIELDS[field].len())));
        Step {
            manager,
            force,
            version,
            manifest: manifest.collect(),
        }
    };
    steps.map(step).collect()
}

/// Every apply of a label, an annotation and a field of the new version, each named or not.
fn every_step(managers: &[&'static str], value: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    for number in 0..16 * managers.len() {
        let is = |bit: usize| number & bit != 0;
        for (version, fields) in [(&MEMCACHED.spoke, IN_BOTH), (&MEMCACHED.hub, IN_BOTH + 1)] {
            if fields == IN_BOTH && is(4) {
                continue;
            }
            let named = (0..fields).filter(|field| is(1 << field));
            steps.push(Step {
                manager: managers[number / 16],
                force: is(8),
                version,
                manifest: named
                    .map(|field| (field, value % FIELDS[field].len()))
                    .collect(),
            });
        }
    }
    steps
}

/// Applies one sequence, and writes a label in the original version after the first apply.
async fn check(env: &TestEnv, namespace: &str, name: String, steps: Vec<&Step>) {
    let (mut model, mut said, mut labels) = (Model::default(), name.clone(), json!({}));
    let of = |version: &Version| path(MEMCACHED, version, namespace, &name);
    for (index, step) in steps.into_iter().enumerate() {
        let Step {
            manager,
            force,
            version,
            ref manifest,
        } = *step;
        let fields = manifest.iter().map(|(field, value)| (*field, *value));
        let body = with_fields(bare(version, &name), fields);
        said += &format!("\n{manager} force={force}: {body}");
        let target = format!("{}?fieldManager={manager}&force={force}", of(version));
        let answer = env.apply(&target, &body).await;
        if model.apply(manager, manifest, force) {
            _ = answer.unwrap_or_else(|error| panic!("{said}: {error:?}"))
        } else {
            assert_eq!(answer.expect_err(&said).code, 409, "{said}")
        }
        if index == 0 {
            labels = json!({"seen": "yes"});
            let label = json!({"metadata": {"labels": labels}});
            env.merge(&of(&MEMCACHED.spoke), label)
                .await
                .expect("labelled");
        }
        let read = env.get(&of(&MEMCACHED.hub)).await.expect("the object");
        let metadata = &read["metadata"];
        let found = json!({
            "metadata": {"labels": metadata["labels"], "annotations": metadata["annotations"]},
            "spec": read["spec"],
        });
        let expected = settled(model.object(labels.clone()));
        assert_eq!(settled(found), expected, "{said}");
    }
    // An apply that changes nothing writes nothing, in either version.
    for version in [&MEMCACHED.spoke, &MEMCACHED.hub] {
        let body = bare(version, &name);
        let target = format!("{}?fieldManager=c", of(version));
        let once = env.apply(&target, &body).await.expect("applied");
        let again = env.apply(&target, &body).await.expect("applied again");
        let revision = |object: &Value| object["metadata"]["resourceVersion"].clone();
        assert_eq!(revision(&again), revision(&once), "{said}");
    }
}

async fn check_all(namespace: &str, sequences: Vec<(String, Vec<&Step>)>) {
    let env = BOTH_VERSIONS.test_env().await;
    env.create_namespace(namespace).await;
    let mut sequences = sequences.into_iter();
    loop {
        let some: Vec<_> = sequences.by_ref().take(8).collect();
        if some.is_empty() {
            return;
        }
        let check = |(name, steps)| check(&env, namespace, name, steps);
        join_all(some.into_iter().map(check)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn after_any_sequence_of_applies_the_object_has_the_fields_that_its_managers_name() {
    let first = std::env::var("SEED").map_or(0, |seed| seed.parse().expect("a number"));
    let all = (first..first + SEQUENCES).map(|seed| (seed, random_steps(seed)));
    let all: Vec<_> = all.collect();
    let sequences = all
        .iter()
        .map(|(seed, steps)| (format!("s{seed}"), steps.iter().collect()));
    check_all("sequences", sequences.collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "takes minutes: make test-nightly"]
async fn after_every_sequence_of_two_applies_too() {
    let (ones, others) = (every_step(&["a"], 0), every_step(&["a", "b"], 1));
    let pairs = (0..ones.len() * others.len()).map(|number| {
        let pair = [&ones[number / others.len()], &others[number % others.len()]];
        (format!("pair{number}"), pair.to_vec())
    });
    check_all("pairs", pairs.collect()).await;
}
