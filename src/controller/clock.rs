//! The current time of conditions and Events.
//! Used by `event` and `reconcile`.

use jiff::Timestamp;

/// The current time.
pub(crate) fn now() -> Timestamp {
    #[cfg(test)]
    if let Some(now) = CLOCK.with_borrow(|clock| clock.as_ref().map(|now| now())) {
        return now;
    }
    Timestamp::now()
}

#[cfg(test)]
type Clock = Box<dyn Fn() -> Timestamp>;

#[cfg(test)]
thread_local! {
    static CLOCK: std::cell::RefCell<Option<Clock>> = const { std::cell::RefCell::new(None) };
}

/// Uses `clock` as the time of this thread until the result is dropped.
#[cfg(test)]
pub(crate) fn set(clock: Clock) -> impl Drop {
    struct Unset;
    impl Drop for Unset {
        fn drop(&mut self) {
            CLOCK.set(None);
        }
    }
    CLOCK.set(Some(clock));
    Unset
}
