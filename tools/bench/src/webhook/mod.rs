//! What the webhooks cost: the manager's, over real TLS on loopback, beside those of a manager on
//! controller-runtime, if it is given, and a server that does nothing ([`bare`]), all measured by the
//! same client in turn, so that what the machine does besides hits all alike.

pub(crate) mod bare;
mod client;
mod payload;
pub(crate) mod server;
mod table;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::{Connection, Load};
use server::{Identity, Server};
pub(crate) use table::{CPU, P99, rows};

use crate::error::Error;
use crate::figures::{self, Ledger};
use crate::manager::{NAMES, Subject};
use crate::promises::Promises;
use crate::report;
use crate::usage::Cpu;

/// Calls before the first that counts, on each connection.
const WARM_UP: Duration = Duration::from_millis(200);
/// How long the servers are watched at rest.
const REST: Duration = Duration::from_secs(1);

/// What is to be measured.
#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// The manager's binary
    #[arg(long, default_value = "target/release/manager")]
    pub(crate) manager: PathBuf,
    /// The binary of the manager on controller-runtime, to be measured, too
    #[arg(long)]
    pub(crate) go: Option<PathBuf>,
    /// Turns that each server has with each load
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// Milliseconds of one turn
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    pub(crate) turn: u64,
    /// Connections that call at a time, one load each; with commas between
    #[arg(long, value_delimiter = ',', default_values_t = [1, PROMISED_CONNECTIONS, 16, 64],
          value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) connections: Vec<u32>,
    /// Objects in one conversion, one load each; with commas between
    #[arg(long, value_delimiter = ',', default_values_t = [1, 100, 500, 10_000],
          value_parser = clap::value_parser!(u32).range(1..=40_000))]
    pub(crate) batches: Vec<u32>,
    /// Clients that only begin handshakes while others call; 0 leaves this load out
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(0..=256))]
    pub(crate) handshakes: u32,
    /// The CSV file whose figures of the same calls are replaced
    #[arg(long)]
    pub(crate) record: Option<PathBuf>,
}

/// The servers, in the order of the table.
pub(crate) const SERVERS: [&str; 3] = [NAMES[0], NAMES[1], BARE];
const BARE: &str = "bare server";

pub(crate) const CREATE: &str = "create";
const UPDATE: &str = "update";
/// The call that has many objects.
pub(crate) const CONVERT: &str = "convert";
/// What is called.
pub(crate) const CALLS: [&str; 3] = [CREATE, UPDATE, CONVERT];

/// The number of connections for which the CPU and the latency of a call are promised.
pub(crate) const PROMISED_CONNECTIONS: u32 = 4;

/// A conversion has many objects from here on.
pub(crate) const BATCH: u32 = 100;

/// One kind of load.
struct Scenario {
    /// One of [`CALLS`].
    call: &'static str,
    path: &'static str,
    /// Where the bare server gets it.
    bare_path: &'static str,
    body: Vec<u8>,
    /// Of a conversion.
    objects: Option<u32>,
    connections: u32,
    /// Clients that begin handshakes at the same time.
    handshakes: u32,
}

impl Scenario {
    fn admission(call: &'static str, body: Vec<u8>, connections: u32) -> Self {
        Self {
            call,
            path: payload::ADMISSION_PATH,
            bare_path: bare::FIXED_PATH,
            body,
            objects: None,
            connections,
            handshakes: 0,
        }
    }

    fn conversion(objects: u32, connections: u32) -> Self {
        Self {
            call: CONVERT,
            path: payload::CONVERSION_PATH,
            bare_path: bare::ECHO_PATH,
            body: payload::conversion(objects),
            objects: Some(objects),
            connections,
            handshakes: 0,
        }
    }

    fn request_to(&self, server: &Server) -> Vec<u8> {
        let path = match server.name {
            BARE => self.bare_path,
            _ => self.path,
        };
        client::request(path, &self.body)
    }

    fn name(&self) -> String {
        match self.objects {
            Some(objects) => format!("{} {objects}", self.call),
            None => self.call.to_owned(),
        }
    }
}

/// One turn of one server.
struct Turn {
    load: Load,
    cpu: Cpu,
    /// In user mode; 0 if the machine does not count them.
    instructions: u64,
    handshakes: u64,
}

/// What one load did to one server.
struct Figures {
    /// One of [`SERVERS`].
    server: &'static str,
    turns: Vec<Turn>,
    /// The most memory that it had, over what it had at rest, in KiB.
    peak: u64,
}

/// Measures everything and prints it as it comes.
///
/// # Errors
/// A server that does not start, dies, or answers otherwise than it should; a promise that is
/// missed by too much.
pub(crate) fn perform(
    plan: &Plan,
    mut promises: Promises,
    interrupted: &AtomicBool,
) -> Result<(), Error> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let ledger = plan.record.as_deref().map(Ledger::open).transpose()?;
    Subject::ours(&plan.manager).size()?;
    println!("{}\n{}", report::machine(), load_average());
    let identity = Identity::new()?;
    let mut servers = vec![Server::manager(&plan.manager, &identity, interrupted)?];
    if let Some(binary) = &plan.go {
        Subject::go(binary).size()?;
        servers.push(Server::go(binary, &identity, interrupted)?);
    }
    servers.push(Server::bare(&identity, interrupted)?);
    let mut stage = Stage {
        servers,
        identity: &identity,
        plan,
        interrupted,
    };
    stage.settle()?;
    print!("{}", table::HEAD);
    let mut records = Vec::new();
    for scenario in scenarios(plan) {
        let figures = stage.measure(&scenario)?;
        records.extend(table::records(&scenario, &figures));
        print!("{}", table::line(&scenario, &figures, &mut promises));
    }
    println!("{}", load_average());
    for server in stage.servers {
        server.stop();
    }
    if let Some(ledger) = ledger {
        let calls: BTreeSet<_> = records.iter().map(|(key, _)| key.load()).collect();
        ledger.replace(
            |old: &figures::Webhook| calls.contains(&old.load()),
            records,
        )?;
    }
    promises.verdict()
}

