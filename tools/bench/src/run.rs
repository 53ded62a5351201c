//! One run: a cluster, a manager, resources, and rest; of our own manager also a restart, two of them,
//! and one in place of another.

mod handover;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use devcluster::{Cluster, Options};
use tokio::runtime::Runtime;

use crate::Result;
use crate::audit::{AuditLog, Request, Requests, count, listed, quantile};
use crate::fleet::Fleet;
use crate::manager::{Manager, Subject};
use crate::promises::{Load, row};
use crate::table::Rows;
use crate::usage::{self, Instructions};

/// The kinds' old versions alone, which need no conversion webhook.
const DEFINITIONS: &str = "config/crd-original";

/// The manager has come to rest when it has asked for nothing for this long.
const QUIET: Duration = Duration::from_secs(5);

/// How long it may take to come to rest after all is Ready, or after its start.
const UNTIL_QUIET: Duration = Duration::from_secs(120);

const POLL: Duration = Duration::from_millis(500);

/// What is to be measured.
pub(crate) struct Plan {
    pub(crate) load: Load,
    pub(crate) rest: Duration,
    /// The folder that holds config/.
    pub(crate) root: PathBuf,
}

impl Plan {
    /// A slow machine gets 0.3 s for each resource.
    fn limit(&self) -> Duration {
        Duration::from_secs(120) + self.load.resources * Duration::from_millis(300)
    }
}

/// Measures a burst, a restart, two replicas at rest, and hand-overs, of our own manager; leaves nothing
/// behind.
pub(crate) fn whole(plan: &Plan, subject: &Subject, interrupted: &Arc<AtomicBool>) -> Result<Rows> {
    let mut stage = Stage::new(plan, subject, interrupted)?;
    let mut rows = stage.burst()?;
    rows.extend(stage.restart()?);
    rows.extend(stage.pair()?);
    let times = stage.handovers()?;
    eprintln!("bench: hand-overs in ms: {times:.0?}");
    rows.push((row::HANDOVER, quantile(&times, 50)));
    Ok(rows)
}

/// Measures one burst alone, for which a manager needs no more than the flags of [`Subject`].
pub(crate) fn burst(plan: &Plan, subject: &Subject, interrupted: &Arc<AtomicBool>) -> Result<Rows> {
    Stage::new(plan, subject, interrupted)?.burst()
}

/// A cluster of its own for one manager.
struct Stage<'a> {
    plan: &'a Plan,
    subject: &'a Subject,
    cluster: Cluster,
    audit: AuditLog,
    interrupted: &'a AtomicBool,
}

impl<'a> Stage<'a> {
    fn new(plan: &'a Plan, subject: &'a Subject, interrupted: &'a Arc<AtomicBool>) -> Result<Self> {
        let cluster = Cluster::start_api_server(Options {
            interrupted: Arc::clone(interrupted),
            ..Options::default()
        })?;
        cluster.install_definitions(&plan.root.join(DEFINITIONS))?;
        cluster.start_controllers()?;
        Ok(Self {
            plan,
            subject,
            audit: AuditLog::open(&cluster.audit_log(), subject.agent)?,
            cluster,
            interrupted,
        })
    }

    fn burst(&mut self) -> Result<Rows> {
        let Plan { load, rest, .. } = *self.plan;
        let runtime = Runtime::new()?;
        let fleet = runtime.block_on(Fleet::new(&self.cluster.kubeconfig(), load))?;
        runtime.block_on(fleet.prepare())?;

        let mut manager = Manager::start(&self.cluster, self.subject)?;
        self.until_quiet(&mut manager)?;
        let idle = manager.memory()?;

        let cpu = manager.cpu()?;
        let mut instructions = Instructions::of(manager.id());
        let client_cpu = usage::cpu(std::process::id())?;
        let creation = fleet.create(self.plan.limit());
        let ready_after = runtime.block_on(self.unless_interrupted(creation))?;
        let client_cpu = usage::cpu(std::process::id())?.saturating_sub(client_cpu);
        let requests = self.until_quiet(&mut manager)?;
        let cpu = manager.cpu()?.saturating_sub(cpu);
        let instructions = instructions.count();
        let full = manager.memory()?;

        let rest_cpu = manager.cpu()?;
        self.wait(&mut manager, rest)?;
        let rest_cpu = manager.cpu()?.saturating_sub(rest_cpu);
        let at_rest = self.audit.new_requests()?;
        let reconciles = manager.reconciles()?;
        manager.stop();

        eprintln!("bench: requests while creating: {}", listed(&requests));
        eprintln!("bench: requests at rest: {}", listed(&at_rest));
        let each = |all: f64| all / f64::from(load.resources);
        let statuses = self.audit.statuses();
        let mut rows = vec![
            (row::REQUESTS, each(count(&requests, |it| !it.is_watch()))),
            (row::READS, each(count(&requests, Request::is_read))),
            (row::STATUS_WRITES, f64::from(statuses.most_writes)),
            (
                row::FIRST_STATUS_P50,
                quantile(&statuses.after_children, 50),
            ),
            (
                row::STATUS_AFTER_CHILDREN,
                quantile(&statuses.after_children, 99),
            ),
            (
                row::STATUS_AFTER_CREATION,
                quantile(&statuses.after_creation, 99),
            ),
            (row::ALL_READY, ready_after.as_secs_f64()),
            (row::RECONCILES, each(reconciles)),
            (row::CPU, each(1000.0 * cpu.as_secs_f64())),
            (row::CLIENT_CPU, each(1000.0 * client_cpu.as_secs_f64())),
            (row::MEMORY_IDLE, idle.resident),
            (row::MEMORY_IDLE_ALONE, idle.anonymous),
            (row::MEMORY_FULL, full.resident),
            (row::MEMORY_FULL_ALONE, full.anonymous),
            (row::REQUESTS_AT_REST, count(&at_rest, Request::is_work)),
            (row::CPU_AT_REST, self.share_of_rest(rest_cpu)),
        ];
        // A machine that does not count them has no such row.
        if instructions > 0 {
            rows.push((row::INSTRUCTIONS, each(instructions as f64 / 1e6)));
        }
        Ok(rows)
    }

