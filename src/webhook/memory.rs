//! The memory budget of all webhook calls: their request bodies and their answers.
//!
//! A call takes memory from a shared budget, in small steps. A call that may become longer than
//! [`SHARED_BODY`], and one that finds the shared budget empty, waits for the exclusive budget, which one
//! call has at a time. So one call always makes progress. Client addresses take turns, so that one
//! address cannot block another.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

use crate::budget::{
    COMPUTATIONS, EXCLUSIVE_BYTES, FREE_BYTES, SHARED_BODY, SHARED_BYTES, STEP_BYTES,
};

/// Longest wait for memory. The API server waits 5 s for an admission.
pub(super) const SHORT_WAIT: Duration = Duration::from_secs(3);
/// Longest wait of a long body. The API server waits 30 s for a conversion.
pub(super) const LONG_WAIT: Duration = Duration::from_secs(12);
/// Maximum number of addresses whose last turn is stored.
const MOST_ADDRESSES: usize = 1024;

/// Why a call gets no memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoMemory {
    /// The call has reached its limit.
    #[error("the call takes more than {limit} bytes of memory, body and answer together")]
    OverLimit { limit: usize },
    /// Other calls hold the memory.
    #[error("too many large requests at a time; try again")]
    Busy,
}

/// The memory of all calls.
#[derive(Debug, Clone)]
pub(super) struct Memory {
    shared: Arc<Semaphore>,
    exclusive: Arc<ExclusiveBudget>,
    /// Permits to compute answers to large bodies.
    computations: Arc<Semaphore>,
}

/// The memory of one call, released on drop.
#[derive(Debug, Default)]
pub(super) struct Share {
    /// `None` with the exclusive budget, and for a call that is not limited.
    shared: Option<OwnedSemaphorePermit>,
    exclusive: Option<ExclusivePermit>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            shared: Arc::new(Semaphore::new(SHARED_BYTES)),
            exclusive: Arc::default(),
            computations: Arc::new(Semaphore::new(COMPUTATIONS)),
        }
    }
}

impl Memory {
    /// A share for a body of at most `most` bytes; waits for the exclusive budget if that is long.
    pub(super) async fn share(&self, most: usize, peer: IpAddr) -> Result<Share, NoMemory> {
        let mut share = Share::default();
        match most > SHARED_BODY {
            true => share.exclusive = Some(wait(LONG_WAIT, self.exclusive.acquire(peer)).await?),
            false => share.shared = Arc::clone(&self.shared).try_acquire_many_owned(0).ok(),
        }
        Ok(share)
    }

    /// A permit to compute the answer to a large body; waits until one is free.
    pub(super) async fn computation(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.computations).acquire_owned().await.ok()
    }

    #[cfg(test)]
    pub(super) fn is_unused(&self) -> bool {
        self.shared.available_permits() == SHARED_BYTES && !self.exclusive.0.lock().is_taken
    }
}

async fn wait<T>(time: Duration, turn: impl Future<Output = T>) -> Result<T, NoMemory> {
    timeout(time, turn).await.map_err(|_| NoMemory::Busy)
}

