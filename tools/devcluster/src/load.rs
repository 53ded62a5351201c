//! The load of the machine that runs the tests.

/// The factor for a time limit of an idle machine: 1 where no process waits for a processor, and 5 where
/// one always did in the last ten seconds (Linux, "PSI - Pressure Stall Information"). 1 on a kernel
/// without this information.
pub fn load_factor() -> f64 {
    let text = std::fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    let some = text
        .split_whitespace()
        .find_map(|it| it.strip_prefix("avg10="));
    let percent: f64 = some.and_then(|it| it.parse().ok()).unwrap_or_default();
    1.0 + percent.clamp(0.0, 100.0) / 25.0
}
