//! Who is connected, and what each connection waits for. Seats are few: when all are taken,
//! the connection that has kept us waiting longest gives way, so that ten thousand idle or
//! slow clients cannot keep the API server out. Knows neither TLS nor HTTP.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::metrics::Metrics;

/// Most open connections. An API server keeps 25 idle ones per webhook host and opens more
/// under load; each costs some 20 KiB.
pub(super) const MAX_CONNECTIONS: usize = 512;
/// Longest time from accept to the end of the first request's header, handshake included.
pub(super) const FIRST_HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for the next request, or for a client to take a short answer. Longer than the
/// 90 s after which Go's clients close a connection: if we were first, a request could be
/// under way, and a POST is not sent again.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest time from the header of a request to the end of its body, and for a client to take
/// a long answer.
pub(super) const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The connections that are open.
#[derive(Debug)]
pub(super) struct Seats {
    taken: Mutex<Taken>,
    metrics: Metrics,
}

#[derive(Debug, Default)]
struct Taken {
    /// By the order in which they came.
    seats: BTreeMap<u64, Arc<Seat>>,
    next: u64,
}

/// The seat of one connection.
#[derive(Debug)]
pub(super) struct Seat {
    state: Mutex<State>,
    evicted: Notify,
}

#[derive(Debug, Clone, Copy)]
struct State {
    waits_for: WaitsFor,
    since: Instant,
    /// Some call on this connection was answered well: whoever it is speaks our language.
    is_proven: bool,
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitsFor {
    /// The client's next request, its handshake before the first one included.
    Request,
    /// The rest of a request's body.
    Body,
    /// Us.
    Answer,
    /// The client, which is to take a long answer.
    Taking,
}

/// A seat that is left when this is dropped.
#[derive(Debug)]
pub(super) struct Taker {
    seats: Arc<Seats>,
    number: u64,
    pub(super) seat: Arc<Seat>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seats {
    pub(super) fn new(metrics: Metrics) -> Arc<Self> {
        Arc::new(Self {
            taken: Mutex::default(),
            metrics,
        })
    }

    /// Takes a seat. If all are taken, that of somebody else: who has kept us waiting longest,
    /// those first who never said anything sensible. `None` while every connection waits for
    /// us, of which there are never so many: only large bodies take more than a moment, and
    /// the memory for those is soon used up.
    pub(super) fn take(self: &Arc<Self>) -> Option<Taker> {
        let mut taken = lock(&self.taken);
        if taken.seats.len() >= MAX_CONNECTIONS {
            let (_, number) = taken
                .seats
                .iter()
                .filter_map(|(number, seat)| Some((seat.patience()?, *number)))
                .min()?;
            if let Some(seat) = taken.seats.remove(&number) {
                // `notify_one` is remembered if nobody listens yet.
                seat.evicted.notify_one();
                self.metrics.evicted.inc();
            }
        }
        let number = taken.next;
        taken.next += 1;
        let seat = Arc::new(Seat::new());
        taken.seats.insert(number, Arc::clone(&seat));
        drop(taken);
        self.metrics.connections.inc();
        Some(Taker {
            seats: Arc::clone(self),
            number,
            seat,
        })
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        lock(&self.seats.taken).seats.remove(&self.number);
        self.seats.metrics.connections.dec();
    }
}

impl Seat {
    fn new() -> Self {
        Self {
            state: Mutex::new(State {
                waits_for: WaitsFor::Request,
                since: Instant::now(),
                is_proven: false,
            }),
            evicted: Notify::new(),
        }
    }

    fn waits_for(&self, waits_for: WaitsFor) {
        let mut state = lock(&self.state);
        state.waits_for = waits_for;
        state.since = Instant::now();
    }

    /// The header of a request is there, and its body is to come.
    pub(super) fn reads_body(&self) {
        self.waits_for(WaitsFor::Body);
    }

    /// The body is there: the client has done its part.
    pub(super) fn works(&self) {
        self.waits_for(WaitsFor::Answer);
    }

    /// The answer is ready to be sent; `well` if it was to a review, `is_long` if it takes
    /// memory until [`Seat::taken`].
    pub(super) fn answered(&self, well: bool, is_long: bool) {
        self.waits_for(match is_long {
            true => WaitsFor::Taking,
            false => WaitsFor::Request,
        });
        lock(&self.state).is_proven |= well;
    }

    /// The client has taken a long answer.
    pub(super) fn taken(&self) {
        self.waits_for(WaitsFor::Request);
    }

    /// Whether it has not had a good answer yet: its first request may be under way.
    pub(super) fn is_new(&self) -> bool {
        !lock(&self.state).is_proven
    }

    /// Who gives way: the smallest of these. `None` while the client waits for us.
    fn patience(&self) -> Option<(bool, Instant)> {
        let state = *lock(&self.state);
        (state.waits_for != WaitsFor::Answer).then_some((state.is_proven, state.since))
    }

    /// When the client will have had its time.
    fn deadline(&self) -> Option<Instant> {
        let state = *lock(&self.state);
        let time = match state.waits_for {
            WaitsFor::Request if state.is_proven => IDLE_TIMEOUT,
            WaitsFor::Request => FIRST_HEADER_TIMEOUT,
            // Those who read the body see to the time and say so; this is for the rest.
            WaitsFor::Body => BODY_TIMEOUT * 2,
            WaitsFor::Taking => BODY_TIMEOUT,
            WaitsFor::Answer => return None,
        };
        Some(state.since + time)
    }

    /// Ends when the connection shall be closed: its time is over, or another needs the seat.
    pub(super) async fn is_lost(&self) {
        loop {
            let deadline = self.deadline();
            let now = Instant::now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                return;
            }
            // What is waited for may have changed by then, and its time with it.
            let next_look = now + FIRST_HEADER_TIMEOUT;
            let until = deadline.map_or(next_look, |deadline| deadline.min(next_look));
            tokio::select! {
                () = self.evicted.notified() => return,
                () = sleep_until(until) => {}
            }
        }
    }
}