impl Share {
    /// Its part of the shared budget.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        let permit = self.shared.as_ref();
        permit.map_or(0, OwnedSemaphorePermit::num_permits)
    }

    /// Its maximum in bytes.
    pub(super) fn limit(&self) -> usize {
        match self.exclusive {
            Some(_) => EXCLUSIVE_BYTES,
            None => SHARED_BYTES,
        }
    }

    /// The missing bytes for a total of `total` bytes, of body and answer.
    fn missing(&self, total: usize) -> Result<u32, NoMemory> {
        let limit = self.limit();
        if total > limit {
            return Err(NoMemory::OverLimit { limit });
        }
        let Some(shared) = &self.shared else {
            return Ok(0);
        };
        let needed = total.saturating_sub(2 * FREE_BYTES);
        let needed = needed.next_multiple_of(STEP_BYTES).min(SHARED_BYTES);
        let missing = needed.saturating_sub(shared.num_permits());
        u32::try_from(missing).map_err(|_| NoMemory::OverLimit { limit })
    }

    /// Grows to `total` bytes if they are free.
    pub(super) fn try_grow(&mut self, total: usize) -> Result<(), NoMemory> {
        let missing = self.missing(total)?;
        if let (Some(shared), 1..) = (&mut self.shared, missing) {
            let more = Arc::clone(shared.semaphore()).try_acquire_many_owned(missing);
            shared.merge(more.map_err(|_| NoMemory::Busy)?);
        }
        Ok(())
    }

    /// Grows to `total` bytes of `memory`; waits for them, or for the exclusive budget.
    pub(super) async fn grow(
        &mut self,
        memory: &Memory,
        total: usize,
        peer: IpAddr,
    ) -> Result<(), NoMemory> {
        let missing = self.missing(total)?;
        let grown = self.try_grow(total);
        let (Err(NoMemory::Busy), Some(shared)) = (grown, &mut self.shared) else {
            return grown;
        };
        tokio::select! {
            Ok(more) = Arc::clone(&memory.shared).acquire_many_owned(missing) => shared.merge(more),
            permit = wait(SHORT_WAIT, memory.exclusive.acquire(peer)) => {
                self.exclusive = Some(permit?);
                self.shared = None;
            }
        }
        Ok(())
    }

    /// Releases the bytes beyond `total`.
    pub(super) fn shrink_to(&mut self, total: usize) {
        let needed = total.saturating_sub(FREE_BYTES);
        if needed == 0 {
            self.exclusive = None;
        }
        if let Some(shared) = &mut self.shared {
            let spare = shared.num_permits().saturating_sub(needed);
            drop(shared.split(spare));
        }
    }
}

/// The queue of the exclusive budget. The next call is the first one of the address whose last turn is
/// the oldest.
#[derive(Debug, Default)]
struct ExclusiveBudget(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    is_taken: bool,
    waiting: Vec<(IpAddr, oneshot::Sender<ExclusivePermit>)>,
    /// The number of the last turn of each address.
    last: HashMap<IpAddr, u64>,
    turns: u64,
}

/// A permit for the exclusive budget. On drop it goes to the next call of the queue.
#[derive(Debug)]
struct ExclusivePermit(Arc<ExclusiveBudget>);

impl ExclusiveBudget {
    async fn acquire(self: &Arc<Self>, peer: IpAddr) -> ExclusivePermit {
        loop {
            let receiver = {
                let mut queue = self.0.lock();
                if !queue.is_taken {
                    queue.is_taken = true;
                    queue.had_turn(peer);
                    return ExclusivePermit(Arc::clone(self));
                }
                // Remove calls that timed out.
                queue.waiting.retain(|(_, sender)| !sender.is_closed());
                let (sender, receiver) = oneshot::channel();
                queue.waiting.push((peer, sender));
                receiver
            };
            if let Ok(permit) = receiver.await {
                return permit;
            }
        }
    }
}

impl Queue {
    fn had_turn(&mut self, peer: IpAddr) {
        if self.last.len() >= MOST_ADDRESSES {
            self.last.clear();
        }
        self.turns += 1;
        self.last.insert(peer, self.turns);
    }

    /// Removes the next call that still waits.
    fn next(&mut self) -> Option<oneshot::Sender<ExclusivePermit>> {
        self.waiting.retain(|(_, sender)| !sender.is_closed());
        let waiting = self.waiting.iter().enumerate();
        let (next, _) = waiting.min_by_key(|(number, (peer, _))| (self.last.get(peer), *number))?;
        let (peer, sender) = self.waiting.remove(next);
        self.had_turn(peer);
        Some(sender)
    }
}

