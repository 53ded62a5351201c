//! The connections of one listener. Their number is limited, and each has a deadline for its current
//! wait. When all slots are taken, a new connection replaces the one that has waited longest, of the
//! client address with the most connections. Independent of TLS and HTTP.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use rustix::net::Shutdown;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::budget::Limits;

/// Shortest time between two checks of the deadlines.
const SWEEP: Duration = Duration::from_millis(500);
/// Minimum number of bytes of a body sent, or of a long response read, by a client in each [`WINDOW`].
pub(crate) const MIN_BYTES: usize = 64 * 1024;
/// See [`MIN_BYTES`].
pub(crate) const WINDOW: Duration = Duration::from_secs(3);
/// Maximum time from the header of a request to the end of its body. Handlers have shorter limits for
/// bodies, and respond when they are exceeded.
const BODY: Duration = Duration::from_secs(20);
/// Maximum bytes of a TLS handshake, in addition to the header of the first request.
const HANDSHAKE_BYTES: usize = 8 * 1024;

/// Metrics of a listener.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counters {
    /// Open connections, including those in their handshake.
    pub(crate) connections: Gauge,
    /// Connections that were closed to free a slot.
    pub(crate) evicted: Counter,
    /// Failed TLS handshakes.
    pub(crate) handshake_errors: Counter,
}

/// The open connections.
#[derive(Debug)]
pub(super) struct Connections {
    limits: Limits,
    pub(super) counters: Counters,
    table: Mutex<Table>,
    /// The number of open connections.
    open: watch::Sender<usize>,
    /// The number of connections that were closed to free a slot and have not ended yet.
    evicted: watch::Sender<usize>,
    /// Responses ask their clients to close the connection.
    pub(super) closing: CancellationToken,
    /// The listener accepts the connections in the kernel's queue, and closes.
    pub(super) close_listener: CancellationToken,
    pub(super) listener_closed: CancellationToken,
}

#[derive(Debug, Default)]
struct Table {
    /// Connections by client address and number. In a flood, each new connection replaces another, so
    /// [`Table::victim`] looks only at those of the addresses with the most.
    by_peer: HashMap<IpAddr, BTreeMap<u64, Arc<Slot>>>,
    next: u64,
}

/// The state of one connection, shared by its stream and its requests.
#[derive(Debug)]
pub(crate) struct Slot {
    number: u64,
    pub(super) socket: TcpStream,
    peer: IpAddr,
    state: Mutex<State>,
    /// Cancelled when the server has closed the connection.
    pub(super) closed: CancellationToken,
    pub(super) connections: Arc<Connections>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    waits_for: WaitsFor,
    since: Instant,
    /// Bytes that the client has sent, or read of a long response, since then.
    moved: usize,
    /// That number at the end of the last [`WINDOW`], and its time.
    window: (Instant, usize),
    /// The TLS handshake is complete, if there is one.
    is_established: bool,
    /// At least one request on this connection succeeded.
    is_validated: bool,
}

/// What a connection is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitsFor {
    /// The client's next request, or its handshake before the first one.
    Request,
    /// The rest of a request body.
    Body,
    /// The server.
    Answer,
    /// The client, which reads a long response.
    Taking,
}

impl Connections {
    pub(super) fn new(limits: Limits, counters: Counters) -> Arc<Self> {
        Arc::new(Self {
            limits,
            counters,
            table: Mutex::default(),
            open: watch::Sender::default(),
            evicted: watch::Sender::default(),
            closing: CancellationToken::new(),
            close_listener: CancellationToken::new(),
            listener_closed: CancellationToken::new(),
        })
    }

    /// Waits until few connections that were closed have not ended. A flood is accepted no faster than
    /// the tasks that it ends give back their file and memory, although these wait for a processor.
    pub(super) async fn wait_for_evicted(&self) {
        let most = self.limits.connections / 2;
        let mut evicted = self.evicted.subscribe();
        // The sender is not dropped meanwhile, so there is no error.
        let _ = evicted.wait_for(|evicted| *evicted <= most).await;
    }

