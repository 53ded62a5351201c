//! The time of day, as conditions and Events are stamped with it.

use jiff::Timestamp;

/// Now.
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

/// Takes the time of this thread from `clock` until the result is dropped.
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
