//! The delay before a request is repeated.

use std::time::Duration;

/// `base · 2^exponent`, at most `limit`. Does not overflow for any exponent.
pub fn exponential(base: Duration, exponent: u32, limit: Duration) -> Duration {
    let factor = 1u32.checked_shl(exponent);
    factor
        .and_then(|factor| base.checked_mul(factor))
        .map_or(limit, |delay| delay.min(limit))
}
