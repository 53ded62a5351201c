//! What users of a Service see while something happens to it: answers to requests that are made
//! all the while, and the endpoints that there are at every moment.

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

/// Between two requests.
const PACE: Duration = Duration::from_millis(20);
/// A client's for one request: that to a pod that has just gone may never be answered.
const PATIENCE: Duration = Duration::from_secs(1);
/// Nothing here lasts longer.
const LONGEST: Duration = Duration::from_secs(900);
/// For what is there already.
const WAIT: Duration = Duration::from_secs(60);
/// How many errors are kept.
const SHOWN: usize = 10;

/// Requests for a page, one after another.
pub(crate) struct Traffic {
    target: String,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Record>>,
}

/// How they were answered.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) answers: u32,
    pub(crate) failures: u32,
    /// The first that differ.
    pub(crate) errors: Vec<String>,
    /// The longest time between two answers.
    pub(crate) silence: Duration,
}

impl Traffic {
    /// Begins to ask; the first request must be answered.
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

    /// Ends it and tells how it went.
    pub(crate) fn end(mut self) -> Record {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it was begun");
        let record = thread.join().expect("no panic");
        println!("requests to {}: {record:?}", self.target);
        record
    }
}

/// A test that fails leaves no thread that goes on asking.
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

/// The endpoints of a Service, as a watch tells of them.
pub(crate) struct Endpoints {
    service: String,
    watch: Child,
    reader: Option<JoinHandle<()>>,
    /// How many were ready after each change.
    counts: Arc<Mutex<Vec<usize>>>,
}

impl Endpoints {
    /// Begins to watch those of a Service, and waits until there are some.
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

    /// How many there were after each change since the first were ready.
    fn seen(&self) -> Vec<usize> {
        let counts = self.counts.lock().expect("not poisoned");
        let counts = counts.iter().skip_while(|count| **count == 0);
        counts.copied().collect()
    }

    /// Ends the watch; the fewest that were ready at any moment.
    pub(crate) fn fewest(mut self) -> usize {
        let exit = self.watch.try_wait().expect("a child of ours");
        assert!(exit.is_none(), "the watch has ended by itself: {exit:?}");
        self.watch.kill().expect("killed");
        let reader = self.reader.take().expect("it was begun");
        reader.join().expect("no panic");
        let seen = self.seen();
        println!("ready endpoints of {}: {seen:?}", self.service);
        seen.into_iter().min().expect("there were some")
    }
}

/// Nothing that was begun goes on when a test fails.
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
        // Killed in the middle of an event, it leaves half of one.
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

/// Endpoints that traffic is sent to: ready ones, of a port.
fn ready(slice: &Value) -> usize {
    let list = |field: &str| slice[field].as_array().cloned().unwrap_or_default();
    if list("ports").is_empty() {
        return 0;
    }
    let is_ready = |endpoint: &&Value| endpoint["conditions"]["ready"] == true;
    list("endpoints").iter().filter(is_ready).count()
}
