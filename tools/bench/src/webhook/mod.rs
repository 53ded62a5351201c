//! What the webhooks cost: the manager's, over TLS on loopback, beside those of a manager on
//! controller-runtime, called by the same client in turns, so that other load affects both alike.

mod client;
mod payload;
mod table;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use devcluster::{Process, Program, StateFolder, free_port};
use rustls::ClientConfig;
use tokio::runtime::Runtime;

use self::client::{Call, Connection};
use self::table::{HEAD, Measured, line};
use crate::error::Error;
use crate::figures::Figures;
use crate::manager::{NAMES, Subject};
use crate::promises::Promises;
use crate::report;
use crate::usage::{Cpu, Memory};

/// Calls before the first that counts.
const WARM_UP: Duration = Duration::from_millis(200);
/// How long a server may take to accept its first connection.
const UNTIL_UP: Duration = Duration::from_secs(20);
const GRACE: Duration = Duration::from_secs(10);

/// What is to be measured.
#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// The manager's binary
    #[arg(long, default_value = "target/release/manager")]
    manager: PathBuf,
    /// The binary of the manager on controller-runtime, to be measured, too
    #[arg(long)]
    go: Option<PathBuf>,
    /// Turns that each server has with each load
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Milliseconds of one turn
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    turn: u64,
    /// Connections that call at a time, one load each; with commas between
    #[arg(long, value_delimiter = ',', default_values_t = [1, PROMISED_CONNECTIONS, 16, 64],
          value_parser = clap::value_parser!(u32).range(1..=256))]
    connections: Vec<u32>,
    /// Objects in one conversion, one load each; with commas between
    #[arg(long, value_delimiter = ',', default_values_t = [1, BATCH, 500, 10_000],
          value_parser = clap::value_parser!(u32).range(1..=40_000))]
    batches: Vec<u32>,
    /// The CSV file whose figures of the same calls are replaced
    #[arg(long)]
    record: Option<PathBuf>,
}

pub(crate) const CREATE: &str = "create";
const UPDATE: &str = "update";
/// The call that has many objects.
pub(crate) const CONVERT: &str = "convert";
/// A conversion has many objects from here on.
pub(crate) const BATCH: u32 = 100;
/// The number of connections for which the CPU and the latency of a call are promised.
const PROMISED_CONNECTIONS: u32 = 4;

pub(crate) const CPU: &str = "CPU of a call, µs";
/// The time within which all but the slowest hundredth of the calls were answered.
pub(crate) const P99: &str = "P99, µs";

/// One kind of load.
struct Scenario {
    name: &'static str,
    objects: u32,
    connections: u32,
    call: Call,
}

impl Scenario {
    fn new(name: &'static str, objects: u32, connections: u32) -> Self {
        let (path, body) = match name {
            CREATE => (payload::ADMISSION_PATH, payload::creation()),
            UPDATE => (payload::ADMISSION_PATH, payload::update()),
            _ => (payload::CONVERSION_PATH, payload::conversion(objects)),
        };
        let body = body.into();
        Self {
            name,
            objects,
            connections,
            call: Call { path, body },
        }
    }

    fn all(plan: &Plan) -> Vec<Self> {
        let mut all = Vec::new();
        for name in [CREATE, UPDATE] {
            let each = plan.connections.iter();
            all.extend(each.map(|&connections| Self::new(name, 1, connections)));
        }
        for &objects in &plan.batches {
            // Large ones would only wait for each other.
            let connections: &[u32] = if objects < BATCH {
                &plan.connections
            } else {
                &[1]
            };
            let each = connections.iter();
            all.extend(each.map(|&connections| Self::new(CONVERT, objects, connections)));
        }
        all
    }
}

/// A server without a cluster, which webhooks do not need. Dropping it kills it.
struct Server {
    name: &'static str,
    process: Process,
    port: u16,
    /// Its memory at rest, in KiB.
    rest: u64,
}

impl Server {
    fn start(name: &'static str, binary: &Path, folder: &Path) -> Result<Self, Error> {
        let port = free_port()?;
        let kubeconfig = folder.join("kubeconfig");
        let nobody = format!("server: 'https://127.0.0.1:{}'", free_port()?);
        std::fs::write(
            &kubeconfig,
            format!(
                "apiVersion: v1\nkind: Config\ncurrent-context: none\n\
                 clusters: [{{name: none, cluster: {{{nobody}}}}}]\n\
                 users: [{{name: none, user: {{}}}}]\n\
                 contexts: [{{name: none, context: {{cluster: none, user: none}}}}]\n"
            ),
        )?;
        let mut flags = vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--webhook-port={port}"),
            format!("--webhook-cert-path={}", folder.display()),
        ];
        if name == NAMES[0] {
            flags.extend([
                "--leader-elect=false".to_owned(),
                "--metrics-bind-address=0".to_owned(),
                format!("--health-probe-bind-address=127.0.0.1:{}", free_port()?),
            ]);
        }
        let program = Program::foreign(std::path::absolute(binary)?);
        let log = folder.join(format!("{name}.log"));
        Ok(Self {
            name,
            process: Process::spawn(name, &program, flags, [], &log)?,
            port,
            rest: 0,
        })
    }

    /// Waits until it accepts connections, and looks at its memory after a call.
    async fn settle(&mut self, tls: &Arc<ClientConfig>) -> Result<(), Error> {
        let began = Instant::now();
        let mut connection = loop {
            self.process.check()?;
            match Connection::open(self.port, tls).await {
                Ok(connection) => break connection,
                Err(error) if began.elapsed() > UNTIL_UP => return Err(error.into()),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        };
        connection.call(&Scenario::new(CREATE, 1, 1).call).await?;
        self.rest = Memory::of(self.process.id())?.resident;
        Ok(())
    }
}

