//! A world of replicas and an API server, and the events that change it.

use k8s_openapi::ByteString;

use super::*;

/// One event.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// A replica reads everything and plans.
    Look(usize),
    /// The replica writes the planned Secret.
    WriteSecret(usize),
    /// The replica writes the bundle of one object.
    WriteBundle(usize, usize),
    /// The replica restarts.
    Restart(usize),
    /// Every replica plans and writes once, and then this number of hours passes.
    Pass(i64),
    /// A user overwrites a bundle.
    Overwrite(usize),
    /// A user deletes the Secret.
    Delete,
    /// A user replaces the Secret by a valid one, such as a backup.
    Replace,
    /// A user damages one of its keys.
    Break(&'static str),
    /// The API server's clock is moved by this number of days.
    SetClock(i64),
}

pub(super) const REPLICAS: usize = 2;
pub(super) const OBJECTS: usize = 3;

#[derive(Default)]
pub(super) struct Replica {
    pub(super) serving: Option<Identity>,
    /// Since when every bundle has held the authority of the next pair.
    settled: Option<Duration>,
    /// The version of the Secret that was read, and the planned contents.
    pub(super) secret: Option<(u64, Contents)>,
    /// For each object the version that was read, and its bundle.
    bundles: Vec<(u64, Vec<Authority>)>,
}

/// The API server, with optimistic locking, and the replicas.
pub(super) struct World {
    pub(super) now: Timestamp,
    /// The actual time.
    pub(super) uptime: Duration,
    /// The version, 0 before the first, and the data; `None` is deleted.
    pub(super) secret: (u64, Option<std::collections::BTreeMap<String, ByteString>>),
    pub(super) objects: Vec<(u64, Vec<Authority>)>,
    pub(super) replicas: Vec<Replica>,
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            now: start(),
            uptime: Duration::ZERO,
            secret: (0, None),
            objects: vec![(0, Vec::new()); OBJECTS],
            replicas: (0..REPLICAS).map(|_| Replica::default()).collect(),
        }
    }

    pub(super) fn step(&mut self, step: &Step) {
        match *step {
            Step::Look(replica) => self.look(replica),
            Step::WriteSecret(replica) => {
                if let Some((version, contents)) = self.replicas[replica].secret.take()
                    && version == self.secret.0
                {
                    self.secret = (version + 1, Some(contents.data()));
                }
            }
            Step::WriteBundle(replica, object) => {
                if let Some((version, bundle)) = self.replicas[replica].bundles.get(object)
                    && *version == self.objects[object].0
                {
                    self.objects[object] = (version + 1, bundle.clone());
                }
            }
            Step::Restart(replica) => self.replicas[replica] = Replica::default(),
            Step::Pass(hours) => {
                self.round();
                self.now += SignedDuration::from_hours(hours);
                self.uptime += Duration::from_secs(hours.unsigned_abs() * 3600);
            }
            Step::Overwrite(object) => {
                let (version, bundle) = &mut self.objects[object];
                *version += 1;
                bundle.clear();
            }
            Step::Delete => self.secret = (self.secret.0 + 1, None),
            Step::Replace => {
                let foreign = holding(&made(self.now));
                self.secret = (self.secret.0 + 1, Some(foreign.data()));
            }
            Step::Break(key) => {
                self.secret.0 += 1;
                if let Some(value) = self.secret.1.as_mut().and_then(|data| data.get_mut(key)) {
                    value.0.truncate(value.0.len() / 2);
                }
            }
            Step::SetClock(set) => self.now += days(set),
        }
    }

    pub(super) fn look(&mut self, index: usize) {
        let stored = self.stored();
        let bundles = self.objects.iter().map(|(_, held)| Some(held.clone()));
        let bundles: Vec<_> = bundles.collect();
        let replica = &mut self.replicas[index];
        let next = stored.as_ref().and_then(|stored| stored.next.as_ref());
        let is_everywhere = next.is_some_and(|next| everywhere(&bundles, &next.authority));
        let since = replica.settled.filter(|_| is_everywhere);
        let since = since.unwrap_or(self.uptime);
        replica.settled = is_everywhere.then_some(since);
        let settled = self.uptime - since;
        let decided = decide(Seen {
            now: self.now,
            secret: stored.as_ref(),
            serving: replica.serving.as_ref(),
            bundles: &bundles,
            settled,
        });
        if let Some(serve) = decided.serve {
            replica.serving = Some(serve);
        }
        replica.secret = decided.write.map(|contents| (self.secret.0, contents));
        // Also while the Secret is to be written, but never without the authority of what is served.
        let trusted = stored.map(|it| it.trusted()).unwrap_or_default();
        let serving = replica.serving.as_ref();
        replica.bundles = if serving.is_some_and(|it| trusted.contains(&it.authority)) {
            let versions = self.objects.iter().map(|(version, _)| *version);
            versions.map(|version| (version, trusted.clone())).collect()
        } else {
            Vec::new()
        };
    }

    /// Every replica reads, writes, and reads again.
    pub(super) fn round(&mut self) {
        for replica in 0..REPLICAS {
            for _ in 0..2 {
                self.look(replica);
                self.step(&Step::WriteSecret(replica));
                self.look(replica);
                for object in 0..OBJECTS {
                    self.step(&Step::WriteBundle(replica, object));
                }
            }
        }
    }

    pub(super) fn stored(&self) -> Option<Contents> {
        let data = self.secret.1.as_ref()?;
        Some(read(data, self.now))
    }

    /// A violation of the invariant: a replica whose valid certificate is not trusted by some object.
    pub(super) fn untrusted(&self) -> Option<String> {
        for (number, replica) in self.replicas.iter().enumerate() {
            let Some(serving) = &replica.serving else {
                continue;
            };
            for (object, (_, bundle)) in self.objects.iter().enumerate() {
                if !bundle.contains(&serving.authority) {
                    return Some(format!("replica {number}, object {object}"));
                }
            }
        }
        None
    }
}
