//! The resources: as many at a time as the manager makes Ready, and then changes of one.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{sleep, timeout};

use super::Plan;
use super::cluster::Cluster;
use super::server::News;
use crate::error::Error;
use crate::fleet::KINDS;

/// Resources of a namespace.
const OF_A_NAMESPACE: u32 = 100;

/// How long nothing may happen that is waited for.
const LIMIT: Duration = Duration::from_secs(120);

/// Between two changes: what they caused is over.
const PAUSE: Duration = Duration::from_millis(50);

/// From one resource to the next that is changed: a prime over the maximum number of resources, so that
/// none is changed twice before all are.
const STRIDE: u64 = 1_000_003;

pub(super) struct Load {
    resources: u32,
    pods: u32,
    at_a_time: usize,
    changes: u32,
    cluster: Cluster,
    news: UnboundedReceiver<News>,
}

impl Load {
    pub(super) fn new(
        plan: &Plan,
        resources: u32,
        cluster: &Cluster,
        news: UnboundedReceiver<News>,
    ) -> Self {
        Self {
            resources,
            pods: plan.pods,
            at_a_time: plan.at_a_time as usize,
            changes: plan.changes.min(resources),
            cluster: cluster.clone(),
            news,
        }
    }

    fn ask_for(&self, number: u32, pods: u32) {
        let kind = &KINDS[number as usize % KINDS.len()];
        let spec = kind.spec(number, pods);
        self.cluster.ask_for(kind.plural, &key(number), &spec);
    }

    async fn next(&mut self, what: &str) -> Result<News, Error> {
        match timeout(LIMIT, self.news.recv()).await {
            Ok(Some(news)) => Ok(news),
            Ok(None) | Err(_) => Err(Error::Late {
                what: what.to_owned(),
                limit: LIMIT,
            }),
        }
    }

    /// Creates all of them, and returns when all are Ready.
    pub(super) async fn burst(&mut self) -> Result<(), Error> {
        let mut ready = HashSet::new();
        let mut created = 0;
        while ready.len() < self.resources as usize {
            while created < self.resources && created as usize - ready.len() < self.at_a_time {
                self.ask_for(created, self.pods);
                created += 1;
            }
            let what = format!("that another than {} resources is Ready", ready.len());
            if let News::Ready(key) = self.next(&what).await? {
                ready.insert(key);
            }
        }
        Ok(())
    }

    /// Changes one resource after the other; returns how long each took from the write to the arrival
    /// of its apply.
    pub(super) async fn changes(&mut self) -> Result<Vec<Duration>, Error> {
        let mut times = Vec::new();
        for change in 0..self.changes {
            let number = u64::from(change) * STRIDE % u64::from(self.resources);
            let number = u32::try_from(number).unwrap_or_default();
            let key = key(number);
            while self.news.try_recv().is_ok() {}
            let began = Instant::now();
            self.ask_for(number, self.pods + 1);
            loop {
                match self
                    .next(&format!("the apply of the change of {key}"))
                    .await?
                {
                    News::Applied(applied, at) if applied == key => {
                        times.push(at.saturating_duration_since(began));
                    }
                    News::Ready(ready) if ready == key => break,
                    News::Applied(..) | News::Ready(_) => {}
                }
            }
            sleep(PAUSE).await;
        }
        Ok(times)
    }
}

fn key(number: u32) -> String {
    format!("scale-{:04}/r{number}", number / OF_A_NAMESPACE)
}
