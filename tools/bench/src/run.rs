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

use crate::audit::{AuditLog, Requests, Statuses};
use crate::error::Error;
use crate::fleet::Fleet;
use crate::manager::{Manager, Subject};
use crate::promises::Load;
use crate::usage::{Cpu, Memory};

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

/// What was measured of one burst, and of the rest after it.
pub(crate) struct Burst {
    /// With nothing to do.
    pub(crate) idle: Memory,
    /// From the first creation until rest.
    pub(crate) creation: Requests,
    pub(crate) creation_cpu: Cpu,
    /// In user mode; 0 if the machine does not count them.
    pub(crate) creation_instructions: u64,
    /// What our own client needed to create and watch them: a yardstick, since a second of
    /// CPU on a busy machine does less than on an idle one.
    pub(crate) yardstick: Cpu,
    /// Bytes of log in that time.
    pub(crate) logged: u64,
    /// From the first creation to the last.
    pub(crate) created_after: Duration,
    /// From the first creation until all were Ready.
    pub(crate) ready_after: Duration,
    pub(crate) statuses: Statuses,
    pub(crate) reconciles: f64,
    /// With all resources, after creating them.
    pub(crate) full: Memory,
    /// In `Plan::rest`.
    pub(crate) rest: Requests,
    pub(crate) rest_cpu: Cpu,
}

/// What was measured of our own manager.
pub(crate) struct Figures {
    pub(crate) burst: Burst,
    /// Of a manager that found all of it there when it started.
    pub(crate) restarted: Memory,
    pub(crate) restart: Requests,
    pub(crate) restart_cpu: Cpu,
    /// Two replicas with all of it there, in `Plan::rest`.
    pub(crate) pair: Pair,
    /// From SIGTERM to the first write of the other replica, the shortest first.
    pub(crate) handovers: Vec<Duration>,
}

/// A leader and its standby at rest.
pub(crate) struct Pair {
    pub(crate) leader: Memory,
    pub(crate) leader_cpu: Cpu,
    pub(crate) standby: Memory,
    pub(crate) standby_cpu: Cpu,
    /// Of both together.
    pub(crate) requests: Requests,
}

/// Starts what is needed, measures, and leaves nothing behind.
pub(crate) fn perform(
    plan: &Plan,
    subject: &Subject,
    interrupted: &Arc<AtomicBool>,
) -> Result<Figures, Error> {
    let mut stage = Stage::new(plan, subject, interrupted)?;
    let burst = stage.burst()?;
    let mut manager = Manager::start(&stage.cluster, subject)?;
    let restart = stage.until_quiet(&mut manager)?;
    let restart_cpu = manager.cpu()?;
    let restarted = manager.memory()?;
    manager.stop();
    Ok(Figures {
        burst,
        restarted,
        restart,
        restart_cpu,
        pair: stage.pair()?,
        handovers: stage.handovers()?,
    })
}

/// One burst alone, for which a manager needs no more than the flags of [`Subject`].
pub(crate) fn burst(
    plan: &Plan,
    subject: &Subject,
    interrupted: &Arc<AtomicBool>,
) -> Result<Burst, Error> {
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
    fn new(
        plan: &'a Plan,
        subject: &'a Subject,
        interrupted: &'a Arc<AtomicBool>,
    ) -> Result<Self, Error> {
        // The fleet's client and the cluster's both use ring.
        let _ = rustls::crypto::ring::default_provider().install_default();
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

    fn burst(&mut self) -> Result<Burst, Error> {
        let Plan { load, rest, .. } = *self.plan;
        let runtime = Runtime::new()?;
        let fleet = runtime.block_on(Fleet::new(&self.cluster.kubeconfig(), load))?;
        runtime.block_on(fleet.prepare())?;

        let mut manager = Manager::start(&self.cluster, self.subject)?;
        self.until_quiet(&mut manager)?;
        let idle = manager.memory()?;

        let (cpu, log) = (manager.cpu()?, manager.logged());
        let mut instructions = manager.instructions();
        let own_cpu = Cpu::of(std::process::id())?;
        let creation = fleet.create(self.plan.limit());
        let (created_after, ready_after) = runtime.block_on(self.unless_interrupted(creation))?;
        let yardstick = Cpu::of(std::process::id())?.since(own_cpu);
        let creation = self.until_quiet(&mut manager)?;
        let creation_cpu = manager.cpu()?.since(cpu);
        let creation_instructions = instructions.count();
        let logged = manager.logged() - log;
        let full = manager.memory()?;

        let cpu = manager.cpu()?;
        self.wait(&mut manager, rest)?;
        let rest_cpu = manager.cpu()?.since(cpu);
        let rest = self.audit.new_requests()?;
        let reconciles = manager.reconciles()?;
        manager.stop();
        Ok(Burst {
            idle,
            creation,
            creation_cpu,
            creation_instructions,
            yardstick,
            logged,
            created_after,
            ready_after,
            statuses: self.audit.statuses(),
            reconciles,
            full,
            rest,
            rest_cpu,
        })
    }

    /// Measures two replicas at rest. The first to be started leads: the other finds the
    /// lease taken.
    fn pair(&mut self) -> Result<Pair, Error> {
        let mut leader = Manager::replica(&self.cluster, self.subject, "leader")?;
        self.until_quiet(&mut leader)?;
        let mut standby = Manager::replica(&self.cluster, self.subject, "standby")?;
        self.until_quiet(&mut standby)?;
        let (leader_cpu, standby_cpu) = (leader.cpu()?, standby.cpu()?);
        self.wait(&mut leader, self.plan.rest)?;
        let pair = Pair {
            leader: leader.memory()?,
            leader_cpu: leader.cpu()?.since(leader_cpu),
            standby: standby.memory()?,
            standby_cpu: standby.cpu()?.since(standby_cpu),
            requests: self.audit.new_requests()?,
        };
        standby.stop();
        leader.stop();
        Ok(pair)
    }

    /// An error if something died or somebody wants us to end.
    fn check(&self, manager: &mut Manager) -> Result<(), Error> {
        manager.check()?;
        self.cluster.check()?;
        self.check_interrupted()
    }

    fn check_interrupted(&self) -> Result<(), Error> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(devcluster::Error::Interrupted.into());
        }
        Ok(())
    }

    /// What `work` returns, unless somebody wants us to end or a component dies first.
    async fn unless_interrupted<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
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

    fn wait(&self, manager: &mut Manager, time: Duration) -> Result<(), Error> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.check(manager)?;
            sleep(POLL.min(end.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }

    /// Waits until the manager asks for nothing but watches and the lease any more; returns what it asked
    /// for since the log was last looked at.
    fn until_quiet(&mut self, manager: &mut Manager) -> Result<Requests, Error> {
        let began = Instant::now();
        let mut last = began;
        let mut all = Requests::new();
        while last.elapsed() < QUIET {
            self.check(manager)?;
            let new = self.audit.new_requests()?;
            if new
                .keys()
                .any(|request| !request.is_watch() && !request.is_election())
            {
                last = Instant::now();
            }
            for (request, count) in new {
                *all.entry(request).or_default() += count;
            }
            if began.elapsed() > UNTIL_QUIET {
                return Err(Error::Late {
                    what: "that the manager comes to rest".to_owned(),
                    limit: UNTIL_QUIET,
                });
            }
            sleep(POLL);
        }
        Ok(all)
    }
}
