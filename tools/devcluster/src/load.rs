//! The load of the machine that runs the tests.

/// The factor for a time limit of an idle machine: 1 where no process waits for a processor. The larger of
/// 5, where one always did in the last ten seconds (Linux, "PSI - Pressure Stall Information"), and the
/// threads that could run at a time in the last minute, per processor (proc_loadavg(5)). 1 on a system
/// without this information.
pub fn load_factor() -> f64 {
    let read = |file| std::fs::read_to_string(file).unwrap_or_default();
    let number = |text: Option<&str>| text.and_then(|it| it.parse::<f64>().ok());
    let pressure = read("/proc/pressure/cpu");
    let mut pressure = pressure.split_whitespace();
    let percent = number(pressure.find_map(|it| it.strip_prefix("avg10=")));
    let waiting = 1.0 + percent.unwrap_or_default().clamp(0.0, 100.0) / 25.0;
    let running = number(read("/proc/loadavg").split_whitespace().next());
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    waiting.max(running.unwrap_or_default() / processors as f64)
}
