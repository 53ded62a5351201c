//! What the webhooks cost: the manager's, over TLS on loopback, beside those of a manager on
//! controller-runtime, called by the same client in turns, so that other load affects both alike.

mod call;
mod client;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use devcluster::{StateFolder, free_port};
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;

use self::call::Call;
use self::client::Connection;
use crate::Result;
use crate::audit::quantile;
use crate::figures::Figures;
use crate::manager::{Manager, Subject};
use crate::promises::{Load, Promises, row};
use crate::table::{self, Rows};
use crate::usage::{self, Memory};

/// Calls before the first that counts.
const WARM_UP: Duration = Duration::from_millis(200);
/// How long a server may take to accept its first connection.
const UNTIL_UP: Duration = Duration::from_secs(20);

/// Turns that each server has with each load, and the time of one turn.
const ROUNDS: u32 = 6;
const TURN: Duration = Duration::from_millis(400);

/// Connections that call at a time. The CPU and the latency of a call are promised for four.
const CONNECTIONS: [u32; 4] = [1, PROMISED_CONNECTIONS, 16, 64];
const PROMISED_CONNECTIONS: u32 = 4;
/// Objects in one conversion. Many of them are a batch.
const OBJECTS: [u32; 4] = [1, BATCH, 500, 10_000];
const BATCH: u32 = 100;

/// What is to be measured.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The manager's binary
    #[arg(long, default_value = "target/release/manager")]
    manager: PathBuf,
    /// The binary of the manager on controller-runtime, to be measured, too
    #[arg(long)]
    go: Option<PathBuf>,
    /// The CSV file whose figures of the same calls are replaced
    #[arg(long)]
    record: Option<PathBuf>,
}

/// One kind of load.
struct Scenario {
    name: &'static str,
    objects: u32,
    connections: u32,
    call: Call,
}

impl Scenario {
    fn all() -> Result<Vec<Self>> {
        let mut calls = vec![
            ("create", 1, Call::create()?),
            ("update", 1, Call::update()?),
        ];
        for objects in OBJECTS {
            calls.push(("convert", objects, Call::convert(objects)?));
        }
        let mut all = Vec::new();
        for (name, objects, call) in calls {
            // Large ones would only wait for each other.
            let connections = if objects < BATCH {
                &CONNECTIONS[..]
            } else {
                &[1]
            };
            all.extend(connections.iter().map(|&connections| Self {
                name,
                objects,
                connections,
                call: call.clone(),
            }));
        }
        Ok(all)
    }

    /// The rows of one server. `cpu` is that of all calls, `peak` the most memory over that at rest.
    fn rows(&self, cpu: Duration, latencies: &[f64], peak: f64) -> Rows {
        let cpu = cpu.as_secs_f64() * 1e6 / latencies.len() as f64;
        let p99 = quantile(latencies, 99);
        let mut rows = vec![
            (row::CALL_CPU, cpu),
            (row::CALL_P50, quantile(latencies, 50)),
            (row::CALL_P99, p99),
            (row::CALL_MEMORY, peak),
        ];
        let objects = f64::from(self.objects) * 1e6 / cpu;
        match (self.name, self.connections) {
            ("convert", 1) => rows.push((row::OBJECTS, objects)),
            ("convert", PROMISED_CONNECTIONS) => {
                rows.extend([(row::CONVERSION_CPU, cpu), (row::CONVERSION_P99, p99)]);
            }
            (_, PROMISED_CONNECTIONS) => rows.push((row::ADMISSION_CPU, cpu)),
            _ => {}
        }
        if self.objects >= BATCH {
            rows.push((row::BATCH_OBJECTS, objects));
        }
        if self.objects == 500 {
            rows.push((row::BATCH_MEMORY, peak));
        }
        rows
    }
}

/// A server without a cluster, which webhooks do not need.
struct Server {
    name: &'static str,
    manager: Manager,
    port: u16,
    /// Its memory at rest, in MiB.
    rest: f64,
}

