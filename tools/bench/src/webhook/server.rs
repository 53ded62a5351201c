//! The servers that are compared, each a process of its own, and what they use.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use devcluster::{Process, Program, StateFolder, free_port};
use rustls::{ClientConfig, RootCertStore};

use super::client::{Connection, SERVER_NAME};
use super::{BARE, SERVERS};
use crate::error::Error;
use crate::usage::{Cpu, Instructions, Memory};

const GRACE: Duration = Duration::from_secs(10);
/// How long a server may take to answer its first handshake.
const UNTIL_UP: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);

/// A certificate in files, and clients that trust it. The folder is removed with it.
pub(crate) struct Identity {
    folder: StateFolder,
    pub(crate) tls: Arc<ClientConfig>,
}

impl Identity {
    /// A new one, of the kind that the manager makes for itself: ECDSA with P-256.
    pub(crate) fn new() -> Result<Self, Error> {
        let issued = rcgen::generate_simple_self_signed(vec![SERVER_NAME.to_owned()])
            .map_err(io::Error::other)?;
        let folder = StateFolder::create()?;
        std::fs::write(folder.path().join("tls.crt"), issued.cert.pem())?;
        let key = issued.signing_key.serialize_pem();
        std::fs::write(folder.path().join("tls.key"), key)?;
        let mut roots = RootCertStore::empty();
        roots
            .add(issued.cert.der().clone())
            .map_err(io::Error::other)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            folder,
            tls: Arc::new(tls),
        })
    }

    /// The flag for a cluster that is not there.
    fn kubeconfig(&self) -> Result<String, Error> {
        let path = self.path().join("kubeconfig");
        std::fs::write(&path, kubeconfig_of_nobody(free_port()?))?;
        Ok(format!("--kubeconfig={}", path.display()))
    }

    /// The folder with `tls.crt` and `tls.key`.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// A server that answers. Dropping it kills it.
pub(crate) struct Server {
    /// One of [`SERVERS`].
    pub(crate) name: &'static str,
    process: Process,
    pub(crate) address: SocketAddr,
    /// Its memory at rest, in KiB; 0 until it was seen.
    pub(crate) rest: u64,
}

impl Server {
    /// The manager, without a cluster: its API server is at a port where nobody listens, which
    /// webhooks do not need.
    pub(crate) fn manager(
        binary: &Path,
        identity: &Identity,
        interrupted: &AtomicBool,
    ) -> Result<Self, Error> {
        let flags = vec![
            "--leader-elect=false".to_owned(),
            "--metrics-bind-address=0".to_owned(),
            format!("--health-probe-bind-address=127.0.0.1:{}", free_port()?),
        ];
        Self::without_cluster(SERVERS[0], binary, flags, identity, interrupted)
    }

    /// The webhooks of the manager on controller-runtime.
    pub(crate) fn go(
        binary: &Path,
        identity: &Identity,
        interrupted: &AtomicBool,
    ) -> Result<Self, Error> {
        Self::without_cluster(SERVERS[1], binary, Vec::new(), identity, interrupted)
    }

    fn without_cluster(
        name: &'static str,
        binary: &Path,
        mut flags: Vec<String>,
        identity: &Identity,
        interrupted: &AtomicBool,
    ) -> Result<Self, Error> {
        let port = free_port()?;
        flags.extend([
            identity.kubeconfig()?,
            format!("--webhook-port={port}"),
            format!("--webhook-cert-path={}", identity.path().display()),
        ]);
        let program = Program::foreign(std::path::absolute(binary)?);
        Self::start(name, &program, flags, port, identity, interrupted)
    }

    /// The yardstick: this program again.
    pub(crate) fn bare(identity: &Identity, interrupted: &AtomicBool) -> Result<Self, Error> {
        let port = free_port()?;
        let arguments = [
            "bare-server".to_owned(),
            format!("--address=127.0.0.1:{port}"),
            format!("--certificates={}", identity.path().display()),
        ];
        let program = Program::foreign(std::env::current_exe()?);
        Self::start(BARE, &program, arguments, port, identity, interrupted)
    }

    fn start(
        name: &'static str,
        program: &Program,
        arguments: impl IntoIterator<Item = String>,
        port: u16,
        identity: &Identity,
        interrupted: &AtomicBool,
    ) -> Result<Self, Error> {
        let log = identity.path().join(format!("{name}.log"));
        let process = Process::spawn(name, program, arguments, [], &log)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut server = Self {
            name,
            process,
            address,
            rest: 0,
        };
        let began = Instant::now();
        while !answers(address, &identity.tls) {
            server.process.check()?;
            if interrupted.load(Ordering::Relaxed) {
                return Err(devcluster::Error::Interrupted.into());
            }
            if began.elapsed() > UNTIL_UP {
                return Err(Error::Late {
                    what: format!("that the server {name} answers at {address}"),
                    limit: UNTIL_UP,
                });
            }
            sleep(POLL);
        }
        Ok(server)
    }

    /// An error if it has ended.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        Ok(self.process.check()?)
    }

    /// CPU time since it started.
    pub(crate) fn cpu(&self) -> Result<Cpu, Error> {
        Cpu::of(self.process.id())
    }

    /// A counter of its instructions from now on.
    pub(crate) fn instructions(&self) -> Instructions {
        Instructions::of(self.process.id())
    }

    /// Its memory now.
    pub(crate) fn memory(&self) -> Result<Memory, Error> {
        Memory::of(self.process.id())
    }

    /// Makes [`Memory::peak`] that of the time from now on (proc_pid_clear_refs(5)).
    pub(crate) fn forget_peak(&self) -> Result<(), Error> {
        let path = format!("/proc/{}/clear_refs", self.process.id());
        Ok(std::fs::write(path, "5")?)
    }

    /// Ends it in good order.
    pub(crate) fn stop(mut self) {
        self.process.stop(GRACE);
    }
}

fn answers(address: SocketAddr, tls: &Arc<ClientConfig>) -> bool {
    // The answer to a request of no path is a 404, which is an error to `call`.
    let request = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n";
    let call = Connection::open(address, tls)
        .and_then(|mut connection| connection.call(request).map(|_| ()));
    match call {
        Ok(()) => true,
        Err(error) => error.to_string().contains("404"),
    }
}

fn kubeconfig_of_nobody(port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: none\n\
         clusters: [{{name: none, cluster: {{server: 'https://127.0.0.1:{port}'}}}}]\n\
         users: [{{name: none, user: {{}}}}]\n\
         contexts: [{{name: none, context: {{cluster: none, user: none}}}}]\n"
    )
}
