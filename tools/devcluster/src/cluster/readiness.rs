//! Waits until a cluster serves, and until it can be used.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::Cluster;
use crate::error::{Error, Result};
use crate::load::load_factor;
use crate::nodes::takes_pods;

/// Limit on an idle machine, where a start takes some 5 s. Beside a run of all tests and two
/// compilations it took 46 s.
const READY_LIMIT: Duration = Duration::from_secs(90);

/// The poll interval. Each attempt is a TLS handshake, which costs the starting API server time.
const POLL: Duration = Duration::from_millis(100);

impl Cluster {
    pub(super) fn wait_until_serving(&self) -> Result<()> {
        self.wait("/readyz of the API server", || {
            let answer = self
                .api_server
                .get("/readyz")
                .map_err(|error| error.to_string())?;
            if answer.status == 200 {
                Ok(())
            } else {
                Err(answer.body)
            }
        })
    }

    pub(super) fn wait_until_usable(&self) -> Result<()> {
        let read = |path| self.get(path).map_err(|error| error.to_string());
        self.wait("the default ServiceAccount", || {
            let account = read("/api/v1/namespaces/default/serviceaccounts/default")?;
            account.map(|_| ()).ok_or_else(|| "none".to_owned())
        })?;
        self.wait("every node Ready", || {
            let list = read("/api/v1/nodes")?.unwrap_or_default();
            let ready = list["items"].as_array().map_or(0, |items| {
                items.iter().filter(|node| takes_pods(node)).count()
            });
            if ready >= self.nodes.count() {
                Ok(())
            } else {
                Err(format!("{ready} of {}", self.nodes.count()))
            }
        })
    }

    /// Calls `attempt` until it succeeds, as long as every started component runs.
    pub(crate) fn wait(
        &self,
        what: &str,
        mut attempt: impl FnMut() -> std::result::Result<(), String>,
    ) -> Result<()> {
        let began = Instant::now();
        loop {
            let seen = match attempt() {
                Ok(()) => return Ok(()),
                Err(seen) => seen,
            };
            self.check()?;
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            let limit = READY_LIMIT.mul_f64(load_factor());
            if began.elapsed() > limit {
                return Err(Error::Late {
                    what: what.to_owned(),
                    limit,
                    seen,
                });
            }
            thread::sleep(POLL);
        }
    }
}
