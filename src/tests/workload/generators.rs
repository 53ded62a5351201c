//! Generated resources and observations: valid ones, invalid ones, and arbitrary JSON.

use proptest::prelude::*;

use super::*;
use crate::kinds::OPERATORS;
use quartet_workload::{PodFailure, Problem, Reason};

pub(super) fn any_operator() -> impl Strategy<Value = &'static dyn Operator> {
    (0..OPERATORS.len()).prop_map(|index| OPERATORS[index])
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-3_i32..40_000).prop_map(Value::from),
        Just(json!(0.5)),
        "[a-zA-Z0-9.:/-]{0,70}".prop_map(Value::from),
        ".{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-z]{1,6}", inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

/// A value that the field may have.
fn valid_value(field: &'static str) -> BoxedStrategy<Value> {
    match field {
        "replicas" => (0_i32..1000).prop_map(Value::from).boxed(),
        "image" => "[a-z]{1,9}(:[0-9]{4})?/[a-z]{1,9}(:[a-z0-9.]{1,5}|@sha256:[0-9a-f]{64})?"
            .prop_map(Value::from)
            .boxed(),
        "imagePullPolicy" => Just(json!("Always")).boxed(),
        "imagePullSecrets" => Just(json!([{ "name": "registry" }])).boxed(),
        "resources" => prop_oneof![
            Just(json!({})),
            Just(json!({ "requests": {}, "limits": {} })),
            Just(json!({ "requests": { "cpu": "0.1" }, "limits": { "memory": 67_108_864 } })),
        ]
        .boxed(),
        "scheduling" => prop_oneof![
            Just(json!({ "tolerations": [], "nodeSelector": {} })),
            Just(json!({ "tolerations": [{ "operator": "Exists", "key": "" }], "priorityClassName": "" })),
            Just(json!({ "topologySpreadConstraints": [
                { "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule" },
            ] })),
        ]
        .boxed(),
        "podSecurity" => prop_oneof![Just(json!("Restricted")), Just(json!("Baseline"))].boxed(),
        "memory" | "maxConnections" | "threads" => (1_i32..128).prop_map(Value::from).boxed(),
        "port" | "containerPort" => (1_i32..65_536).prop_map(Value::from).boxed(),
        _ => unreachable!("{field} is not generated"),
    }
}

const SHARED: &str = "image imagePullPolicy imagePullSecrets resources scheduling podSecurity";

fn own_fields(kind: &str) -> &'static [&'static str] {
    match kind {
        "Memcached" => &["replicas", "memory", "maxConnections", "threads", "port"],
        "ElasticWeb" => &["containerPort"],
        "Nginx" | "HelloWorld" => &["replicas", "port"],
        _ => &["replicas"],
    }
}

/// Rules over several fields; of a kind that is not known, the hub sample.
fn valid_base(kind: &'static Kind) -> BoxedStrategy<Value> {
    match kind.kind {
        "ElasticWeb" => (1_i32..=i32::MAX, 0_i64..1000, 1_i32..65_536)
            .prop_map(|(per_pod, pods, node_port)| {
                let target = (i64::from(per_pod) * pods).min(i32::MAX.into());
                json!({
                    "image": "a",
                    "capacity": { "perPodQPS": per_pod, "targetQPS": target },
                    "service": { "nodePort": node_port },
                })
            })
            .boxed(),
        "Memcached" => any::<bool>()
            .prop_map(|enabled| json!({ "service": { "enabled": enabled } }))
            .boxed(),
        "Nginx" | "HelloWorld" => prop_oneof![
            Just(json!({})),
            Just(json!({ "service": {} })),
            Just(json!({ "service": { "type": "NodePort", "nodePort": 30000 } })),
        ]
        .boxed(),
        _ => Just(sample_spec(kind)).boxed(),
    }
}

pub(super) fn valid_resource() -> impl Strategy<Value = (&'static dyn Operator, Resource)> {
    any_operator().prop_flat_map(|operator| (Just(operator), valid_resource_of(operator)))
}

