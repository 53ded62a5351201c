//! What the manager costs with very many resources. A scripted API server ([`server`]) takes the place
//! of the control plane, which would need more than this machine has: it keeps every object as JSON, and
//! plays Deployment controller and kubelet. The manager is a process of its own, and talks to it over
//! TLS as to any other.

mod cluster;
mod load;
mod objects;
mod report;
mod server;
mod table;
mod watch;
mod writes;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use self::load::Load;
pub(crate) use self::report::{MEMORY_PER_RESOURCE, rows};
use self::server::Server;
use crate::audit::Requests;
use crate::error::Error;
use crate::figures::{self, Ledger};
use crate::manager::{Manager, Subject};
use crate::promises::Promises;
use crate::usage::{Cpu, Memory};
use crate::webhook::server::Identity;

/// The manager is at rest when for this long it has asked for nothing and used hardly any CPU.
const QUIET: Duration = Duration::from_secs(5);
/// That much, of one core.
const HARDLY: f64 = 0.01;
/// How long it may take to come to rest.
const UNTIL_QUIET: Duration = Duration::from_secs(900);
const POLL: Duration = Duration::from_millis(100);

/// What is to be measured.
#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// The manager's binary
    #[arg(long, default_value = "target/release/manager")]
    manager: PathBuf,
    /// How many resources to create, a quarter of each kind; a manager each; with commas between
    #[arg(long, value_delimiter = ',', default_values_t = [10_000, 50_000, 100_000],
          value_parser = clap::value_parser!(u32).range(4..=140_000))]
    resources: Vec<u32>,
    /// Pods of each resource
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=10))]
    pods: u32,
    /// Resources that are created before the first of them is Ready
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    at_a_time: u32,
    /// Changes of one resource amid all
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    changes: u32,
    /// The CSV file whose figures with as many resources are replaced; with a pod each only
    #[arg(long, conflicts_with = "pods")]
    record: Option<PathBuf>,
}

/// What was measured with so many resources.
struct Figures {
    resources: u32,
    idle: Memory,
    /// From the first creation until rest.
    burst: Requests,
    burst_cpu: Cpu,
    /// From the first creation until all were Ready.
    ready_after: Duration,
    full: Memory,
    /// Of a manager that found all of it there, from its start until rest.
    start: Requests,
    start_cpu: Cpu,
    start_after: Duration,
    restarted: Memory,
    /// From each change to its apply, the shortest first.
    changes: Vec<Duration>,
    changes_cpu: Cpu,
}

/// Measures, and prints tables.
///
/// # Errors
/// A manager that does not start, dies or is late; a promise that is missed by too much.
pub(crate) fn perform(
    plan: &Plan,
    mut promises: Promises,
    interrupted: &AtomicBool,
) -> Result<(), Error> {
    let subject = Subject::ours(&plan.manager);
    subject.size()?;
    let ledger = plan.record.as_deref().map(Ledger::open).transpose()?;
    let mut all = Vec::new();
    for &resources in &plan.resources {
        eprintln!("bench: {resources} resources");
        let figures = measure(plan, resources, &subject, interrupted)?;
        eprintln!("{}", report::shortly(&figures));
        all.push(figures);
    }
    println!("{}", report::tables(plan, &all, &mut promises));
    if let Some(ledger) = ledger {
        ledger.replace(
            |old: &figures::Fleet| plan.resources.contains(&old.resources),
            all.iter().flat_map(report::records),
        )?;
    }
    promises.verdict()
}

/// A manager with its API server.
struct Stage<'a> {
    identity: &'a Identity,
    kubeconfig: PathBuf,
    subject: &'a Subject,
    server: Server,
    interrupted: &'a AtomicBool,
}

