//! A manager as a process: ours, or a peer.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use devcluster::{Cluster, Process, free_port, watched};
use kube::config::Kubeconfig;

use crate::Result;
use crate::promises::row;
use crate::table::Rows;
use crate::usage::{self, Memory};

const GRACE: Duration = Duration::from_secs(10);

/// How long a manager may take to answer with its metrics, and how many bytes they may be.
const METRICS_TIME: Duration = Duration::from_secs(10);
const METRICS_SIZE: u64 = 16 << 20;

/// What all of them count by this name, one line for each kind and result.
const RECONCILES: &str = "controller_runtime_reconcile_total{";

/// The flags of our own manager: plain metrics, no election, and the kinds of the peers. Later flags replace them.
const OURS: [&str; 3] = [
    "--metrics-secure=false",
    "--leader-elect=false",
    "--controllers=memcached,nginx,elasticweb,helloworld",
];

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
}

impl Subject {
    /// Our own, whose binary is `binary`.
    pub(crate) fn ours(binary: &Path) -> Self {
        Self::new(NAMES[0], "quartet-operator/", binary)
    }

    /// The one on controller-runtime.
    pub(crate) fn go(binary: &Path) -> Self {
        Self::new(NAMES[1], "go-peer/", binary)
    }

    /// The one on kube-rs.
    pub(crate) fn kube_rs(binary: &Path) -> Self {
        Self::new(NAMES[2], "kube-rs-peer/", binary)
    }

    fn new(name: &'static str, agent: &'static str, binary: &Path) -> Self {
        let binary = binary.to_owned();
        Self {
            name,
            binary,
            agent,
        }
    }

    /// Sizes of the binary in 10^6 bytes: as it is, and with `gzip -9`.
    pub(crate) fn sizes(&self) -> Result<Rows> {
        let binary = self.binary.display();
        let file = std::fs::metadata(&self.binary).map_err(|error| {
            format!("{binary} is missing ({error}); `make bench` and `make bench-peer` build what they measure")
        })?;
        let mut gzip = Command::new("gzip")
            .arg("-9c")
            .arg(&self.binary)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("gzip: {error}; install gzip and put it in PATH"))?;
        let mut zipped = 0;
        if let Some(mut output) = gzip.stdout.take() {
            zipped = std::io::copy(&mut output, &mut std::io::sink())?;
        }
        let status = gzip.wait()?;
        if !status.success() {
            return Err(format!("gzip {binary}: {status}").into());
        }
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        Ok(vec![
            (row::BINARY, megabytes(file.len())),
            (row::BINARY_ZIPPED, megabytes(zipped)),
        ])
    }
}

/// A running manager. Dropping it kills it.
pub(crate) struct Manager {
    process: Process,
    metrics: SocketAddr,
}

impl Manager {
    /// Starts `subject` against `cluster`, the only one.
    pub(crate) fn start(cluster: &Cluster, subject: &Subject) -> Result<Self> {
        let kubeconfig = cluster.kubeconfig();
        Self::spawn(cluster.dir(), &kubeconfig, subject, subject.name, &[])
    }

    /// Starts our own manager as the replica and user `name`, which waits for the lease.
    pub(crate) fn replica(cluster: &Cluster, subject: &Subject, name: &str) -> Result<Self> {
        let mut kubeconfig = Kubeconfig::read_from(cluster.kubeconfig())?;
        for user in &mut kubeconfig.auth_infos {
            let user = user.auth_info.get_or_insert_default();
            user.impersonate = Some(name.to_owned());
            user.impersonate_groups = Some(vec![ALL_RIGHTS.to_owned()]);
        }
        let file = cluster.dir().join(format!("{name}.kubeconfig"));
        std::fs::write(&file, serde_json::to_string(&kubeconfig)?)?;
        let flags = ["--leader-elect", "--leader-election-namespace=default"];
        let flags = flags.map(str::to_owned);
        Self::spawn(cluster.dir(), &file, subject, name, &flags)
    }

    /// Starts `subject` with its webhooks at `port`, and no API server: `folder` has its certificate.
    pub(crate) fn webhooks(folder: &Path, subject: &Subject, port: u16) -> Result<Self> {
        let kubeconfig = folder.join("kubeconfig");
        let nobody = format!("https://127.0.0.1:{}", free_port()?);
        let text = include_str!("webhook/kubeconfig.yaml").replace("{nobody}", &nobody);
        std::fs::write(&kubeconfig, text)?;
        let flags = [
            format!("--webhook-port={port}"),
            format!("--webhook-cert-path={}", folder.display()),
        ];
        Self::spawn(folder, &kubeconfig, subject, subject.name, &flags)
    }

    fn spawn(
        folder: &Path,
        kubeconfig: &Path,
        subject: &Subject,
        name: &str,
        more: &[String],
    ) -> Result<Self> {
        let metrics = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let mut flags = vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--health-probe-bind-address=127.0.0.1:{}", free_port()?),
            format!("--metrics-bind-address={metrics}"),
        ];
        if subject.name == NAMES[0] {
            flags.extend(OURS.map(str::to_owned));
        }
        flags.extend_from_slice(more);
        let webhooks = more.iter().any(|flag| flag.starts_with("--webhook"));
        let mut command = watched(std::path::absolute(&subject.binary)?);
        command
            .args(flags)
            .env("ENABLE_WEBHOOKS", webhooks.to_string());
        let log = folder.join(format!("{name}.log"));
        let process = Process::spawn(name, &mut command, &log)?;
        Ok(Self { process, metrics })
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// An error if it has ended.
    pub(crate) fn check(&mut self) -> Result<()> {
        Ok(self.process.check()?)
    }

    /// Its memory now.
    pub(crate) fn memory(&self) -> Result<Memory> {
        Memory::of(self.id())
    }

    /// CPU time since it started.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        usage::cpu(self.id())
    }

    /// Reconciles since it started, by its own metrics.
    pub(crate) fn reconciles(&self) -> Result<f64> {
        let address = self.metrics;
        let failed = |reason: String| format!("the metrics at {address}: {reason}");
        let text = get(address).map_err(|error| failed(error.to_string()))?;
        Ok(reconciles(&text).ok_or_else(|| failed(format!("no {RECONCILES}")))?)
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
