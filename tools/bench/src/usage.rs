//! What a process uses, from `/proc`. Knows no more than the number of the process.

use std::fs;
use std::path::Path;
use std::time::Duration;

use perf_event::events::Hardware;
use perf_event::{Builder, Counter};

use crate::{Result, read};

/// Memory of a process, in MiB.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Memory {
    /// All that is resident.
    pub(crate) resident: f64,
    /// The most that was.
    pub(crate) peak: f64,
    /// Heap, stacks, and data that was written to: what is resident without program and libraries, which
    /// the page cache has anyway.
    pub(crate) anonymous: f64,
}

impl Memory {
    /// Of the process `id`, now.
    pub(crate) fn of(id: u32) -> Result<Self> {
        let status = read(Path::new(&format!("/proc/{id}/status")))?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kibibytes = line.and_then(|value| value.trim().strip_suffix(" kB"));
            let kibibytes = kibibytes.and_then(|value| value.parse::<u32>().ok());
            f64::from(kibibytes.unwrap_or_default()) / 1024.0
        };
        Ok(Self {
            resident: field("VmRSS:"),
            peak: field("VmHWM:"),
            anonymous: field("RssAnon:"),
        })
    }
}

/// CPU time of the process `id` since it started, in user mode and in the kernel.
///
/// The sum over its threads, in nanoseconds, as the scheduler counts it
/// (Documentation/scheduler/sched-stats.rst); a thread that has ended is no longer in
/// it, so where `/proc/ID/stat`, which counts those too but in hundredths of a second,
/// has more, it is that.
pub(crate) fn cpu(id: u32) -> Result<Duration> {
    let mut nanoseconds = 0;
    for thread in fs::read_dir(format!("/proc/{id}/task"))?.flatten() {
        let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        let on_cpu = text.split_whitespace().next();
        nanoseconds += on_cpu.and_then(|it| it.parse().ok()).unwrap_or(0);
    }
    let stat = read(Path::new(&format!("/proc/{id}/stat")))?;
    Ok(Duration::from_nanos(nanoseconds).max(ticks(&stat)))
}

/// Fields 14 and 15 of proc_pid_stat(5), user and system time, in units of 1/USER_HZ, which
/// is 10 ms on every architecture that Kubernetes runs on.
fn ticks(stat: &str) -> Duration {
    // The second field is the program's name in parentheses, which may hold blanks.
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let numbers = fields.split_ascii_whitespace().skip(14 - 3).take(2);
    let ticks = numbers.filter_map(|number| number.parse::<u64>().ok());
    Duration::from_millis(10 * ticks.sum::<u64>())
}

/// Counts the instructions that a process executes in user mode. Unlike CPU time, they do not depend on what
/// else the machine does.
pub(crate) struct Instructions(Vec<Counter>);

impl Instructions {
    /// Of all threads of the process `id`, from now on. It counts nothing on a machine without such a
    /// counter, as many virtual ones are, and where it is forbidden (`perf_event_paranoid`).
    pub(crate) fn of(id: u32) -> Self {
        let threads = fs::read_dir(format!("/proc/{id}/task"));
        let threads = threads.into_iter().flatten().flatten();
        let counters = threads.filter_map(|thread| {
            let thread = thread.file_name().to_str()?.parse().ok()?;
            let mut counter = Builder::new(Hardware::INSTRUCTIONS)
                .observe_pid(thread)
                // Threads that it starts later.
                .inherit(true)
                .build()
                .ok()?;
            counter.enable().ok()?;
            Some(counter)
        });
        Self(counters.collect())
    }

    /// How many there were until now; 0 if they are not counted.
    pub(crate) fn count(&mut self) -> u64 {
        let counters = self.0.iter_mut();
        counters.filter_map(|counter| counter.read().ok()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_found_behind_an_odd_name() {
        let stat = "42 (a ) b) S 1 2 3 4 5 6 7 8 9 10 250 150 13 14 15 16 17 18 6000 20 21";
        assert_eq!(ticks(stat).as_millis(), 4000);
    }
}