fn measure(
    plan: &Plan,
    resources: u32,
    subject: &Subject,
    interrupted: &AtomicBool,
) -> Result<Figures, Error> {
    let runtime = Runtime::new()?;
    let identity = Identity::new()?;
    let (server, news) = runtime.block_on(Server::start(identity.path()))?;
    let kubeconfig = identity.path().join("kubeconfig");
    std::fs::write(&kubeconfig, server.kubeconfig(identity.path()))?;
    let stage = Stage {
        identity: &identity,
        kubeconfig,
        subject,
        server,
        interrupted,
    };
    let mut load = Load::new(plan, resources, &stage.server.cluster, news);

    let mut manager = stage.start("manager")?;
    stage.until_quiet(&mut manager)?;
    let idle = manager.memory()?;
    let (cpu, began) = (manager.cpu()?, Instant::now());
    runtime.block_on(stage.unless_interrupted(load.burst()))?;
    let ready_after = began.elapsed();
    let burst = stage.until_quiet(&mut manager)?;
    let burst_cpu = manager.cpu()?.since(cpu);
    let full = manager.memory()?;
    manager.stop();

    let began = Instant::now();
    let mut manager = stage.start("restarted")?;
    let start = stage.until_quiet(&mut manager)?;
    let start_after = began.elapsed().saturating_sub(QUIET);
    let start_cpu = manager.cpu()?;
    let restarted = manager.memory()?;

    let cpu = manager.cpu()?;
    let mut changes = runtime.block_on(stage.unless_interrupted(load.changes()))?;
    let changes_cpu = manager.cpu()?.since(cpu);
    manager.check()?;
    manager.stop();
    changes.sort_unstable();
    // What waits for its time has no one to tell any more.
    runtime.shutdown_background();
    Ok(Figures {
        resources,
        idle,
        burst,
        burst_cpu,
        ready_after,
        full,
        start,
        start_cpu,
        start_after,
        restarted,
        changes,
        changes_cpu,
    })
}

impl Stage<'_> {
    fn start(&self, name: &str) -> Result<Manager, Error> {
        self.server.take_requests();
        Manager::start_with(self.identity.path(), &self.kubeconfig, self.subject, name)
    }

    fn check_interrupted(&self) -> Result<(), Error> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(devcluster::Error::Interrupted.into());
        }
        Ok(())
    }

    async fn unless_interrupted<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let watch = async {
            loop {
                tokio::time::sleep(POLL).await;
                self.check_interrupted()?;
            }
        };
        tokio::select! {
            done = work => done,
            failed = watch => failed,
        }
    }

    /// Waits until the manager is at rest; returns what was asked for since the last look.
    fn until_quiet(&self, manager: &mut Manager) -> Result<Requests, Error> {
        let began = Instant::now();
        let (mut since, mut cpu) = (began, manager.cpu()?);
        while since.elapsed() < QUIET {
            sleep(POLL);
            manager.check()?;
            self.check_interrupted()?;
            let used = manager.cpu()?.since(cpu).all.as_secs_f64();
            let is_busy = used > HARDLY * QUIET.as_secs_f64();
            if is_busy || self.server.last_request() > since {
                (since, cpu) = (Instant::now(), manager.cpu()?);
            }
            if began.elapsed() > UNTIL_QUIET {
                return Err(Error::Late {
                    what: "that the manager comes to rest".to_owned(),
                    limit: UNTIL_QUIET,
                });
            }
        }
        Ok(self.server.take_requests())
    }
}

impl Server {
    /// How a manager reaches it; its certificate is in the folder `certificates`.
    fn kubeconfig(&self, certificates: &Path) -> String {
        let authority = certificates.join("tls.crt");
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: bench\nclusters:\n- name: bench\n  \
             cluster: {{server: 'https://{}', certificate-authority: '{}', tls-server-name: localhost}}\n\
             users: [{{name: bench, user: {{}}}}]\n\
             contexts: [{{name: bench, context: {{cluster: bench, user: bench}}}}]\n",
            self.address,
            authority.display()
        )
    }
}
