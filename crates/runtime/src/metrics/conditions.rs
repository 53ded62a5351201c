//! Metrics of the resources' conditions, read from the caches at each scrape: the number of resources
//! per state, and the names of those with a problem. Not part of controller-runtime.
//!
//! Only a limited number of resources is named.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::gauge::ConstGauge;
use serde::Deserialize;

use super::families::{Sources, encode_family, labels};
use crate::cache::cached::CachedResource;
use crate::cache::store::Store;
use crate::object::ObjectKey;
use quartet_workload::status::{DEGRADED, READY, TYPES};

/// Maximum number of combinations of status and reason per controller. The operator's own ones are
/// fewer; further ones, from users or older operators, have the reason `other`.
const MOST_STATES: usize = 100;
/// Maximum number of named conditions per controller.
const MOST_NAMED: usize = 500;

/// A condition of a resource.
#[derive(Debug, Default, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default)]
pub(crate) struct ConditionView {
    /// E.g. `Ready`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// In CamelCase.
    pub reason: String,
}

/// The values of one controller.
#[derive(Debug, Default)]
struct Tally {
    /// Number of resources by condition, status and reason.
    counts: BTreeMap<ConditionView, i64>,
    /// Conditions of resources with a problem: the first ones, so that each scrape has the same.
    named: BTreeSet<(ObjectKey, ConditionView)>,
}

impl Tally {
    fn of(resources: &Store<CachedResource>) -> Self {
        let mut tally = Tally::default();
        for resource in resources.snapshot() {
            let mut conditions = resource.conditions();
            conditions.retain(|condition| TYPES.contains(&condition.type_.as_str()));
            if !conditions.iter().any(|condition| condition.type_ == READY) {
                conditions.push(ConditionView {
                    type_: READY.to_owned(),
                    status: "Unknown".to_owned(),
                    reason: "NotReported".to_owned(),
                });
            }
            for condition in conditions {
                if wants_attention(&condition) {
                    let key = resource.meta.key.clone();
                    tally.named.insert((key, condition.clone()));
                    if tally.named.len() > MOST_NAMED {
                        tally.named.pop_last();
                    }
                }
                tally.count(condition);
            }
        }
        tally
    }

    fn count(&mut self, mut condition: ConditionView) {
        if self.counts.len() >= MOST_STATES && !self.counts.contains_key(&condition) {
            condition.status = "Unknown".to_owned();
            condition.reason = "other".to_owned();
        }
        *self.counts.entry(condition).or_default() += 1;
    }
}

fn wants_attention(condition: &ConditionView) -> bool {
    let is_true = condition.status == "True";
    condition.type_ == READY && !is_true || condition.type_ == DEGRADED && is_true
}

