//! Time limits that grow with the load of the machine.

use std::fmt::Display;
use std::time::{Duration, Instant};

use tokio::time::{Sleep, sleep};

use crate::{POLL, load_factor};

/// The time limit of an idle machine, from now on, times the highest [load](load_factor) since then.
#[derive(Debug)]
pub struct Limit {
    began: Instant,
    idle: Duration,
    load: f64,
}

impl Limit {
    /// Begins now; `idle` is the limit of an idle machine.
    pub fn new(idle: Duration) -> Self {
        Limit {
            began: Instant::now(),
            idle,
            load: load_factor(),
        }
    }

    /// Reports whether the time is over.
    pub fn is_over(&mut self) -> bool {
        self.load = self.load.max(load_factor());
        self.began.elapsed() > self.idle.mul_f64(self.load)
    }

    /// The pause of a loop that waits for something: a twentieth of the time since it began, from one
    /// [poll interval](POLL) to ten, so that a wait of minutes sends few requests.
    ///
    /// # Panics
    /// With the text of `failure` if the time is over.
    #[track_caller]
    pub fn pause<T: Display>(&mut self, failure: impl FnOnce() -> T) -> Sleep {
        assert!(!self.is_over(), "{}", failure());
        sleep((self.began.elapsed() / 20).clamp(POLL, 10 * POLL))
    }
}
