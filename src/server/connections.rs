//! The connections of one listener: a limited number, each with a deadline for its current wait. When all
//! slots are taken, a connection is closed of the address that has the most, the one that has waited
//! longest. So a client that opens many connections closes its own. Knows neither TLS nor HTTP.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::net::Shutdown;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::{Counters, Limits};

/// Shortest time between two checks of the deadlines.
const SWEEP: Duration = Duration::from_millis(500);
/// Bytes of a body that a client must send, and of a long answer that it must read, in each [`WINDOW`].
pub(crate) const MIN_BYTES: usize = 64 * 1024;
/// See [`MIN_BYTES`].
pub(crate) const WINDOW: Duration = Duration::from_secs(3);
/// Longest time from the header of a request to the end of its body. Handlers that read bodies have
/// shorter limits of their own, and answer.
const BODY: Duration = Duration::from_secs(20);
/// Maximum bytes of a TLS handshake, in addition to the header of the first request.
const HANDSHAKE_BYTES: usize = 8 * 1024;

/// The connections that are open.
#[derive(Debug)]
pub(super) struct Connections {
    limits: Limits,
    pub(super) counters: Counters,
    table: Mutex<Table>,
    /// A connection was opened or closed.
    changed: Notify,
    /// Answers ask their clients to close.
    is_closing: AtomicBool,
    /// Tells the listener to accept what waits and to close.
    pub(super) close_listener: Notify,
    pub(super) listener_closed: Notify,
}

#[derive(Debug, Default)]
struct Table {
    /// By the order in which they came.
    slots: BTreeMap<u64, Arc<Slot>>,
    /// Their number by address.
    counts: HashMap<IpAddr, usize>,
    next: u64,
}

/// The record of one connection, which its stream and its requests share.
#[derive(Debug)]
pub(crate) struct Slot {
    number: u64,
    pub(super) socket: TcpStream,
    peer: IpAddr,
    state: Mutex<State>,
    is_closed: AtomicBool,
    closed: Notify,
    pub(super) connections: Arc<Connections>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    waits_for: WaitsFor,
    since: Instant,
    /// Bytes that the client has sent since, or taken of a long answer.
    moved: usize,
    /// The same at the end of the last [`WINDOW`], and its time.
    window: (Instant, usize),
    /// At least one request on this connection succeeded.
    is_validated: bool,
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitsFor {
    /// The client's next request, its handshake before the first one included.
    Request,
    /// The rest of a request's body.
    Body,
    /// The server.
    Answer,
    /// The client, which reads a long answer.
    Taking,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connections {
    pub(super) fn new(limits: Limits, counters: Counters) -> Arc<Self> {
        Arc::new(Self {
            limits,
            counters,
            table: Mutex::default(),
            changed: Notify::new(),
            is_closing: AtomicBool::new(false),
            close_listener: Notify::new(),
            listener_closed: Notify::new(),
        })
    }

    /// A slot for a new connection, if necessary that of another one. `None` while all connections that
    /// could be closed wait for the server.
    pub(super) fn admit(
        self: &Arc<Self>,
        socket: TcpStream,
        peer: SocketAddr,
    ) -> Option<Arc<Slot>> {
        let peer = peer.ip().to_canonical();
        let mut table = lock(&self.table);
        if table.slots.len() >= self.limits.connections {
            let victim = table.victim(peer)?;
            table.remove(&victim);
            victim.close();
            self.counters.evicted.inc();
        }
        let number = table.next;
        table.next += 1;
        let slot = Arc::new(Slot {
            number,
            socket,
            peer,
            state: Mutex::new(State::new(WaitsFor::Request, false)),
            is_closed: AtomicBool::new(false),
            closed: Notify::new(),
            connections: Arc::clone(self),
        });
        table.slots.insert(number, Arc::clone(&slot));
        *table.counts.entry(peer).or_default() += 1;
        drop(table);
        self.counters.connections.inc();
        self.changed.notify_waiters();
        Some(slot)
    }

    /// The connection has ended.
    pub(super) fn leave(&self, slot: &Slot) {
        lock(&self.table).remove(slot);
        self.counters.connections.dec();
        self.changed.notify_waiters();
    }

    pub(super) fn len(&self) -> usize {
        lock(&self.table).slots.len()
    }

    /// From now on answers ask their clients to close.
    pub(super) fn ask_to_close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Relaxed)
    }

    /// Accepts what waits in the kernel's queue, and closes the listener.
    pub(super) async fn close_listener(&self) {
        self.close_listener.notify_one();
        self.listener_closed.notified().await;
    }

    /// Ends connections that wait for a request: what the kernel has received is still read,
    /// and then the end of the file. `of` is told whether a connection is validated.
    pub(super) fn end_idle(&self, of: impl Fn(bool) -> bool) {
        for slot in lock(&self.table).slots.values() {
            let state = *lock(&slot.state);
            if state.waits_for == WaitsFor::Request && of(state.is_validated) {
                let _ = rustix::net::shutdown(&slot.socket, Shutdown::Read);
            }
        }
    }

    /// Waits until no connection is left.
    pub(super) async fn all_left(&self) {
        loop {
            let changed = self.changed.notified();
            if self.len() == 0 {
                return;
            }
            changed.await;
        }
    }