impl Collector for Sources<Arc<Store<CachedResource>>> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let controllers = self.0.lock();
        let tallies = controllers
            .iter()
            .map(|(name, resources)| (name.as_str(), Tally::of(resources)));
        let tallies: Vec<_> = tallies.collect();
        encode_family(
            &mut encoder,
            "resources",
            "Resources by condition, its status and reason; those that have no Ready yet are \
             NotReported.",
            tallies.iter().flat_map(|(controller, tally)| {
                tally.counts.iter().map(move |(condition, count)| {
                    let labels = labels([
                        ("controller", controller),
                        ("condition", &condition.type_),
                        ("status", &condition.status),
                        ("reason", &condition.reason),
                    ]);
                    (labels, ConstGauge::new(*count))
                })
            }),
        )?;
        encode_family(
            &mut encoder,
            "resource_condition",
            "1 for each resource that is not Ready or is Degraded, up to 500 of a controller.",
            tallies.iter().flat_map(|(controller, tally)| {
                tally.named.iter().map(move |(key, condition)| {
                    let labels = labels([
                        ("controller", controller),
                        ("namespace", key.namespace()),
                        ("name", key.name()),
                        ("condition", &condition.type_),
                        ("status", &condition.status),
                        ("reason", &condition.reason),
                    ]);
                    (labels, ConstGauge::new(1_i64))
                })
            }),
        )
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;
    use serde_json::{Value, json};

    use super::*;
    use quartet_operator::kinds::memcached::KIND;

    fn shown(resources: Vec<CachedResource>) -> String {
        let mut registry = Registry::default();
        let own = registry.sub_registry_with_prefix("quartet_operator");
        let sources = Sources::<Arc<Store<CachedResource>>>::registered(own);
        let store = Store::default();
        for resource in resources {
            store.applied(Arc::new(resource));
        }
        sources.add("nginx", Arc::new(store));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    }

    /// The manager's limit of a scrape counts on it (`SCRAPE_BYTES`).
    #[test]
    fn a_named_condition_has_at_most_480_bytes() {
        let long = |number| {
            let object = json!({
                "metadata": {
                    "namespace": "n".repeat(63), "name": format!("{number:0>253}"), "uid": "u",
                    "resourceVersion": "1",
                },
                "status": {"conditions": [
                    {"type": "Degraded", "status": "True", "reason": "MinimumReplicasUnavailable"},
                ]},
            });
            CachedResource::decode(&KIND, &serde_json::from_value(object).unwrap()).unwrap()
        };
        let text = shown((0..MOST_NAMED).map(long).collect());
        let named = "quartet_operator_resource_condition{";
        let named = text.lines().filter(|line| line.starts_with(named));
        let named: Vec<_> = named.collect();
        assert_eq!(named.len(), MOST_NAMED);
        assert!(named.iter().all(|line| line.len() <= 480), "{}", named[0]);
    }

    /// A resource with status and reason of Ready and of Degraded.
    fn resource(name: &str, ready: (&str, &str), degraded: (&str, &str)) -> CachedResource {
        let conditions = [(READY, ready), (DEGRADED, degraded)].into_iter();
        let conditions = conditions.filter(|(_, (status, _))| !status.is_empty());
        let conditions = conditions.map(
            |(type_, (status, reason))| json!({"type": type_, "status": status, "reason": reason}),
        );
        let conditions: Vec<Value> = conditions.collect();
        let object = json!({
            "metadata": {"namespace": "ns", "name": name, "uid": name, "resourceVersion": "1"},
            "status": {"conditions": conditions},
        });
        CachedResource::decode(&KIND, &serde_json::from_value(object).unwrap()).expect("decodes")
    }

    #[test]
    fn states_are_counted_and_only_what_wants_attention_is_named() {
        let text = shown(vec![
            resource("a", ("True", "RolloutComplete"), ("False", "AsExpected")),
            resource("b", ("True", "RolloutComplete"), ("False", "AsExpected")),
            resource("c", ("False", "NameConflict"), ("True", "NameConflict")),
            resource("d", ("", ""), ("", "")),
        ]);
        let all = r#"quartet_operator_resources{controller="nginx","#;
        let prefix = r#"quartet_operator_resource_condition{controller="nginx",namespace="ns","#;
        for (prefix, line) in [
            (
                all,
                r#"condition="Ready",status="True",reason="RolloutComplete"} 2"#,
            ),
            (
                all,
                r#"condition="Ready",status="Unknown",reason="NotReported"} 1"#,
            ),
            (
                all,
                r#"condition="Degraded",status="True",reason="NameConflict"} 1"#,
            ),
            (
                prefix,
                r#"name="c",condition="Ready",status="False",reason="NameConflict"} 1"#,
            ),
            (
                prefix,
                r#"name="c",condition="Degraded",status="True",reason="NameConflict"} 1"#,
            ),
            (
                prefix,
                r#"name="d",condition="Ready",status="Unknown",reason="NotReported"} 1"#,
            ),
        ] {
            let line = format!("{prefix}{line}");
            assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
        }
        assert_eq!(text.matches(prefix).count(), 3, "{text}");
    }

    #[test]
    fn however_many_are_in_trouble_few_are_named() {
        let resources = (0..2000).map(|number| {
            let name = format!("r{number:04}");
            resource(&name, ("False", "NameConflict"), ("False", "AsExpected"))
        });
        let text = shown(resources.collect());
        let series = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
        assert_eq!(series("quartet_operator_resource_condition{"), MOST_NAMED);
        assert!(text.contains("name=\"r0000\""), "the first are named");
    }
}
