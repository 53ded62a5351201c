//! How long nobody writes when a leader is told to stop: each replica is a user of its own in the audit
//! log, and a client keeps changing children, so that whoever leads always has to write.

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use devcluster::AuditLog;
use jiff::Timestamp;
use tokio::runtime::Runtime;

use super::Stage;
use crate::Result;
use crate::fleet::Fleet;
use crate::manager::Manager;

const TRIALS: usize = 5;

/// How long the children change before the leader is told to stop.
const WORK: Duration = Duration::from_secs(1);

/// Within this time the other replica has written.
const LIMIT: Duration = Duration::from_secs(30);

const POLL: Duration = Duration::from_millis(50);

impl Stage<'_> {
    /// The times from SIGTERM to the answer to the first write of the other replica, in milliseconds.
    pub(super) fn handovers(&mut self) -> Result<Vec<f64>> {
        let runtime = Runtime::new()?;
        let kubeconfig = self.cluster.kubeconfig();
        let fleet = Fleet::new(&kubeconfig, self.plan.load);
        let fleet = Arc::new(runtime.block_on(fleet)?);
        let mut log = AuditLog::open(&self.cluster.audit_log())?;
        let mut leader = Manager::replica(&self.cluster, self.subject, "replica-0")?;
        self.until_quiet(&mut leader)?;
        let mut times = Vec::new();
        for trial in 1..=TRIALS {
            let name = format!("replica-{trial}");
            let mut next = Manager::replica(&self.cluster, self.subject, &name)?;
            self.until_quiet(&mut next)?;
            let work = runtime.spawn(Arc::clone(&fleet).disturb());
            self.wait(&mut leader, WORK)?;
            let told = Timestamp::now();
            leader.stop();
            let written = self.first_write(&mut log, &mut next, &name, told)?;
            times.push(1000.0 * written.duration_since(told).as_secs_f64());
            work.abort();
            leader = next;
        }
        leader.stop();
        Ok(times)
    }

    /// When the first write of `replica`, which is called `name`, after `told` was answered.
    fn first_write(
        &self,
        log: &mut AuditLog,
        replica: &mut Manager,
        name: &str,
        told: Timestamp,
    ) -> Result<Timestamp> {
        let began = Instant::now();
        loop {
            let mut first = None;
            log.read(
                |line| line.contains(name),
                |event| {
                    // An informer also asks what it may do.
                    let is_write = event.verb == "patch" && event.resource != "leases";
                    if event.impersonated == name && is_write && event.received > told {
                        first.get_or_insert(event.answered);
                    }
                },
            )?;
            if let Some(first) = first {
                return Ok(first);
            }
            if began.elapsed() > LIMIT {
                return Err(
                    format!("no write of {name}, which should lead, within {LIMIT:?}").into(),
                );
            }
            self.check(replica)?;
            sleep(POLL);
        }
    }
}
