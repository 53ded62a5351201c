//! What users of a Service see during a disruption: responses to continuous requests, and the
//! number of endpoints at every moment.

use std::collections::HashMap;
use std::io::{BufReader, Read};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::operands;
use crate::shell::Shell;

/// The pause between two requests.
const PACE: Duration = Duration::from_millis(20);
/// A client's timeout for one request: one to a pod that has just ended may get no response.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longer than any phase.
const LONGEST: Duration = Duration::from_secs(900);
/// For objects that exist already.
const WAIT: Duration = Duration::from_secs(60);
/// The number of errors that are kept.
const SHOWN: usize = 10;

/// Requests for a page, one after another.
pub(crate) struct Traffic {
    target: String,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Record>>,
}

/// The results.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) answers: u32,
    pub(crate) failures: u32,
    /// The first errors.
    pub(crate) errors: Vec<String>,
    /// The longest time between two responses.
    pub(crate) silence: Duration,
}

impl Traffic {
    /// Starts the requests; the first one must succeed.
    pub(crate) fn begin(address: &str, port: u16) -> Self {
        operands::page(address, port);
        let stop = Arc::<AtomicBool>::default();
        let thread = thread::spawn({
            let (stop, address) = (Arc::clone(&stop), address.to_owned());
            move || ask(&address, port, &stop)
        });
        Self {
            target: format!("{address}:{port}"),
            stop,
            thread: Some(thread),
        }
    }

    /// Stops the requests and returns the results.
    pub(crate) fn end(mut self) -> Record {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("a started thread");
        let record = thread.join().expect("no panic");
        println!("requests to {}: {record:?}", self.target);
        record
    }
}

/// Stops the thread when a test fails.
impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn ask(address: &str, port: u16, stop: &AtomicBool) -> Record {
    let mut record = Record::default();
    let began = Instant::now();
    let mut answered = began;
    while !stop.load(Ordering::Relaxed) && began.elapsed() < LONGEST {
        match operands::fetch(address, port, PATIENCE) {
            Ok(()) => {
                record.answers += 1;
                record.silence = record.silence.max(answered.elapsed());
                answered = Instant::now();
            }
            Err(error) => {
                record.failures += 1;
                if !record.errors.contains(&error) && record.errors.len() < SHOWN {
                    record.errors.push(error);
                }
            }
        }
        thread::sleep(PACE);
    }
    record.silence = record.silence.max(answered.elapsed());
    record
}

/// The endpoints of a Service, from a watch.
pub(crate) struct Endpoints {
    service: String,
    watch: Child,
    reader: Option<JoinHandle<()>>,
    /// The number of ready endpoints after each change.
    counts: Arc<Mutex<Vec<usize>>>,
}

impl Endpoints {
    /// Starts to watch the endpoints of a Service and waits until there are some.
    pub(crate) fn watch(shell: &Shell, namespace: &str, service: &str) -> Self {
        let mut watch = shell.begin(&format!(
            "kubectl get endpointslices -n {namespace} -l kubernetes.io/service-name={service} \
             --watch --output-watch-events -o json --request-timeout={}s",
            LONGEST.as_secs()
        ));
        let output = watch.stdout.take().expect("a pipe");
        let counts: Arc<Mutex<Vec<usize>>> = Arc::default();
        let reader = thread::spawn({
            let counts = Arc::clone(&counts);
            move || count(BufReader::new(output), &counts)
        });
        let endpoints = Self {
            service: service.to_owned(),
            watch,
            reader: Some(reader),
            counts,
        };
        let began = Instant::now();
        while endpoints.seen().is_empty() {
            assert!(began.elapsed() < WAIT, "{service} has no endpoints");
            thread::sleep(PACE);
        }
        endpoints
    }

    /// Returns the numbers after each change since the first endpoints were ready.
    fn seen(&self) -> Vec<usize> {
        let counts = self.counts.lock().expect("not poisoned");
        let counts = counts.iter().skip_while(|count| **count == 0);
        counts.copied().collect()
    }

    /// Stops the watch and returns the fewest ready endpoints at any moment.
    pub(crate) fn fewest(mut self) -> usize {
        let exit = self.watch.try_wait().expect("a child process");
        assert!(exit.is_none(), "the watch has ended by itself: {exit:?}");
        self.watch.kill().expect("killed");
        let reader = self.reader.take().expect("a started thread");
        reader.join().expect("no panic");
        let seen = self.seen();
        println!("ready endpoints of {}: {seen:?}", self.service);
        seen.into_iter().min().expect("there were some")
    }
}

/// Stops the watch when a test fails.
impl Drop for Endpoints {
    fn drop(&mut self) {
        let _ = self.watch.kill();
        let _ = self.watch.wait();
    }
}

/// Reads the events of a watch of EndpointSlices to their end.
fn count(events: impl Read, counts: &Mutex<Vec<usize>>) {
    let mut by_slice: HashMap<String, usize> = HashMap::new();
    for event in serde_json::Deserializer::from_reader(events).into_iter::<Value>() {
        // A watch that is killed may leave an incomplete event.
        let Ok(event) = event else { return };
        let slice = &event["object"];
        let name = slice["metadata"]["name"].as_str().unwrap_or_default();
        if event["type"] == "DELETED" {
            by_slice.remove(name);
        } else {
            by_slice.insert(name.to_owned(), ready(slice));
        }
        let mut counts = counts.lock().expect("not poisoned");
        counts.push(by_slice.values().sum());
    }
}

/// Counts the endpoints that get traffic: ready ones with a port.
fn ready(slice: &Value) -> usize {
    let list = |field: &str| slice[field].as_array().cloned().unwrap_or_default();
    if list("ports").is_empty() {
        return 0;
    }
    let is_ready = |endpoint: &&Value| endpoint["conditions"]["ready"] == true;
    list("endpoints").iter().filter(is_ready).count()
}