/// A resource with a valid spec. The fields of a kind that is not known may be of other types; then it
/// is as in the sample.
pub(super) fn valid_resource_of(
    operator: &'static dyn Operator,
) -> impl Strategy<Value = Resource> {
    let kind = operator.kind();
    let own = own_fields(kind.kind);
    let fields: Vec<_> = SHARED.split(' ').chain(own.iter().copied()).collect();
    let count = fields.len();
    let chosen = proptest::sample::subsequence(fields, 0..=count).prop_flat_map(|chosen| {
        chosen
            .into_iter()
            .map(|field| valid_value(field).prop_map(move |value| (field.to_owned(), value)))
            .collect::<Vec<_>>()
    });
    (valid_base(kind), chosen, "[a-z]([a-z0-9-]{0,61}[a-z0-9])?").prop_map(
        move |(base, chosen, name)| {
            let mut spec = base.clone();
            spec.as_object_mut().expect("an object").extend(chosen);
            if !KNOWN.contains(&kind.kind) && kind.hub.validate(&spec).is_err() {
                spec = base;
            }
            named(operator, &name, spec)
        },
    )
}

/// A partly valid resource: known fields with values of any type.
pub(super) fn any_resource() -> impl Strategy<Value = (&'static dyn Operator, Resource)> {
    let odd = (any_operator(), any_json(), ".{0,300}")
        .prop_map(|(operator, spec, name)| (operator, named(operator, &name, spec)));
    let fields = "replicas image service capacity resources scheduling memory";
    let field = proptest::sample::select(fields.split(' ').collect::<Vec<_>>());
    let spoilt = (valid_resource(), field, any_json());
    let spoilt = spoilt.prop_map(|((operator, mut resource), field, value)| {
        resource.spec[field] = value;
        (operator, resource)
    });
    prop_oneof![odd, spoilt, valid_resource()]
}

fn any_deployment() -> impl Strategy<Value = ObservedWorkload> {
    let counts = (0_i64..4, 0_i64..4, 0_i64..4, 0_i64..4, 0_i64..4);
    let message = || proptest::option::of(".{0,2000}".prop_map(Into::into));
    let is_available = proptest::option::of(any::<bool>());
    (
        0_i64..3,
        0_i64..3,
        counts,
        (is_available, message(), message()),
        (any::<bool>(), any::<bool>()),
    )
        .prop_map(
            |(generation, observed_generation, counts, conditions, flags)| {
                let (is_available, stalled, replica_failure) = conditions;
                let (paused, has_rolled_out) = flags;
                let (desired, replicas, updated, ready, available) = counts;
                ObservedWorkload {
                    kind: "Deployment",
                    generation,
                    observed_generation,
                    paused,
                    desired,
                    replicas,
                    updated,
                    ready,
                    available,
                    is_available,
                    stalled,
                    has_rolled_out,
                    replica_failure,
                    preserved_selector: None,
                }
            },
        )
}

pub(super) fn any_observed() -> impl Strategy<Value = Observed> {
    let reason = proptest::sample::select(vec![Reason::NameConflict, Reason::Paused]);
    let problem = (reason, ".{0,2000}").prop_map(|(reason, message)| Problem { reason, message });
    let failure = proptest::option::of((0_usize..20, ".{0,700}", proptest::option::of(0_i8..24)));
    let problem = || proptest::option::of(problem.clone());
    (
        proptest::option::of(any_deployment()),
        any::<bool>(),
        (0_i64..1100, 0_i64..1100),
        (problem(), problem()),
        failure,
    )
        .prop_map(
            |(deployment, service, (count, ready), (problem, unconfirmed), failure)| {
                let mut pods = pods(count, ready);
                if let Some((index, message, hour)) = failure
                    && let Some(pod) = pods.get_mut(index)
                {
                    pod.failure = Some(Box::new(PodFailure {
                        reason: Reason::CrashLoopBackOff,
                        message: message.into(),
                        since: hour
                            .map_or_else(String::new, |hour| format!("2026-01-01T{hour:02}:00:00Z"))
                            .into(),
                    }));
                }
                Observed {
                    workload: deployment,
                    others: service.then(observed_service).into_iter().collect(),
                    pods,
                    problem,
                    unconfirmed,
                    rewritten: Vec::new(),
                    now: NOON.to_owned(),
                }
            },
        )
}
