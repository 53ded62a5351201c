//! One plan from the first to the last request: what the user does, the fault, and what is
//! stored and when. Judges only what time tells; the rest is for `judge`.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use faultproxy::{Action, Installed, Match, Rule};
use serde_json::Value;
use testkit::{Limit, load_factor};
use tokio::sync::Barrier;
use tokio::time::{Instant, sleep};

use super::fleet::{Fleet, POLL};
use super::life::{Form, Step, Stored};
use super::plan::{Fault, HELD_AT_MOST, Place, Plan, STALE_FOR};
use crate::oracle::{Violation, rest, violation};

/// How many times as long as promised a plan may take where no process waits for a processor, see
/// [`Limit`].
const PATIENCE: u32 = 2;

/// From when on there is rest: the last status may wait for half a second, and the last pods go
/// away a moment later.
const SETTLES: Duration = Duration::from_millis(2500);
/// And for how long nothing may happen then.
const HOLD: Duration = Duration::from_secs(2);

/// A fault of a late request or event is made within this after all is as asked for.
const MADE_WITHIN: Duration = Duration::from_secs(3);

/// What a plan came to.
pub(crate) struct Lived {
    pub(crate) plan: Plan,
    pub(crate) name: String,
    pub(crate) node_port: u16,
    /// The user changes something.
    pub(crate) from: Instant,
    pub(crate) rest_from: Instant,
    pub(crate) rest_until: Instant,
    pub(crate) stored: Stored,
    /// From the change, or the fault, until all was as asked for.
    pub(crate) took: Duration,
    /// The fault was made.
    pub(crate) is_made: bool,
    pub(crate) violations: Vec<Violation>,
}

/// A name of its own, none of which is the beginning of another, and two NodePorts.
fn name_and_port() -> (String, u16) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    // Between what `make test` allots by hand and what the scenarios take.
    let port = 30_100 + 2 * u16::try_from(number % 990).expect("small");
    (format!("plan{number:05}"), port)
}

struct Life<'a> {
    fleet: &'a Fleet,
    plan: &'a Plan,
    name: String,
    node_port: u16,
    /// Of the resource that a step deletes.
    old: Option<Value>,
    /// A hold has been waited for.
    has_held: AtomicBool,
    violations: Vec<Violation>,
}

/// Runs a plan. Those of one manager that it does not outlive wait for each other at `barrier`.
pub(crate) async fn live(fleet: &Fleet, plan: &Plan, barrier: &Barrier) -> Lived {
    let (name, node_port) = name_and_port();
    let mut life = Life {
        fleet,
        plan,
        name,
        node_port,
        old: None,
        has_held: AtomicBool::new(false),
        violations: Vec::new(),
    };
    let forms = [plan.step.before(), plan.step.paused()];
    for form in forms.into_iter().flatten() {
        life.apply(form).await;
        life.until_met(form, None).await;
    }
    let before = life.until_settled().await;
    barrier.wait().await;
    let (from, rule, mut took) = life.change(barrier).await;
    let is_made = match &rule {
        Some(rule) => {
            let began = Instant::now();
            while rule.took_effect() == 0 && began.elapsed() < MADE_WITHIN {
                life.wait(Some(rule)).await;
            }
            rule.took_effect() > 0
        }
        None => true,
    };
    // All may be as asked for although the call still waits for its answer.
    sleep(plan.waits_for_an_answer()).await;
    let again = Instant::now();
    life.until_met(plan.step.after(), rule.as_ref()).await;
    took += again.elapsed();
    barrier.wait().await;
    // A kill that was on its way when all was as asked for has happened.
    fleet.keep_running();
    if plan.kills() {
        fleet.until_watching().await;
    }
    if let Some(rule) = &rule {
        rule.remove();
    }
    let at_rest = life.until_settled().await;
    let rest_from = Instant::now();
    sleep(HOLD).await;
    let (rest_until, stored) = (Instant::now(), life.stored());
    let changed = rest::changed(&versions(&at_rest), &versions(&stored));
    life.violations.extend(changed);
    life.compare_uids(&before, &stored);
    barrier.wait().await;
    fleet.stage.delete(plan.kind, &life.name).await;
    Lived {
        plan: plan.clone(),
        name: life.name,
        node_port,
        from,
        rest_from,
        rest_until,
        stored,
        took,
        is_made,
        violations: life.violations,
    }
}

fn versions(stored: &Stored) -> [Value; 3] {
    let version = |object: &Option<Value>| {
        let object = object.as_ref();
        object.map_or(Value::Null, |it| it["metadata"]["resourceVersion"].clone())
    };
    [&stored.resource, &stored.deployment, &stored.service].map(version)
}

fn uid(object: &Option<Value>) -> Option<&Value> {
    object.as_ref().map(|it| &it["metadata"]["uid"])
}