fn load_average() -> String {
    format!("load average: {}", report::load_average())
}

fn scenarios(plan: &Plan) -> Vec<Scenario> {
    let mut all = Vec::new();
    for &connections in &plan.connections {
        all.push(Scenario::admission(
            CREATE,
            payload::creation(),
            connections,
        ));
        all.push(Scenario::admission(UPDATE, payload::update(), connections));
    }
    if plan.handshakes > 0 {
        let mut amid = Scenario::admission(CREATE, payload::creation(), 1);
        amid.handshakes = plan.handshakes;
        all.push(amid);
    }
    for &objects in &plan.batches {
        // Large ones would only wait for each other, and take their memory many times.
        let connections: &[u32] = match objects {
            ..BATCH => &plan.connections,
            _ => &[1],
        };
        let conversions = connections.iter();
        all.extend(conversions.map(|&connections| Scenario::conversion(objects, connections)));
    }
    all
}

struct Stage<'a> {
    /// The manager first, the bare server last.
    servers: Vec<Server>,
    identity: &'a Identity,
    plan: &'a Plan,
    interrupted: &'a AtomicBool,
}

impl Stage<'_> {
    /// Has each answer a little, and sees what it uses at rest.
    fn settle(&mut self) -> Result<(), Error> {
        let admission = Scenario::admission(CREATE, payload::creation(), 1);
        for scenario in [admission, Scenario::conversion(1, 1)] {
            for server in &self.servers {
                let mut connection = Connection::open(server.address, &self.identity.tls)?;
                connection.call(&scenario.request_to(server))?;
            }
        }
        let before = self.servers.iter().map(Server::cpu);
        let before = before.collect::<Result<Vec<_>, _>>()?;
        std::thread::sleep(REST);
        for (server, before) in self.servers.iter_mut().zip(before) {
            let cpu = server.cpu()?.since(before).all;
            server.rest = server.memory()?.resident;
            println!(
                "{} at rest: {:.1} MiB, {:.2} ms of CPU in {} s",
                server.name,
                server.rest as f64 / 1024.0,
                cpu.as_secs_f64() * 1e3,
                REST.as_secs(),
            );
        }
        Ok(())
    }

    /// In the order of the servers.
    fn measure(&mut self, scenario: &Scenario) -> Result<Vec<Figures>, Error> {
        let mut loads = Vec::new();
        for server in &self.servers {
            let request = scenario.request_to(server);
            let mut connections = self.connections(server, scenario)?;
            // Of the managers, one answer is looked at; that of the bare server is always the same.
            let answer = match connections.first_mut() {
                Some(connection) if server.name != BARE => Some(connection.call(&request)?),
                _ => None,
            };
            if let Some(answer) = answer
                && !payload::is_granted(answer, scenario.objects)
            {
                let text = String::from_utf8_lossy(answer.get(..500).unwrap_or(answer));
                return Err(Error::Refused {
                    what: format!("{}: {}", server.name, scenario.name()),
                    answer: text.into_owned(),
                });
            }
            client::load(&mut connections, &request, WARM_UP, self.interrupted)?;
            loads.push((request, connections));
        }
        let figures = self.servers.iter().map(|server| Figures {
            server: server.name,
            turns: Vec::new(),
            peak: 0,
        });
        let mut figures: Vec<_> = figures.collect();
        for round in 0..self.plan.rounds {
            // Ours, theirs, theirs, ours: who comes first is worth nothing in the long run.
            let mut order: Vec<_> = (0..self.servers.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for turn in order {
                let (request, connections) = &mut loads[turn];
                let done = self.turn(turn, scenario, connections, request)?;
                let server = &self.servers[turn];
                let over_rest = server.memory()?.peak.saturating_sub(server.rest);
                figures[turn].peak = figures[turn].peak.max(over_rest);
                figures[turn].turns.push(done);
            }
        }
        Ok(figures)
    }

    fn connections(&self, server: &Server, scenario: &Scenario) -> Result<Vec<Connection>, Error> {
        let opened = (0..scenario.connections)
            .map(|_| Ok(Connection::open(server.address, &self.identity.tls)?));
        opened.collect()
    }

    fn turn(
        &mut self,
        server: usize,
        scenario: &Scenario,
        connections: &mut [Connection],
        request: &[u8],
    ) -> Result<Turn, Error> {
        let server = &mut self.servers[server];
        server.check()?;
        server.forget_peak()?;
        let before = server.cpu()?;
        let mut instructions = server.instructions();
        let time = Duration::from_millis(self.plan.turn);
        let call = || client::load(connections, request, time, self.interrupted);
        let (load, handshakes) = client::amid_handshakes(
            scenario.handshakes as usize,
            server.address,
            &self.identity.tls,
            call,
        )?;
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(devcluster::Error::Interrupted.into());
        }
        Ok(Turn {
            load,
            cpu: server.cpu()?.since(before),
            instructions: instructions.count(),
            handshakes,
        })
    }
}
