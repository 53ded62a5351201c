//! What the webhooks cost: the manager's, over real TLS on loopback, beside a server that does
//! nothing ([`bare`]), both measured by the same client in turn, so that what the machine does
//! besides hits both alike.

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
pub(crate) use table::{CPU, rows};

use crate::error::Error;
use crate::figures::{self, Ledger};
use crate::manager::Subject;
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
    /// Turns that each server has with each load
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// Milliseconds of one turn
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    pub(crate) turn: u64,
    /// Connections that call at a time, one load each; with commas between
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4],
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

/// Both servers, the manager first.
pub(crate) const SERVERS: [&str; 2] = ["manager", "bare server"];

const CREATE: &str = "create";
const UPDATE: &str = "update";
/// The call that has many objects.
pub(crate) const CONVERT: &str = "convert";
/// What is called.
pub(crate) const CALLS: [&str; 3] = [CREATE, UPDATE, CONVERT];

/// A conversion has many objects from here on.
pub(crate) const BATCH: u32 = 100;

/// One kind of load.
struct Scenario {
    /// One of [`CALLS`].
    call: &'static str,
    /// Where the manager gets it, and the bare server.
    paths: [&'static str; 2],
    body: Vec<u8>,
    /// Of a conversion.
    objects: Option<u32>,
    connections: u32,
    /// Clients that begin handshakes at the same time.
    handshakes: u32,
}

impl Scenario {
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
#[derive(Default)]
struct Figures {
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
    let mut stage = Stage {
        servers: [
            Server::manager(&plan.manager, &identity, interrupted)?,
            Server::bare(&identity, interrupted)?,
        ],
        rest: [0; 2],
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
    let fixed = [payload::ADMISSION_PATH, bare::FIXED_PATH];
    let mut admission = |call, body: Vec<u8>, connections, handshakes| {
        all.push(Scenario {
            call,
            paths: fixed,
            body,
            objects: None,
            connections,
            handshakes,
        });
    };
    for connections in &plan.connections {
        admission(CREATE, payload::creation(), *connections, 0);
        admission(UPDATE, payload::update(), *connections, 0);
    }
    if plan.handshakes > 0 {
        admission(CREATE, payload::creation(), 1, plan.handshakes);
    }
    for objects in &plan.batches {
        // Large ones would only wait for each other, and take their memory many times.
        let connections: &[u32] = match objects {
            ..BATCH => &plan.connections,
            _ => &[1],
        };
        all.extend(connections.iter().map(|connections| Scenario {
            call: CONVERT,
            paths: [payload::CONVERSION_PATH, bare::ECHO_PATH],
            body: payload::conversion(*objects),
            objects: Some(*objects),
            connections: *connections,
            handshakes: 0,
        }));
    }
    all
}

/// Both servers, the manager first.
struct Stage<'a> {
    servers: [Server; 2],
    /// Their memory at rest, in KiB.
    rest: [u64; 2],
    identity: &'a Identity,
    plan: &'a Plan,
    interrupted: &'a AtomicBool,
}

impl Stage<'_> {
    /// Has each answer a little, and sees what it uses at rest.
    fn settle(&mut self) -> Result<(), Error> {
        let bodies = [
            (
                payload::creation(),
                payload::ADMISSION_PATH,
                bare::FIXED_PATH,
            ),
            (
                payload::conversion(1),
                payload::CONVERSION_PATH,
                bare::ECHO_PATH,
            ),
        ];
        for (body, ours, theirs) in &bodies {
            for (server, path) in self.servers.iter().zip([ours, theirs]) {
                let mut connection = Connection::open(server.address, &self.identity.tls)?;
                connection.call(&client::request(path, body))?;
            }
        }
        let before = [self.servers[0].cpu()?, self.servers[1].cpu()?];
        std::thread::sleep(REST);
        for (number, name) in SERVERS.iter().enumerate() {
            let server = &self.servers[number];
            let cpu = server.cpu()?.since(before[number]).all;
            self.rest[number] = server.memory()?.resident;
            println!(
                "{name} at rest: {:.1} MiB, {:.2} ms of CPU in {} s",
                self.rest[number] as f64 / 1024.0,
                cpu.as_secs_f64() * 1e3,
                REST.as_secs(),
            );
        }
        Ok(())
    }

    fn measure(&mut self, scenario: &Scenario) -> Result<[Figures; 2], Error> {
        let requests = scenario
            .paths
            .map(|path| client::request(path, &scenario.body));
        let mut connections = [
            self.connections(0, scenario)?,
            self.connections(1, scenario)?,
        ];
        // The manager's answer is looked at once; that of the other is not its body's equal.
        let answer = match connections[0].first_mut() {
            Some(connection) => connection.call(&requests[0])?,
            None => &[],
        };
        if !payload::is_granted(answer, scenario.objects) {
            return Err(Error::Refused {
                what: scenario.name(),
                answer: String::from_utf8_lossy(answer.get(..500).unwrap_or(answer)).into_owned(),
            });
        }
        for (connections, request) in connections.iter_mut().zip(&requests) {
            client::load(connections, request, WARM_UP, self.interrupted)?;
        }
        let mut figures = [Figures::default(), Figures::default()];
        for round in 0..self.plan.rounds as usize {
            // Ours, theirs, theirs, ours: who comes first is worth nothing in the long run.
            for turn in [round % 2, 1 - round % 2] {
                let done = self.turn(turn, scenario, &mut connections[turn], &requests[turn])?;
                let peak = self.servers[turn].memory()?.peak;
                let over_rest = peak.saturating_sub(self.rest[turn]);
                figures[turn].peak = figures[turn].peak.max(over_rest);
                figures[turn].turns.push(done);
            }
        }
        Ok(figures)
    }

    fn connections(&self, server: usize, scenario: &Scenario) -> Result<Vec<Connection>, Error> {
        let address = self.servers[server].address;
        let opened =
            (0..scenario.connections).map(|_| Ok(Connection::open(address, &self.identity.tls)?));
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