    /// Measures a manager that finds all of it there when it starts.
    fn restart(&mut self) -> Result<Rows> {
        let mut manager = Manager::start(&self.cluster, self.subject)?;
        let requests = self.until_quiet(&mut manager)?;
        eprintln!("bench: requests of a restart: {}", listed(&requests));
        let rows = vec![
            (row::RESTART_CPU, manager.cpu()?.as_secs_f64()),
            (row::MEMORY_RESTARTED, manager.memory()?.resident),
        ];
        manager.stop();
        Ok(rows)
    }

    /// Measures two replicas at rest. The first to be started leads: the other finds the
    /// lease taken.
    fn pair(&mut self) -> Result<Rows> {
        let mut leader = Manager::replica(&self.cluster, self.subject, "leader")?;
        self.until_quiet(&mut leader)?;
        let mut standby = Manager::replica(&self.cluster, self.subject, "standby")?;
        self.until_quiet(&mut standby)?;
        let before = [leader.cpu()?, standby.cpu()?];
        self.wait(&mut leader, self.plan.rest)?;
        let cpu = [leader.cpu()? - before[0], standby.cpu()? - before[1]];
        let rows = vec![
            (row::LEADER_CPU, self.share_of_rest(cpu[0])),
            (row::LEADER_MEMORY, leader.memory()?.resident),
            (row::STANDBY_CPU, self.share_of_rest(cpu[1])),
            (row::STANDBY_MEMORY, standby.memory()?.resident),
        ];
        let requests = self.audit.new_requests()?;
        eprintln!(
            "bench: requests of two replicas at rest: {}",
            listed(&requests)
        );
        standby.stop();
        leader.stop();
        Ok(rows)
    }

    /// In percent of a core.
    fn share_of_rest(&self, cpu: Duration) -> f64 {
        100.0 * cpu.as_secs_f64() / self.plan.rest.as_secs_f64()
    }

    /// An error if something died or somebody wants us to end.
    fn check(&self, manager: &mut Manager) -> Result<()> {
        manager.check()?;
        self.cluster.check()?;
        self.check_interrupted()
    }

    fn check_interrupted(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(devcluster::Error::Interrupted.into());
        }
        Ok(())
    }

    /// What `work` returns, unless somebody wants us to end or a component dies first.
    async fn unless_interrupted<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let watch = async {
            loop {
                tokio::time::sleep(POLL).await;
                self.cluster.check()?;
                self.check_interrupted()?;
            }
        };
        tokio::select! {
            done = work => done,
            failed = watch => failed,
        }
    }

    fn wait(&self, manager: &mut Manager, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.check(manager)?;
            sleep(POLL.min(end.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }

    /// Waits until the manager asks for nothing but watches and the lease any more; returns what it asked
    /// for since the log was last looked at.
    fn until_quiet(&mut self, manager: &mut Manager) -> Result<Requests> {
        let began = Instant::now();
        let mut last = began;
        let mut all = Requests::new();
        while last.elapsed() < QUIET {
            self.check(manager)?;
            let new = self.audit.new_requests()?;
            if new.keys().any(Request::is_work) {
                last = Instant::now();
            }
            for (request, count) in new {
                *all.entry(request).or_default() += count;
            }
            if began.elapsed() > UNTIL_QUIET {
                return Err(format!("the manager does not rest within {UNTIL_QUIET:?}").into());
            }
            sleep(POLL);
        }
        Ok(all)
    }
}
