//! The children of a resource depend on its spec and not on its history: for every ordered pair (a,
//! b) of values of every field of both versions that may change freely, changing from a to b gives the
//! children that creating with b gives. The versions of the writes alternate, so that b replaces what
//! was written in the other version; with `PAIRS=all`, as in `make test-nightly`, b is also written in
//! the version of a. A value that the API server or the operator rejects changes nothing. The version
//! of the first write is random; `PAIRS_SEED` repeats a run.
//!
//! The values come from the schemas, and the API server decides which of them are valid. One
//! manager reconciles all resources, whose fields are walked concurrently.

mod circuit;
mod resource;
mod values;
mod view;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use futures::{StreamExt as _, TryStreamExt as _};
use quartet_operator::api::{Kind, Version};
use serde_json::Value;

use self::resource::{Children, Expected, Outcome, Walker, Walks};
use self::values::Walked;
use crate::environment::kinds_with_deployments;
use crate::shared::BOTH_VERSIONS;

const NAMESPACE: &str = "pairs";
/// The most steps of one resource.
const STEPS: usize = 16;
/// Number of concurrent resources.
const AT_ONCE: usize = 48;

/// One field of one version of one kind, with the results of creating with each of its values.
struct Field {
    kind: &'static Kind,
    version: &'static Version,
    path: Vec<&'static str>,
    asks_for_ports: bool,
    /// Values that give children.
    accepted: Vec<(Option<Value>, Children)>,
    /// Values that the API server stores and the operator rejects.
    degraded: Vec<Option<Value>>,
    /// Values that the API server rejects.
    refused: Vec<Option<Value>>,
}

/// The versions in which a resource is written in turn.
type Through = [&'static Version; 2];

/// The number of steps.
#[derive(Default)]
struct Count {
    steps: AtomicUsize,
    refused: AtomicUsize,
}

impl Field {
    /// Creates a resource with each value.
    async fn of(
        walks: &Walks<'_>,
        (kind, version): (&'static Kind, &'static Version),
        walked: Walked,
    ) -> Result<Self, String> {
        let all_values = format!("{} {:?}", values::base(version), walked.values);
        let asks_for_ports = all_values.contains(values::PORTS[0]);
        let mut field = Self {
            kind,
            version,
            path: walked.path,
            asks_for_ports,
            accepted: Vec::new(),
            degraded: Vec::new(),
            refused: Vec::new(),
        };
        let outcomes = walked.values.iter().map(|value| {
            let spec = values::with(values::base(version), &field.path, value.as_ref());
            async move {
                let mut walker = Walker::new(walks, kind, version, version, asks_for_ports).await;
                let outcome = walker.create(&spec, None).await?;
                walker.free_ports().await?;
                Ok::<_, String>(outcome)
            }
        });
        let outcomes: Vec<_> = futures::stream::iter(outcomes)
            .buffered(4)
            .try_collect()
            .await
            .map_err(|error| format!("{field}: {error}"))?;
        for (value, outcome) in walked.values.into_iter().zip(outcomes) {
            match outcome {
                Outcome::Applied(children) => field.accepted.push((value, children)),
                Outcome::Degraded => field.degraded.push(value),
                Outcome::Refused(_) => field.refused.push(value),
            }
        }
        let is_walked = field.accepted.len() >= 2 && !field.refused.is_empty();
        match is_walked {
            true => Ok(field),
            false => Err(format!(
                "{field}: too few values to walk: {:?}",
                field.degraded
            )),
        }
    }

    fn spec(&self, value: Option<&Value>) -> Value {
        values::with(values::base(self.version), &self.path, value)
    }

    fn value(&self, node: usize) -> (Option<&Value>, Option<&Children>) {
        match self.accepted.get(node) {
            Some((value, children)) => (value.as_ref(), Some(children)),
            None => (self.degraded[node - self.accepted.len()].as_ref(), None),
        }
    }

    /// Returns the parts of a walk over all pairs, one part per resource.
    fn parts(&self) -> Vec<Vec<usize>> {
        let nodes = self.accepted.len() + self.degraded.len();
        let walk = circuit::circuit(nodes, self.degraded.len());
        let starts = (0..walk.len().saturating_sub(1)).step_by(STEPS);
        starts
            .map(|start| walk[start..walk.len().min(start + STEPS + 1)].to_vec())
            .collect()
    }

    /// Changes a resource through the values `part`, written in the versions `through` in turn.
    async fn walk(
        &self,
        walks: &Walks<'_>,
        through: Through,
        part: &[usize],
        count: &Count,
    ) -> Result<(), String> {
        let mut walker = Walker::new(
            walks,
            self.kind,
            self.version,
            through[0],
            self.asks_for_ports,
        )
        .await;
        let mut before: Option<&Children> = None;
        let mut history = Vec::new();
        for (step, node) in part.iter().enumerate() {
            let (value, expected) = self.value(*node);
            history.push(value);
            walker.through = through[step % 2];
            let degraded = expected.is_none();
            let expected = expected.or(before);
            let wanted = expected.map(|children| Expected { children, degraded });
            let spec = self.spec(value);
            let outcome = match step {
                0 => walker.create(&spec, wanted.as_ref()).await,
                _ => walker.change(&spec, wanted.as_ref()).await,
            };
            let place = || format!("{self} through {through:?}, {}", shown(&history));
            let outcome = outcome.map_err(|error| format!("{}: {error}", place()))?;
            let (children, expected) = match (outcome, expected) {
                (Outcome::Refused(message), _) => {
                    return Err(format!("{}: rejected: {message}", place()));
                }
                (Outcome::Applied(children), Some(expected)) => (children, expected),
                (Outcome::Degraded, Some(expected)) => (walker.children(&spec).await?, expected),
                // Created with a value that the operator rejects.
                (_, None) => continue,
            };
            if *expected != children {
                return Err(format!(
                    "{}:\n{children:#}\nin place of\n{expected:#}",
                    place()
                ));
            }
            before = Some(expected);
            count
                .steps
                .fetch_add(usize::from(step > 0), Ordering::Relaxed);
            if step == 0 {
                self.try_rejected(&mut walker, &children, value, count)
                    .await?;
            }
        }
        walker.free_ports().await
    }

    /// Tries every value that the API server rejects; none may change anything.
    async fn try_rejected(
        &self,
        walker: &mut Walker<'_>,
        before: &Children,
        now: Option<&Value>,
        count: &Count,
    ) -> Result<(), String> {
        for value in &self.refused {
            if value.is_none() && !walker.writes_own_version() {
                // Required in this version, and defaulted in the other.
                continue;
            }
            let outcome = walker.change(&self.spec(value.as_ref()), None).await;
            if !matches!(outcome, Ok(Outcome::Refused(_))) {
                return Err(format!("{self}: {value:?} is not rejected: {outcome:?}"));
            }
            count.refused.fetch_add(1, Ordering::Relaxed);
        }
        let after = walker.children(&self.spec(now)).await?;
        match after == *before {
            true => Ok(()),
            false => Err(format!("{self}: changed by a rejected value: {after:#}")),
        }
    }
}

impl std::fmt::Display for Field {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, version) = (self.kind.kind, self.version.name);
        write!(formatter, "{kind} {version} spec.{}", self.path.join("."))
    }
}

