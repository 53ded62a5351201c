//! A manager as a process: ours, or a peer.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use devcluster::{Cluster, Process, Program, free_port};
use kube::config::Kubeconfig;

use crate::error::Error;
use crate::usage::{Cpu, Instructions, Memory};

const GRACE: Duration = Duration::from_secs(10);

/// How long a manager may take to answer with its metrics, and how many bytes they may be.
const METRICS_TIME: Duration = Duration::from_secs(10);
const METRICS_SIZE: u64 = 16 << 20;

/// What all of them count by this name, one line for each kind and result.
const RECONCILES: &str = "controller_runtime_reconcile_total{";

const PLAIN_METRICS: &str = "--metrics-secure=false";

/// The kinds that are measured, which are those of the peers.
const CONTROLLERS: &str = "--controllers=memcached,nginx,elasticweb,helloworld";

/// The group that may do everything.
const ALL_RIGHTS: &str = "system:masters";

/// What the managers are called, ours first.
pub(crate) const NAMES: [&str; 3] = ["manager", "controller-runtime", "kube-rs"];

/// A manager that can be measured.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) binary: PathBuf,
    /// What its client calls itself.
    pub(crate) agent: &'static str,
    /// The flags that only it has, to run alone.
    alone: &'static [&'static str],
}

impl Subject {
    /// Our own, whose binary is `binary`.
    pub(crate) fn ours(binary: &Path) -> Self {
        Self {
            name: NAMES[0],
            binary: binary.to_owned(),
            agent: "quartet-operator/",
            alone: &[PLAIN_METRICS, CONTROLLERS, "--leader-elect=false"],
        }
    }

    /// The one on controller-runtime.
    pub(crate) fn go(binary: &Path) -> Self {
        Self {
            name: NAMES[1],
            binary: binary.to_owned(),
            agent: "go-peer/",
            alone: &[],
        }
    }

    /// The one on kube-rs.
    pub(crate) fn kube_rs(binary: &Path) -> Self {
        Self {
            name: NAMES[2],
            binary: binary.to_owned(),
            agent: "kube-rs-peer/",
            alone: &[],
        }
    }

    /// Bytes of the binary.
    pub(crate) fn size(&self) -> Result<u64, Error> {
        let file = std::fs::metadata(&self.binary).map_err(|source| Error::NoManager {
            path: self.binary.clone(),
            source,
        })?;
        Ok(file.len())
    }
}

/// A running manager. Dropping it kills it.
pub(crate) struct Manager {
    process: Process,
    metrics: SocketAddr,
    log: PathBuf,
}

impl Manager {
    /// Starts `subject` against `cluster`, the only one.
    pub(crate) fn start(cluster: &Cluster, subject: &Subject) -> Result<Self, Error> {
        let (name, flags) = (subject.name, subject.alone);
        Self::spawn(cluster.dir(), &cluster.kubeconfig(), subject, name, flags)
    }

    /// Starts our own manager as the replica and user `name`, which waits for the lease.
    pub(crate) fn replica(cluster: &Cluster, subject: &Subject, name: &str) -> Result<Self, Error> {
        let flags = [
            PLAIN_METRICS,
            CONTROLLERS,
            "--leader-elect",
            "--leader-election-namespace=default",
        ];
        let mut kubeconfig = Kubeconfig::read_from(cluster.kubeconfig())?;
        for user in &mut kubeconfig.auth_infos {
            let user = user.auth_info.get_or_insert_default();
            user.impersonate = Some(name.to_owned());
            user.impersonate_groups = Some(vec![ALL_RIGHTS.to_owned()]);
        }
        let file = cluster.dir().join(format!("{name}.kubeconfig"));
        let text = serde_json::to_string(&kubeconfig).map_err(std::io::Error::from)?;
        std::fs::write(&file, text)?;
        Self::spawn(cluster.dir(), &file, subject, name, &flags)
    }

    fn spawn(
        folder: &Path,
        kubeconfig: &Path,
        subject: &Subject,
        name: &str,
        flags: &[&str],
    ) -> Result<Self, Error> {
        let log = folder.join(format!("{name}.log"));
        let metrics = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let arguments = [
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--health-probe-bind-address=127.0.0.1:{}", free_port()?),
            format!("--metrics-bind-address={metrics}"),
        ]
        .into_iter()
        .chain(flags.iter().map(|&flag| flag.to_owned()));
        let webhooks_off = ("ENABLE_WEBHOOKS".to_owned(), "false".to_owned());
        let program = Program::foreign(std::path::absolute(&subject.binary)?);
        let process = Process::spawn(name, &program, arguments, [webhooks_off], &log)?;
        Ok(Self {
            process,
            metrics,
            log,
        })
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

    /// A counter of its instructions from now on.
    pub(crate) fn instructions(&self) -> Instructions {
        Instructions::of(self.process.id())
    }

    /// Reconciles since it started, by its own metrics.
    pub(crate) fn reconciles(&self) -> Result<f64, Error> {
        let failed = |reason: String| Error::Metrics {
            address: self.metrics,
            reason,
        };
        let text = get(self.metrics).map_err(|error| failed(error.to_string()))?;
        reconciles(&text).ok_or_else(|| failed(format!("no {RECONCILES}")))
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

/// What `address` answers to a GET of /metrics.
fn get(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, METRICS_TIME)?;
    stream.set_read_timeout(Some(METRICS_TIME))?;
    stream.set_write_timeout(Some(METRICS_TIME))?;
    // With 1.0 no answer comes in chunks, and the server closes the connection at its end.
    stream.write_all(b"GET /metrics HTTP/1.0\r\nhost: localhost\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(METRICS_SIZE).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The sum over kinds and results.
fn reconciles(metrics: &str) -> Option<f64> {
    let lines = metrics.lines().filter(|it| it.starts_with(RECONCILES));
    let counts: Vec<f64> = lines
        .filter_map(|line| line.rsplit(' ').next()?.parse().ok())
        .collect();
    (!counts.is_empty()).then(|| counts.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reconciles_are_summed_over_kinds_and_results() {
        let metrics = "HTTP/1.0 200 OK\r\n\r\n# TYPE controller_runtime_reconcile counter\n\
            controller_runtime_reconcile_total{controller=\"nginx\",result=\"success\"} 3\n\
            controller_runtime_reconcile_total{controller=\"nginx\",result=\"error\"} 1\n\
            controller_runtime_reconcile_errors_total{controller=\"nginx\"} 7\n";
        assert_eq!(reconciles(metrics), Some(4.0));
        assert_eq!(reconciles("HTTP/1.0 404 Not Found\r\n\r\n"), None);
    }
}
