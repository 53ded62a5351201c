//! Metrics of the resources' conditions, read from the caches at each scrape: the number of resources
//! per state, and the names of those with a problem. Not part of controller-runtime.
//!
//! The number of series is bounded: unknown states are aggregated, and only a limited number of
//! resources is named.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::gauge::ConstGauge;
use serde::Deserialize;

use super::families::{Sources, encode_family, gauge_value, labels};
use quartet_workload::status::{DEGRADED, READY, TYPES};

/// Maximum number of combinations of status and reason per controller. The operator's own ones are
/// fewer; further ones, from users or older operators, have the reason `other`.
const MOST_STATES: usize = 100;
/// Maximum number of named conditions per controller.
const MOST_NAMED: usize = 500;

/// A condition of a resource.
#[derive(Debug, Default, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default)]
pub struct ConditionView {
    /// E.g. `Ready`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// In CamelCase.
    pub reason: String,
}

/// Calls its argument with namespace, name and conditions of each resource of a controller.
pub type VisitConditions = Box<dyn Fn(&mut Visit<'_>) + Send + Sync>;

type Visit<'a> = dyn FnMut(&str, &str, Vec<ConditionView>) + 'a;

/// The values of one controller.
#[derive(Debug, Default)]
struct Tally {
    /// Number of resources by condition, status and reason.
    counts: BTreeMap<ConditionView, i64>,
    /// Namespace, name and condition of resources with a problem: the first ones, so that each scrape has
    /// the same.
    named: BTreeSet<(String, String, ConditionView)>,
    left_out: usize,
}

impl Tally {
    fn of(resources: &VisitConditions) -> Self {
        let mut tally = Tally::default();
        resources(&mut |namespace, name, mut conditions| {
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
                    let (namespace, name) = (namespace.to_owned(), name.to_owned());
                    tally.named.insert((namespace, name, condition.clone()));
                    if tally.named.len() > MOST_NAMED {
                        tally.named.pop_last();
                        tally.left_out += 1;
                    }
                }
                tally.count(condition);
            }
        });
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

impl Collector for Sources<VisitConditions> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let controllers = self.0.lock();
        let tallies = controllers
            .iter()
            .map(|(name, resources)| (name.as_str(), Tally::of(resources)));
        let tallies: Vec<_> = tallies.collect();
        encode_family(
            &mut encoder,
            "quartet_operator_resources",
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
            "quartet_operator_resource_condition",
            "1 for each resource that is not Ready or is Degraded, up to 500 of a controller.",
            tallies.iter().flat_map(|(controller, tally)| {
                tally.named.iter().map(move |(namespace, name, condition)| {
                    let labels = labels([
                        ("controller", controller),
                        ("namespace", namespace),
                        ("name", name),
                        ("condition", &condition.type_),
                        ("status", &condition.status),
                        ("reason", &condition.reason),
                    ]);
                    (labels, ConstGauge::new(1_i64))
                })
            }),
        )?;
        encode_family(
            &mut encoder,
            "quartet_operator_resource_condition_left_out",
            "Conditions beyond those of quartet_operator_resource_condition.",
            tallies.iter().map(|(controller, tally)| {
                let labels = labels([("controller", controller)]);
                (labels, ConstGauge::new(gauge_value(tally.left_out)))
            }),
        )
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    /// Resources by name, with status and reason of Ready and of Degraded.
    type Fixed = Vec<(String, [(&'static str, String); 2])>;

    fn visit(resources: Fixed) -> VisitConditions {
        Box::new(move |visit| {
            for (name, conditions) in &resources {
                let named = [READY, DEGRADED].into_iter().zip(conditions);
                let conditions = named.filter(|(_, (status, _))| !status.is_empty());
                let conditions = conditions.map(|(type_, (status, reason))| ConditionView {
                    type_: type_.to_owned(),
                    status: (*status).to_owned(),
                    reason: reason.clone(),
                });
                visit("ns", name, conditions.collect());
            }
        })
    }

    fn shown(resources: Fixed) -> String {
        let mut registry = Registry::default();
        let sources = Sources::<VisitConditions>::registered(&mut registry);
        sources.add("nginx", visit(resources));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    }

    fn resource(
        name: &str,
        ready: (&'static str, &str),
        degraded: (&'static str, &str),
    ) -> (String, [(&'static str, String); 2]) {
        let own = |(status, reason): (&'static str, &str)| (status, reason.to_owned());
        (name.to_owned(), [own(ready), own(degraded)])
    }

    #[test]
    fn states_are_counted_and_only_what_wants_attention_is_named() {
        let text = shown(vec![
            resource("a", ("True", "RolloutComplete"), ("False", "AsExpected")),
            resource("b", ("True", "RolloutComplete"), ("False", "AsExpected")),
            resource("c", ("False", "NameConflict"), ("True", "NameConflict")),
            resource("d", ("", ""), ("", "")),
        ]);
        let prefix = r#"quartet_operator_resource_condition{controller="nginx",namespace="ns","#;
        for line in [
            r#"quartet_operator_resources{controller="nginx",condition="Ready",status="True",reason="RolloutComplete"} 2"#,
            r#"quartet_operator_resources{controller="nginx",condition="Ready",status="Unknown",reason="NotReported"} 1"#,
            r#"quartet_operator_resources{controller="nginx",condition="Degraded",status="True",reason="NameConflict"} 1"#,
            &format!(
                r#"{prefix}name="c",condition="Ready",status="False",reason="NameConflict"}} 1"#
            ),
            &format!(
                r#"{prefix}name="c",condition="Degraded",status="True",reason="NameConflict"}} 1"#
            ),
            &format!(
                r#"{prefix}name="d",condition="Ready",status="Unknown",reason="NotReported"}} 1"#
            ),
            r#"quartet_operator_resource_condition_left_out{controller="nginx"} 0"#,
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
        }
        assert_eq!(text.matches(prefix).count(), 3, "{text}");
    }

    #[test]
    fn however_many_are_in_trouble_and_whatever_they_say_the_series_are_few() {
        let resources = (0..2000).map(|number| {
            let reason = format!("Reason{number}");
            resource(
                &format!("r{number:04}"),
                ("False", &reason),
                ("False", "AsExpected"),
            )
        });
        let text = shown(resources.collect());
        let series = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
        assert_eq!(series("quartet_operator_resource_condition{"), MOST_NAMED);
        assert!(series("quartet_operator_resources{") <= MOST_STATES + TYPES.len());
        assert!(
            text.contains("left_out{controller=\"nginx\"} 1500\n"),
            "{text}"
        );
        assert!(text.contains("name=\"r0000\""), "the first are named");
        assert!(
            text.contains(r#"condition="Ready",status="Unknown",reason="other"} 1901"#),
            "{text}"
        );
    }
}