impl Life<'_> {
    fn stored(&self) -> Stored {
        self.fleet.stored(self.plan.kind, &self.name)
    }

    /// Waits until nothing has changed for a while; not for ever, so that what never rests is
    /// found.
    async fn until_settled(&self) -> Stored {
        let began = Instant::now();
        loop {
            let before = self.stored();
            let settles = SETTLES.mul_f64(load_factor());
            sleep(settles).await;
            // A kill may be on its way for as long as the request was.
            self.fleet.keep_running();
            let now = self.stored();
            if versions(&before) == versions(&now) || began.elapsed() > 6 * settles {
                return now;
            }
        }
    }

    async fn apply(&mut self, form: Form) {
        let object = form.object(self.plan.kind, &self.name, self.node_port);
        if let Err(error) = self.fleet.stage.apply(&object).await {
            let what = format!("the user's write is refused: {error:?}");
            self.violations.push(violation("O1", what));
        }
    }

    async fn act(&mut self) {
        if self.plan.step == Step::Replace {
            self.old = uid(&self.stored().resource).cloned();
            self.fleet.stage.delete(self.plan.kind, &self.name).await;
        }
        self.apply(self.plan.step.after()).await;
    }

    /// Does what the step says, with the fault in force, and waits until all is as asked for.
    async fn change(&mut self, barrier: &Barrier) -> (Instant, Option<Installed>, Duration) {
        let (fleet, after) = (self.fleet, self.plan.step.after());
        if let Place::Restart { is_after } = self.plan.place {
            return self.restart(is_after, barrier).await;
        }
        let rule = self.plan.install(&fleet.proxy, &self.name, fleet.killer());
        let from = Instant::now();
        self.act().await;
        self.until_met(after, rule.as_ref()).await;
        (from, rule, from.elapsed())
    }

    /// The next manager's lists and watches are those of before the step.
    async fn restart(
        &mut self,
        is_after: bool,
        barrier: &Barrier,
    ) -> (Instant, Option<Installed>, Duration) {
        let after = self.plan.step.after();
        let from = Instant::now();
        let snapshot = self.fleet.proxy.snapshot().await;
        let snapshot = snapshot.expect("the API server answers");
        barrier.wait().await;
        if is_after {
            self.act().await;
            self.until_met(after, None).await;
            self.until_settled().await;
        }
        let met = self.stored();
        let is_leader = barrier.wait().await.is_leader();
        let lists = Match::verbs(&["list", "watch"]);
        let rule = is_leader.then(|| {
            let stale = Rule::new(lists, Action::Stale(snapshot));
            let rule = self.fleet.proxy.install(stale);
            self.fleet.restart();
            rule
        });
        barrier.wait().await;
        self.fleet.until_watching().await;
        if !is_after {
            self.act().await;
        }
        sleep(STALE_FOR).await;
        if is_after {
            self.is_not_rolled_back(&met);
        }
        barrier.wait().await;
        if let Some(rule) = &rule {
            rule.remove();
        }
        let again = Instant::now();
        self.until_met(after, None).await;
        (from, rule, again.elapsed())
    }

    /// What a manager with an old cache must not touch: it writes what it knows, and that is of
    /// an earlier generation.
    fn is_not_rolled_back(&mut self, met: &Stored) {
        let now = self.stored();
        for (before, after) in [
            (&met.deployment, &now.deployment),
            (&met.service, &now.service),
        ] {
            let spec = |object: &Option<Value>| object.as_ref().map(|it| it["spec"].clone());
            if uid(before) != uid(after) || spec(before) != spec(after) {
                let what = format!("an earlier state came back: {before:?}, then {after:?}");
                self.violations.push(violation("O2", what));
            }
        }
    }

    /// Waits until all is as asked for. That it takes too long is a violation of O1.
    async fn until_met(&mut self, form: Form, rule: Option<&Installed>) {
        let patience = PATIENCE * self.plan.promised();
        let (began, mut limit) = (Instant::now(), Limit::new(patience));
        while let Err(why) = self.is_met(form) {
            if limit.is_over() {
                let what = format!("not as asked for after {:?}: {why}", began.elapsed());
                self.violations.push(violation("O1", what));
                return;
            }
            self.wait(rule).await;
        }
    }

    fn is_met(&self, form: Form) -> Result<(), String> {
        let stored = self.stored();
        if self.old.is_some() && uid(&stored.resource) == self.old.as_ref() {
            return Err("it is still the old one".to_owned());
        }
        form.is_met(self.plan.kind, &stored, self.node_port)
    }

    /// A moment, in which a manager that was killed starts again and a hold may end.
    async fn wait(&self, rule: Option<&Installed>) {
        sleep(POLL).await;
        self.fleet.keep_running();
        let held = rule.filter(|rule| self.plan.fault == Fault::Held && rule.met() > 0);
        if let Some(rule) = held.filter(|_| !self.has_held.swap(true, Ordering::Relaxed)) {
            sleep(HELD_AT_MOST).await;
            rule.remove();
        }
    }

    /// A resource that stayed kept its Deployment, and one that was made anew has another.
    fn compare_uids(&mut self, before: &Stored, after: &Stored) {
        let is_same = uid(&before.deployment) == uid(&after.deployment);
        let shall_be = self.plan.step != Step::Replace;
        if before.deployment.is_some() && is_same != shall_be {
            let (before, after) = (uid(&before.deployment), uid(&after.deployment));
            let what = format!("the Deployment was {before:?} and is {after:?}");
            self.violations.push(violation("O3", what));
        }
    }
}