/// Formats a history of values.
fn shown(history: &[Option<&Value>]) -> String {
    let shown = |value: &Option<&Value>| value.map_or("absent".to_owned(), Value::to_string);
    history.iter().map(shown).collect::<Vec<_>>().join(" -> ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn changing_a_field_gives_the_children_that_creating_with_its_value_gives() {
    let env = BOTH_VERSIONS.test_env().await;
    env.create_namespace(NAMESPACE).await;
    let _manager = env.start_manager(NAMESPACE);
    let walks = Walks::new(&env, NAMESPACE);
    let started = Instant::now();

    let every_field = kinds_with_deployments().into_iter().flat_map(|kind| {
        let versions = [&kind.spoke, &kind.hub].into_iter();
        versions.flat_map(move |version| {
            let fields = values::fields(version).into_iter();
            fields.map(move |field| ((kind, version), field))
        })
    });
    let fields = every_field.map(|(of, walked)| Field::of(&walks, of, walked));
    let mut fields: Vec<Field> = futures::stream::iter(fields)
        .buffer_unordered(AT_ONCE / 4)
        .try_collect()
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    println!(
        "{} fields, each value created in {:?}",
        fields.len(),
        started.elapsed()
    );

    let every = std::env::var("PAIRS").is_ok_and(|which| which == "all");
    let seed = std::env::var("PAIRS_SEED").ok();
    let seed = seed.map(|text| text.parse().expect("PAIRS_SEED is a number"));
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("the versions follow from PAIRS_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (count, started) = (Arc::new(Count::default()), Instant::now());
    fields.sort_by_key(ToString::to_string);
    let mut parts = Vec::new();
    for field in &fields {
        let [spoke, hub] = [&field.kind.spoke, &field.kind.hub];
        for part in field.parts() {
            let ways: Vec<Through> = match every {
                true => vec![[spoke, hub], [hub, spoke], [spoke, spoke], [hub, hub]],
                false if random.bool() => vec![[hub, spoke]],
                false => vec![[spoke, hub]],
            };
            parts.extend(
                ways.into_iter()
                    .map(|through| (field, through, part.clone())),
            );
        }
    }
    let walked = parts.into_iter().map(|(field, through, part)| {
        let (walks, count) = (&walks, &count);
        async move { field.walk(walks, through, &part, count).await.err() }
    });
    let failed: Vec<String> = futures::stream::iter(walked)
        .buffer_unordered(AT_ONCE)
        .filter_map(std::future::ready)
        .collect()
        .await;
    let steps = count.steps.load(Ordering::Relaxed);
    let refused = count.refused.load(Ordering::Relaxed);
    println!(
        "{steps} changes and {refused} rejections in {:?}",
        started.elapsed()
    );
    let shown = failed
        .iter()
        .take(5)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n\n");
    assert!(failed.is_empty(), "{} walks failed:\n{shown}", failed.len());
}