    /// A slot for a new connection; closes another connection if necessary. `None` if all connections
    /// that may be closed wait for the server.
    pub(super) fn admit(
        self: &Arc<Self>,
        socket: TcpStream,
        peer: SocketAddr,
    ) -> Option<Arc<Slot>> {
        let peer = peer.ip().to_canonical();
        let mut table = self.table.lock();
        if table.len() >= self.limits.connections {
            let victim = table.victim(peer)?;
            table.remove(&victim);
            victim.close();
            self.evicted.send_modify(|evicted| *evicted += 1);
            self.counters.evicted.inc();
        }
        let number = table.next;
        table.next += 1;
        let slot = Arc::new(Slot {
            number,
            socket,
            peer,
            state: Mutex::new(State::new(WaitsFor::Request)),
            closed: CancellationToken::new(),
            connections: Arc::clone(self),
        });
        table.insert(&slot);
        self.open.send_replace(table.len());
        self.counters.connections.inc();
        Some(slot)
    }

    /// Removes a connection that has ended.
    pub(super) fn leave(&self, slot: &Slot) {
        let mut table = self.table.lock();
        if !table.remove(slot) {
            self.evicted.send_modify(|evicted| *evicted -= 1);
        }
        self.open.send_replace(table.len());
        self.counters.connections.dec();
    }

    pub(super) fn len(&self) -> usize {
        *self.open.borrow()
    }

    /// Waits until the number of open connections is as wanted.
    pub(super) async fn wait_for(&self, is_wanted: impl Fn(usize) -> bool) {
        // The sender is not dropped meanwhile, so there is no error.
        let _ = self
            .open
            .subscribe()
            .wait_for(|open| is_wanted(*open))
            .await;
    }

    /// Ends connections that wait for a request: bytes that the kernel has received are read, followed
    /// by end of file. `of` selects by whether a connection is validated.
    pub(super) fn end_idle(&self, of: impl Fn(bool) -> bool) {
        for slot in self.table.lock().slots() {
            let state = *slot.state.lock();
            if state.waits_for == WaitsFor::Request && of(state.is_validated) {
                let _ = rustix::net::shutdown(&slot.socket, Shutdown::Read);
            }
        }
    }

    /// Closes connections whose deadline has passed.
    pub(super) async fn enforce_deadlines(&self) -> Infallible {
        loop {
            self.wait_for(|open| open > 0).await;
            let now = Instant::now();
            let slots: Vec<_> = self.table.lock().slots().cloned().collect();
            for slot in slots {
                if slot.is_overdue(&self.limits, now) {
                    slot.close();
                }
            }
            sleep_until(now + SWEEP).await;
        }
    }
}

impl Table {
    fn len(&self) -> usize {
        self.by_peer.values().map(BTreeMap::len).sum()
    }

    fn slots(&self) -> impl Iterator<Item = &Arc<Slot>> {
        self.by_peer.values().flat_map(BTreeMap::values)
    }

    fn insert(&mut self, slot: &Arc<Slot>) {
        let slots = self.by_peer.entry(slot.peer).or_default();
        slots.insert(slot.number, Arc::clone(slot));
    }

    /// Returns whether the connection was in the table.
    fn remove(&mut self, slot: &Slot) -> bool {
        let Entry::Occupied(mut slots) = self.by_peer.entry(slot.peer) else {
            return false;
        };
        let removed = slots.get_mut().remove(&slot.number);
        if slots.get().is_empty() {
            slots.remove();
        }
        removed.is_some()
    }

    /// Selects the connection to close for a new one from `newcomer`.
    fn victim(&self, newcomer: IpAddr) -> Option<Arc<Slot>> {
        // The new one counts.
        let own = self.by_peer.get(&newcomer).map_or(0, BTreeMap::len) + 1;
        let others = self.by_peer.iter().filter(|(peer, _)| **peer != newcomer);
        let most = others.map(|(_, slots)| slots.len()).fold(own, usize::max);
        // A connection with a request in progress is closed only for an address with far fewer
        // connections.
        let may_cut = own <= most / 2;
        let largest = self
            .by_peer
            .iter()
            .filter(|(peer, slots)| slots.len() + usize::from(**peer == newcomer) == most);
        let candidates = largest
            .flat_map(|(_, slots)| slots.values())
            .map(|slot| (slot.state.lock().key(), slot))
            .filter(|((is_answer, _), _)| may_cut || !is_answer);
        let victim = candidates.min_by_key(|(key, slot)| (*key, slot.number));
        victim.map(|(_, slot)| Arc::clone(slot))
    }
}