/// Measures all loads and prints each as it comes.
///
/// # Errors
/// A server that does not start, exits, or rejects a call; a promise that is missed by too much.
pub(crate) fn perform(
    plan: &Plan,
    mut promises: Promises,
    interrupted: &AtomicBool,
) -> Result<(), Error> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut figures = plan.record.as_deref().map(Figures::read).transpose()?;
    let folder = StateFolder::create()?;
    let issued = rcgen::generate_simple_self_signed(vec![client::SERVER_NAME.to_owned()])
        .map_err(io::Error::other)?;
    std::fs::write(folder.path().join("tls.crt"), issued.cert.pem())?;
    std::fs::write(
        folder.path().join("tls.key"),
        issued.signing_key.serialize_pem(),
    )?;
    let tls = client::tls(&issued.cert)?;
    Subject::ours(&plan.manager).size()?;
    let mut servers = vec![Server::start(NAMES[0], &plan.manager, folder.path())?];
    if let Some(binary) = &plan.go {
        servers.push(Server::start(NAMES[1], binary, folder.path())?);
    }
    let runtime = Runtime::new()?;
    for server in &mut servers {
        runtime.block_on(server.settle(&tls))?;
    }
    println!(
        "{}\nload average: {}",
        report::machine(),
        report::load_average()
    );
    println!("{HEAD}");
    let mut records = BTreeMap::new();
    for scenario in Scenario::all(plan) {
        let measured =
            runtime.block_on(measure(plan, &scenario, &mut servers, &tls, interrupted))?;
        println!("{}", line(&scenario, &measured, &mut promises));
        for (server, measured) in servers.iter().zip(&measured) {
            for (row, value) in measured.rows() {
                let Scenario {
                    name,
                    objects,
                    connections,
                    ..
                } = scenario;
                let load = [objects.to_string(), connections.to_string(), row.to_owned()];
                let key = [server.name.to_owned(), name.to_owned()]
                    .into_iter()
                    .chain(load);
                records.insert(key.collect(), value);
            }
        }
    }
    println!("load average: {}", report::load_average());
    for mut server in servers {
        server.process.stop(GRACE);
    }
    if let (Some(figures), Some(path)) = (&mut figures, &plan.record) {
        figures.replace(&records);
        figures.write(path)?;
    }
    promises.verdict()
}

/// Has each server called in turns. Returns the figures in the order of the servers.
async fn measure(
    plan: &Plan,
    scenario: &Scenario,
    servers: &mut [Server],
    tls: &Arc<ClientConfig>,
    interrupted: &AtomicBool,
) -> Result<Vec<Measured>, Error> {
    let Scenario {
        name,
        objects,
        connections,
        ref call,
    } = *scenario;
    let mut clients = Vec::new();
    for server in servers.iter() {
        let mut of_one = Vec::new();
        for _ in 0..connections {
            let mut connection = Connection::open(server.port, tls).await?;
            let response = connection.call(call).await?;
            if !payload::is_granted(&response, (name == CONVERT).then_some(objects)) {
                return Err(Error::Refused {
                    what: format!("{}: {name}", server.name),
                    answer: String::from_utf8_lossy(&response)
                        .chars()
                        .take(500)
                        .collect(),
                });
            }
            of_one.push(connection);
        }
        client::load(&mut of_one, call, WARM_UP).await?;
        clients.push(of_one);
    }
    let mut measured: Vec<_> = servers.iter().map(|_| Measured::default()).collect();
    for round in 0..plan.rounds {
        // Ours, theirs, theirs, ours: being first has no advantage in the long run.
        let mut order: Vec<_> = (0..servers.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for turn in order {
            let (server, measured) = (&mut servers[turn], &mut measured[turn]);
            server.process.check()?;
            let id = server.process.id();
            // The peak memory is that of the time from now on (proc_pid_clear_refs(5)).
            std::fs::write(format!("/proc/{id}/clear_refs"), "5")?;
            let before = Cpu::of(id)?;
            let time = Duration::from_millis(plan.turn);
            measured
                .latencies
                .extend(client::load(&mut clients[turn], call, time).await?);
            measured.cpu += Cpu::of(id)?.since(before).all;
            let over_rest = Memory::of(id)?.peak.saturating_sub(server.rest);
            measured.peak = measured.peak.max(over_rest);
            if interrupted.load(Ordering::Relaxed) {
                return Err(devcluster::Error::Interrupted.into());
            }
        }
    }
    Ok(measured)
}