impl Server {
    /// Starts it, waits until it accepts connections, and looks at its memory after a call.
    async fn start(subject: &Subject, folder: &StateFolder, tls: &TlsConnector) -> Result<Self> {
        let port = free_port()?;
        let mut manager = Manager::webhooks(folder.path(), subject, port)?;
        let began = Instant::now();
        let mut connection = loop {
            manager.check()?;
            match Connection::open(port, tls).await {
                Ok(connection) => break connection,
                Err(error) if began.elapsed() > UNTIL_UP => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        };
        connection.call(&Call::create()?).await?;
        Ok(Self {
            name: subject.name,
            port,
            rest: manager.memory()?.resident,
            manager,
        })
    }
}

/// Measures all loads and prints each as it comes.
///
/// # Errors
/// A server that does not start, exits, or rejects a call.
pub(crate) fn perform(
    arguments: &Arguments,
    promises: &mut Promises,
    interrupted: &AtomicBool,
) -> Result<()> {
    let mut figures = arguments.record.as_deref().map(Figures::read).transpose()?;
    let mut subjects = vec![Subject::ours(&arguments.manager)];
    subjects.extend(arguments.go.as_deref().map(Subject::go));
    let folder = StateFolder::create()?;
    let issued = rcgen::generate_simple_self_signed(vec![client::SERVER_NAME.to_owned()])?;
    let key = issued.signing_key.serialize_pem();
    std::fs::write(folder.path().join("tls.crt"), issued.cert.pem())?;
    std::fs::write(folder.path().join("tls.key"), key)?;
    let tls = client::tls(&issued.cert)?;
    let runtime = Runtime::new()?;
    let mut servers = Vec::new();
    for subject in &subjects {
        servers.push(runtime.block_on(Server::start(subject, &folder, &tls))?);
    }
    println!(
        "{}; load average before {}",
        table::machine(),
        table::load_average()
    );
    let names: Vec<_> = servers.iter().map(|server| server.name).collect();
    for scenario in Scenario::all()? {
        let measuring = measure(&scenario, &mut servers, &tls, interrupted);
        let measured = runtime.block_on(measuring)?;
        let (name, objects) = (scenario.name, scenario.objects);
        let connections = scenario.connections;
        println!("\n{name}, objects in a call: {objects}, connections: {connections}\n");
        println!(
            "{}",
            table::of(&names, Load::default(), &measured, promises)
        );
        if let Some(figures) = &mut figures {
            for (server, turns) in names.iter().zip(&measured) {
                figures.replace(&format!("{server},{name},{objects},{connections}"), turns);
            }
        }
    }
    println!("load average after: {}", table::load_average());
    for server in servers {
        server.manager.stop();
    }
    if let (Some(figures), Some(path)) = (&figures, &arguments.record) {
        figures.write(path)?;
    }
    Ok(())
}

/// Has each server called in turns. Returns the rows in the order of the servers.
async fn measure(
    scenario: &Scenario,
    servers: &mut [Server],
    tls: &TlsConnector,
    interrupted: &AtomicBool,
) -> Result<Vec<Vec<Rows>>> {
    let call = &scenario.call;
    let mut clients = Vec::new();
    for server in servers.iter() {
        let mut of_one = Vec::new();
        for _ in 0..scenario.connections {
            let mut connection = Connection::open(server.port, tls).await?;
            let response = connection.call(call).await?;
            if !call.is_granted(&response) {
                let text = String::from_utf8_lossy(&response);
                let (server, call) = (server.name, scenario.name);
                return Err(format!("{server} rejects {call}: {text:.500}").into());
            }
            of_one.push(connection);
        }
        client::load(&mut of_one, call, WARM_UP).await?;
        clients.push(of_one);
    }
    let mut measured = vec![(Duration::ZERO, Vec::new(), 0.0_f64); servers.len()];
    for round in 0..ROUNDS {
        // Ours, theirs, theirs, ours: being first has no advantage in the long run.
        let mut order: Vec<_> = (0..servers.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for turn in order {
            let server = &mut servers[turn];
            let (cpu, latencies, peak) = &mut measured[turn];
            server.manager.check()?;
            let id = server.manager.id();
            // The peak memory is that of the time from now on (proc_pid_clear_refs(5)).
            std::fs::write(format!("/proc/{id}/clear_refs"), "5")?;
            let before = usage::cpu(id)?;
            latencies.extend(client::load(&mut clients[turn], call, TURN).await?);
            *cpu += usage::cpu(id)?.saturating_sub(before);
            *peak = peak.max(Memory::of(id)?.peak - server.rest);
            if interrupted.load(Ordering::Relaxed) {
                return Err(devcluster::Error::Interrupted.into());
            }
        }
    }
    let rows = measured
        .iter()
        .map(|(cpu, latencies, peak)| vec![scenario.rows(*cpu, latencies, *peak)]);
    Ok(rows.collect())
}