impl State {
    fn new(waits_for: WaitsFor) -> Self {
        let now = Instant::now();
        Self {
            waits_for,
            since: now,
            moved: 0,
            window: (now, 0),
            is_established: false,
            is_validated: false,
        }
    }

    /// Begins another wait of the same connection.
    fn set(&mut self, waits_for: WaitsFor) {
        *self = Self {
            is_established: self.is_established,
            is_validated: self.is_validated,
            ..Self::new(waits_for)
        };
    }

    /// Between two requests, or before the first one: no byte of a header has arrived.
    fn is_idle(&self) -> bool {
        self.is_established && self.waits_for == WaitsFor::Request && self.moved == 0
    }

    /// Order of candidates: the connection with the smallest key is closed first.
    fn key(&self) -> (bool, Instant) {
        (self.waits_for == WaitsFor::Answer, self.since)
    }
}

impl Slot {
    /// The client address.
    pub(crate) fn peer(&self) -> IpAddr {
        self.peer
    }

    fn waits_for(&self, waits_for: WaitsFor) {
        self.state.lock().set(waits_for);
    }

    /// The TLS handshake is complete. The connection may now be idle before its first request, too: the
    /// pool of a Go client opens connections that it does not use at once.
    pub(super) fn established(&self) {
        let mut state = self.state.lock();
        state.is_established = true;
        state.set(WaitsFor::Request);
    }

    /// The header of a request was received; the body follows.
    pub(crate) fn reads_body(&self) {
        self.waits_for(WaitsFor::Body);
    }

    /// The body is complete or is not read now; the server continues.
    pub(crate) fn works(&self) {
        self.waits_for(WaitsFor::Answer);
    }

    /// The response is ready; `is_good` if the request succeeded, `is_long` if the response takes
    /// memory until [`Slot::taken`]. Returns whether the request has a body that was not read.
    pub(super) fn answered(&self, is_good: bool, is_long: bool) -> bool {
        let mut state = self.state.lock();
        let is_unread = state.waits_for == WaitsFor::Body;
        state.set(match is_long {
            true => WaitsFor::Taking,
            false => WaitsFor::Request,
        });
        state.is_validated |= is_good;
        is_unread
    }

    /// The client has read a long response.
    pub(super) fn taken(&self) {
        let mut state = self.state.lock();
        if state.waits_for == WaitsFor::Taking {
            state.set(WaitsFor::Request);
        }
    }

    /// Counts bytes from the client; false if they exceed the limit of a request header.
    pub(super) fn received(&self, bytes: usize) -> bool {
        let mut state = self.state.lock();
        let most = self.connections.limits.header_bytes + HANDSHAKE_BYTES;
        let too_many = state.waits_for == WaitsFor::Request && state.moved > most;
        if state.is_idle() {
            // The time for a header begins.
            state.since = Instant::now();
        }
        state.moved = state.moved.saturating_add(bytes);
        !too_many
    }

    /// Counts bytes of a long response that the client has read.
    pub(super) fn sent(&self, bytes: usize) {
        let mut state = self.state.lock();
        if state.waits_for == WaitsFor::Taking {
            state.moved = state.moved.saturating_add(bytes);
        }
    }

    fn is_overdue(&self, limits: &Limits, now: Instant) -> bool {
        let mut state = self.state.lock();
        let waited = now.saturating_duration_since(state.since);
        match state.waits_for {
            WaitsFor::Request if state.is_idle() => waited >= limits.idle,
            WaitsFor::Request => waited >= limits.header,
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

    /// Ends the connection in any state: its stream reads end of file and writes nothing more, and a
    /// request in progress is dropped.
    fn close(&self) {
        self.closed.cancel();
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }
}
