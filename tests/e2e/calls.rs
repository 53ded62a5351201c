//! Calls of the API server in both versions of every kind during a disruption.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Config};
use quartet_operator::packaging::kinds;
use serde_json::json;

/// The pause between two calls of one kind and sort.
const PAUSE: Duration = Duration::from_millis(100);
const DEADLINE: Duration = Duration::from_secs(5);

/// The sorts of calls. Each takes another path through the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sort {
    /// GET in the stored version: no webhook.
    ReadStored,
    /// GET in the other version: conversion.
    ReadOther,
    /// PATCH in the stored version, as a dry run: admission.
    WriteStored,
    /// The same in the other version: both.
    WriteOther,
}

/// The results of the calls of one sort.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) calls: usize,
    pub(crate) failed: usize,
    /// The time from the first failed call to the last.
    pub(crate) failing_for: Duration,
    first_failure: Option<Instant>,
    /// The API server's errors, with their counts.
    reasons: BTreeMap<String, usize>,
}

impl Tally {
    fn add(&mut self, result: Result<(), String>) {
        self.calls += 1;
        if let Err(reason) = result {
            self.failed += 1;
            self.failing_for = self
                .first_failure
                .get_or_insert_with(Instant::now)
                .elapsed();
            *self.reasons.entry(reason).or_default() += 1;
        }
    }
}

/// Makes calls in both versions of the spoke samples of all kinds until stopped.
pub(crate) struct Calls {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<BTreeMap<Sort, Tally>>,
}

impl Calls {
    pub(crate) fn start(kubeconfig: &Path) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (kubeconfig, until) = (kubeconfig.to_owned(), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(call(&kubeconfig, &until))
        });
        Self { stop, thread }
    }

    /// Stops the calls, prints and returns the results.
    pub(crate) fn stop(self) -> BTreeMap<Sort, Tally> {
        self.stop.store(true, Ordering::Relaxed);
        let tallies = self.thread.join().expect("no panic in the calls");
        for (sort, tally) in &tallies {
            println!(
                "  {sort:?}: {} calls, {} failed, in {:.1} s",
                tally.calls,
                tally.failed,
                tally.failing_for.as_secs_f32()
            );
            for (reason, times) in &tally.reasons {
                println!("    {times} × {reason}");
            }
            assert!(tally.calls > 20, "{sort:?}: the tested situation occurred");
        }
        tallies
    }
}

/// Calls every kind in turn; a slow call delays only its own sort.
async fn call(kubeconfig: &Path, stop: &AtomicBool) -> BTreeMap<Sort, Tally> {
    use Sort::{ReadOther, ReadStored, WriteOther, WriteStored};
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let client = Client::try_from(config.expect("a configuration")).expect("a client");
    let sorts = [ReadStored, ReadOther, WriteStored, WriteOther].map(|sort| {
        let client = client.clone();
        async move {
            let mut tally = Tally::default();
            while !stop.load(Ordering::Relaxed) {
                for kind in kinds() {
                    let version = match sort {
                        ReadStored | WriteStored => &kind.hub,
                        ReadOther | WriteOther => &kind.spoke,
                    };
                    let resource = ApiResource::from_gvk_with_plural(
                        &GroupVersionKind::gvk(kind.group, version.name, kind.kind),
                        kind.plural,
                    );
                    let api: Api<DynamicObject> =
                        Api::default_namespaced_with(client.clone(), &resource);
                    let name = &format!("{}-sample", kind.kind.to_lowercase());
                    let answer = tokio::time::timeout(DEADLINE, async {
                        match sort {
                            ReadStored | ReadOther => api.get(name).await,
                            WriteStored | WriteOther => {
                                let patch = json!({"metadata": {"labels": {"traffic": "on"}}});
                                let dry = PatchParams::default().dry_run();
                                api.patch(name, &dry, &Patch::Merge(patch)).await
                            }
                        }
                    });
                    tally.add(match answer.await {
                        Err(_) => Err(format!("no answer within {DEADLINE:?}")),
                        Ok(Err(error)) => Err(error.to_string()),
                        Ok(Ok(object)) if object.data["spec"].is_object() => Ok(()),
                        Ok(Ok(object)) => Err(format!("no spec: {object:?}")),
                    });
                    tokio::time::sleep(PAUSE).await;
                }
            }
            (sort, tally)
        }
    });
    futures::future::join_all(sorts).await.into_iter().collect()
}