impl Drop for ExclusivePermit {
    fn drop(&mut self) {
        let next = {
            let mut queue = self.0.0.lock();
            let next = queue.next();
            queue.is_taken = next.is_some();
            next
        };
        if let Some(next) = next {
            // A call that timed out meanwhile drops its permit, which passes it on.
            let _ = next.send(ExclusivePermit(Arc::clone(&self.0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    const THIRD: IpAddr = IpAddr::V4(Ipv4Addr::BROADCAST);
    const LONG: usize = SHARED_BODY + 1;

    #[tokio::test(start_paused = true)]
    async fn calls_that_find_nothing_left_are_served_alone_one_after_the_other() {
        let memory = Memory::default();
        let mut all = memory.share(SHARED_BODY, PEER).await.unwrap();
        all.grow(&memory, SHARED_BYTES, PEER).await.unwrap();
        assert!(all.bytes() >= SHARED_BYTES - 2 * FREE_BYTES);
        let calls = (0..20).map(async |_| {
            let mut share = memory.share(SHARED_BODY, OTHER).await.unwrap();
            share.grow(&memory, SHARED_BODY, OTHER).await.unwrap();
            assert_eq!(share.limit(), EXCLUSIVE_BYTES, "alone");
            tokio::time::sleep(SHORT_WAIT / 30).await;
        });
        futures::future::join_all(calls).await;
        drop(all);
        assert!(memory.is_unused());
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_take_turns_at_being_alone() {
        let memory = Memory::default();
        let first = memory.share(LONG, PEER).await.unwrap();
        let order = Mutex::new(Vec::new());
        let calls = [PEER, PEER, OTHER, THIRD, OTHER].map(|peer| {
            let (memory, order) = (&memory, &order);
            async move {
                let share = memory.share(LONG, peer).await.unwrap();
                order.lock().push(peer);
                drop(share);
            }
        });
        let release = async {
            tokio::task::yield_now().await;
            drop(first);
        };
        tokio::join!(futures::future::join_all(calls), release);
        assert_eq!(*order.lock(), [OTHER, THIRD, PEER, OTHER, PEER]);
        assert!(memory.is_unused());
    }

    #[test]
    fn the_turns_of_a_limited_number_of_addresses_are_known() {
        let mut queue = Queue::default();
        let addresses = (1..).map(|number| IpAddr::from(Ipv4Addr::from_bits(number)));
        for (address, turns) in addresses.zip(1..=MOST_ADDRESSES + 2) {
            queue.had_turn(address);
            // At the limit, all are forgotten.
            let known = (turns - 1) % MOST_ADDRESSES + 1;
            assert_eq!(queue.last.len(), known, "after {turns}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_waiting_is_passed_over() {
        let memory = Memory::default();
        let first = memory.share(LONG, PEER).await.unwrap();
        assert_eq!(memory.share(LONG, OTHER).await.unwrap_err(), NoMemory::Busy);
        drop(first);
        assert!(memory.is_unused());
        assert!(memory.share(LONG, PEER).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_share_grows_to_its_limit_and_shrinks_to_the_answer() {
        let memory = Memory::default();
        let mut share = memory.share(SHARED_BODY, PEER).await.unwrap();
        share.try_grow(2 * FREE_BYTES).unwrap();
        assert_eq!(share.bytes(), 0, "the first bytes are free");
        share.try_grow(SHARED_BYTES).unwrap();
        let over = share.try_grow(SHARED_BYTES + 1).unwrap_err();
        assert_eq!(
            over,
            NoMemory::OverLimit {
                limit: SHARED_BYTES
            }
        );
        share.shrink_to(FREE_BYTES + STEP_BYTES);
        assert_eq!(share.bytes(), STEP_BYTES);
        share.shrink_to(1);
        assert!(memory.is_unused());
        let mut exclusive = memory.share(LONG, PEER).await.unwrap();
        assert!(exclusive.try_grow(EXCLUSIVE_BYTES).is_ok());
        assert!(exclusive.try_grow(EXCLUSIVE_BYTES + 1).is_err());
    }
}
