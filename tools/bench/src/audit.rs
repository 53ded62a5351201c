//! The manager's requests, counted in the API server's audit log as it grows.

use std::collections::BTreeMap;
use std::path::Path;

use devcluster::AuditEvent;
use jiff::Timestamp;

use crate::Result;

/// What the fleet's client calls itself.
pub(crate) const FLEET: &str = "bench/1.0";

/// Requests, by what they did to what and how that ended.
pub(crate) type Requests = BTreeMap<Request, u64>;

/// The kind of a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Request {
    /// As RBAC has it, e.g. `patch`.
    pub(crate) verb: String,
    /// Plural, with the subresource, e.g. `memcacheds/status`.
    pub(crate) resource: String,
    /// HTTP status code.
    pub(crate) code: u16,
}

impl Request {
    /// What an informer at rest asks: its watch, every 50 s.
    pub(crate) fn is_watch(&self) -> bool {
        self.verb == "watch"
    }

    /// What a cache would answer.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self.verb.as_str(), "get" | "list")
    }

    /// What a manager at rest does not send: neither a watch nor a request for the lease, every 2 s.
    pub(crate) fn is_work(&self) -> bool {
        !self.is_watch() && self.resource != "leases"
    }
}

/// What a user is told of one resource, and when.
#[derive(Debug, Default)]
struct Told {
    created: Option<Timestamp>,
    /// When the last of its children was created before its first status.
    children: Option<Timestamp>,
    /// When its first status was written.
    status: Option<Timestamp>,
    /// Writes of its status.
    writes: u32,
}

/// The statuses of all resources.
#[derive(Debug, Default)]
pub(crate) struct Statuses {
    /// From the creation of a resource to its first status, in seconds.
    pub(crate) after_creation: Vec<f64>,
    /// From the creation of its last child to its first status, in seconds.
    pub(crate) after_children: Vec<f64>,
    /// The most writes of one status.
    pub(crate) most_writes: u32,
}

/// Returns the value that so many percent of all do not exceed, by the nearest rank; 0 if there are none.
pub(crate) fn quantile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

/// The log, and up to where it was read.
pub(crate) struct AuditLog {
    log: devcluster::AuditLog,
    /// What the manager's client calls itself.
    agent: &'static str,
    /// By namespace and name: no two of the fleet share them.
    told: BTreeMap<(String, String), Told>,
}

impl AuditLog {
    /// The log at `path`, from its beginning, for a manager whose client calls itself `agent`.
    pub(crate) fn open(path: &Path, agent: &'static str) -> Result<Self> {
        Ok(Self {
            log: devcluster::AuditLog::open(path)?,
            agent,
            told: BTreeMap::new(),
        })
    }

    /// The manager's requests since the last call. A watch is counted when it begins, any
    /// other request when it ends.
    pub(crate) fn new_requests(&mut self) -> Result<Requests> {
        let mut requests = Requests::new();
        let (told, agent) = (&mut self.told, self.agent);
        let concerns = |line: &str| line.contains(agent) || line.contains(FLEET);
        self.log.read(concerns, |event| {
            let is_managers = event.user_agent.starts_with(agent);
            if is_managers || event.user_agent == FLEET {
                let of = (event.namespace.clone(), event.name.clone());
                told.entry(of).or_default().note(&event, is_managers);
            }
            if is_managers {
                let request = Request {
                    verb: event.verb,
                    resource: event.resource,
                    code: event.code,
                };
                *requests.entry(request).or_default() += 1;
            }
        })?;
        Ok(requests)
    }

    /// The statuses of the resources that were created so far.
    pub(crate) fn statuses(&self) -> Statuses {
        let first_after = |since: fn(&Told) -> Option<Timestamp>| {
            let after = |told: &Told| {
                let after = told.status?.duration_since(since(told)?);
                Some(after.as_secs_f64().max(0.0))
            };
            self.told.values().filter_map(after).collect()
        };
        Statuses {
            after_creation: first_after(|told| told.created),
            after_children: first_after(|told| told.children),
            most_writes: self.told.values().map(|it| it.writes).max().unwrap_or(0),
        }
    }
}

impl Told {
    /// Takes a request of the manager, or of the fleet's client, for the resource or a child, which has
    /// the name of its resource.
    fn note(&mut self, event: &AuditEvent, is_managers: bool) {
        let (verb, resource) = (event.verb.as_str(), event.resource.as_str());
        let is_child = matches!(resource, "deployments" | "services");
        match (is_managers, event.code) {
            (true, 201) if is_child && self.status.is_none() => {
                self.children = Some(event.answered)
            }
            (true, 200) if resource.ends_with("/status") && matches!(verb, "patch" | "update") => {
                self.writes += 1;
                self.status.get_or_insert(event.answered);
            }
            // The namespaces are the fleet's, too.
            (false, 201) if verb == "create" && resource != "namespaces" => {
                self.created = Some(event.answered);
            }
            _ => {}
        }
    }
}

/// The number of requests that are counted.
pub(crate) fn count(requests: &Requests, counts: impl Fn(&Request) -> bool) -> f64 {
    let counted = requests.iter().filter(|(request, _)| counts(request));
    // The sum of no f64 is -0.
    counted.map(|(_, count)| *count).sum::<u64>() as f64
}

/// E.g. `200 patch deployments 201, 200 patch memcacheds/status 200`.
pub(crate) fn listed(requests: &Requests) -> String {
    let each = requests.iter().map(|(request, count)| {
        let (verb, resource) = (&request.verb, &request.resource);
        format!("{count} {verb} {resource} {}", request.code)
    });
    match each.collect::<Vec<_>>().as_slice() {
        [] => "none".to_owned(),
        each => each.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_value_by_the_nearest_rank() {
        let values: Vec<_> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(quantile(&values, 50), 100.0);
        assert_eq!(quantile(&values, 99), 198.0);
        assert_eq!(quantile(&[3.0], 50), 3.0);
        assert_eq!(quantile(&[], 50), 0.0);
    }
}
