//! The manager as a process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use devcluster::{Cluster, Process, Program, free_port};

use crate::error::Error;
use crate::usage::{Cpu, Memory};

const GRACE: Duration = Duration::from_secs(10);

/// A running manager. Dropping it kills it.
pub(crate) struct Manager {
    process: Process,
    log: PathBuf,
}

impl Manager {
    /// Starts `binary` against `cluster`, the only one.
    pub(crate) fn start(cluster: &Cluster, binary: &Path) -> Result<Self, Error> {
        Self::spawn(cluster, binary, "manager", &["--leader-elect=false"])
    }

    /// Starts `binary` as the replica `name`, which waits for the lease.
    pub(crate) fn replica(cluster: &Cluster, binary: &Path, name: &str) -> Result<Self, Error> {
        Self::spawn(
            cluster,
            binary,
            name,
            &["--leader-election-namespace=default"],
        )
    }

    fn spawn(
        cluster: &Cluster,
        binary: &Path,
        name: &str,
        election: &[&str],
    ) -> Result<Self, Error> {
        let log = cluster.dir().join(format!("{name}.log"));
        let arguments = [
            format!("--kubeconfig={}", cluster.kubeconfig().display()),
            format!("--health-probe-bind-address=127.0.0.1:{}", free_port()?),
        ]
        .into_iter()
        .chain(election.iter().map(|&argument| argument.to_owned()));
        let webhooks_off = ("ENABLE_WEBHOOKS".to_owned(), "false".to_owned());
        let program = Program::foreign(std::path::absolute(binary)?);
        let process = Process::spawn(name, &program, arguments, [webhooks_off], &log)?;
        Ok(Self { process, log })
    }

    /// An error if it has ended.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        Ok(self.process.check()?)
    }

    /// Its memory now.
    pub(crate) fn memory(&self) -> Result<Memory, Error> {
        Memory::of(self.process.id())
    }

    /// CPU time since it started.
    pub(crate) fn cpu(&self) -> Result<Cpu, Error> {
        Cpu::of(self.process.id())
    }

    /// Bytes that it has logged.
    pub(crate) fn logged(&self) -> u64 {
        std::fs::metadata(&self.log).map_or(0, |log| log.len())
    }

    /// Ends it in good order.
    pub(crate) fn stop(mut self) {
        self.process.stop(GRACE);
    }
}