    /// Closes connections whose deadline has passed.
    pub(super) async fn enforce_deadlines(&self) -> Infallible {
        loop {
            let changed = self.changed.notified();
            let now = Instant::now();
            let slots: Vec<_> = lock(&self.table).slots.values().cloned().collect();
            for slot in &slots {
                if slot.is_overdue(&self.limits, now) {
                    slot.close();
                }
            }
            match slots.is_empty() {
                true => changed.await,
                false => sleep_until(now + SWEEP).await,
            }
        }
    }
}

impl Table {
    fn remove(&mut self, slot: &Slot) {
        if self.slots.remove(&slot.number).is_some()
            && let Some(count) = self.counts.get_mut(&slot.peer)
        {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&slot.peer);
            }
        }
    }

    /// The connection to close for a new one from `newcomer`.
    fn victim(&self, newcomer: IpAddr) -> Option<Arc<Slot>> {
        let counts = self.counts.iter();
        // The new connection counts.
        let counts = counts.map(|(peer, count)| (*peer, count + usize::from(*peer == newcomer)));
        let most = counts.clone().map(|(_, count)| count).max()?;
        let heaviest = counts.filter(|(_, count)| *count == most);
        let heaviest: Vec<IpAddr> = heaviest.map(|(peer, _)| peer).collect();
        // Calls in progress are closed only for an address that has far fewer.
        let of_newcomer = self.counts.get(&newcomer).map_or(1, |count| count + 1);
        let may_cut = of_newcomer <= most / 2;
        let slots = self.slots.values();
        let candidates = slots
            .filter(|slot| heaviest.contains(&slot.peer))
            .map(|slot| (lock(&slot.state).key(), slot))
            .filter(|((is_answer, _), _)| may_cut || !is_answer);
        let victim = candidates.min_by_key(|(key, _)| *key);
        victim.map(|(_, slot)| Arc::clone(slot))
    }
}

impl State {
    fn new(waits_for: WaitsFor, is_validated: bool) -> Self {
        let now = Instant::now();
        Self {
            waits_for,
            since: now,
            moved: 0,
            window: (now, 0),
            is_validated,
        }
    }

    /// Of several connections the one with the smallest gives way.
    fn key(&self) -> (bool, Instant) {
        (self.waits_for == WaitsFor::Answer, self.since)
    }
}

impl Slot {
    /// The address of the client.
    pub(crate) fn peer(&self) -> IpAddr {
        self.peer
    }

    fn waits_for(&self, waits_for: WaitsFor) {
        let mut state = lock(&self.state);
        *state = State::new(waits_for, state.is_validated);
    }

    /// The header of a request is there, and its body is to come.
    pub(crate) fn reads_body(&self) {
        self.waits_for(WaitsFor::Body);
    }

    /// The body is complete, or not read now: the server is next.
    pub(crate) fn works(&self) {
        self.waits_for(WaitsFor::Answer);
    }

    /// The answer is ready to be sent; `is_good` if the request succeeded, `is_long` if it
    /// takes memory until [`Slot::taken`].
    pub(super) fn answered(&self, is_good: bool, is_long: bool) {
        self.waits_for(match is_long {
            true => WaitsFor::Taking,
            false => WaitsFor::Request,
        });
        lock(&self.state).is_validated |= is_good;
    }

    /// The client has taken a long answer.
    pub(super) fn taken(&self) {
        let is_taking = lock(&self.state).waits_for == WaitsFor::Taking;
        if is_taking {
            self.waits_for(WaitsFor::Request);
        }
    }

    /// Counts bytes that the client has sent; false when they are more than a request's header
    /// may have.
    pub(super) fn received(&self, bytes: usize) -> bool {
        let mut state = lock(&self.state);
        let most = self.connections.limits.header_bytes + HANDSHAKE_BYTES;
        let too_many = state.waits_for == WaitsFor::Request && state.moved > most;
        state.moved = state.moved.saturating_add(bytes);
        !too_many
    }

    /// Counts bytes that the client has taken of a long answer.
    pub(super) fn sent(&self, bytes: usize) {
        let mut state = lock(&self.state);
        if state.waits_for == WaitsFor::Taking {
            state.moved = state.moved.saturating_add(bytes);
        }
    }

    fn is_overdue(&self, limits: &Limits, now: Instant) -> bool {
        let mut state = lock(&self.state);
        let waited = now.saturating_duration_since(state.since);
        match state.waits_for {
            WaitsFor::Request if state.is_validated => waited >= limits.idle,
            WaitsFor::Request => waited >= limits.first_header,
            WaitsFor::Body => waited >= BODY,
            WaitsFor::Answer => false,
            WaitsFor::Taking => {
                let (began, before) = state.window;
                let is_over = now.saturating_duration_since(began) >= WINDOW;
                let is_slow = is_over && state.moved.saturating_sub(before) < MIN_BYTES;
                if is_over {
                    state.window = (now, state.moved);
                }
                is_slow || waited >= limits.take
            }
        }
    }

    /// Ends the connection, whatever it is doing: its stream reads an end of file and takes
    /// nothing more, and a request that is being answered is dropped.
    fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
        // Remembered if there is no listener yet.
        self.closed.notify_one();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Ends when the server has closed the connection.
    pub(super) async fn closed(&self) {
        self.closed.notified().await;
    }
}
