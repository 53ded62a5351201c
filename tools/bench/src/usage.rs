//! What a process uses, from `/proc`. Knows no more than the number of the process.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use perf_event::events::Hardware;
use perf_event::{Builder, Counter};

use crate::error::Error;

/// Memory of a process, in KiB.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Memory {
    /// All that is resident.
    pub(crate) resident: u64,
    /// The most that was.
    pub(crate) peak: u64,
    /// Heap, stacks, and data that was written to.
    pub(crate) anonymous: u64,
    /// Program and libraries, which the page cache has anyway.
    pub(crate) file: u64,
}

impl Memory {
    /// Of the process `id`, now.
    pub(crate) fn of(id: u32) -> Result<Self, Error> {
        let path = PathBuf::from(format!("/proc/{id}/status"));
        let status = fs::read_to_string(&path).map_err(|source| Error::Read { path, source })?;
        let field = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().strip_suffix(" kB")?.parse().ok())
                .unwrap_or_default()
        };
        Ok(Self {
            resident: field("VmRSS:"),
            peak: field("VmHWM:"),
            anonymous: field("RssAnon:"),
            file: field("RssFile:"),
        })
    }
}

/// CPU time of a process since it started.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cpu {
    /// User and system time.
    pub(crate) all: Duration,
    /// Of it, the time in the kernel: reading, writing, waking up. To 10 ms.
    pub(crate) kernel: Duration,
}

impl Cpu {
    /// Of the process `id`, until now.
    ///
    /// The sum over its threads, in nanoseconds, as the scheduler counts it
    /// (Documentation/scheduler/sched-stats.rst); a thread that has ended is no longer in
    /// it, so where `/proc/ID/stat`, which counts those too but in hundredths of a second,
    /// has more, it is that.
    pub(crate) fn of(id: u32) -> Result<Self, Error> {
        let threads = PathBuf::from(format!("/proc/{id}/task"));
        let mut nanoseconds = 0;
        let entries = fs::read_dir(&threads).map_err(|source| Error::Read {
            path: threads.clone(),
            source,
        })?;
        for thread in entries.flatten() {
            let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
            let on_cpu = text.split_whitespace().next();
            nanoseconds += on_cpu.and_then(|it| it.parse().ok()).unwrap_or(0);
        }
        let path = PathBuf::from(format!("/proc/{id}/stat"));
        let stat = fs::read_to_string(&path).map_err(|source| Error::Read { path, source })?;
        let (user, kernel) = ticks(&stat);
        Ok(Self {
            all: Duration::from_nanos(nanoseconds).max(user + kernel),
            kernel,
        })
    }

    /// What was used since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            all: self.all.saturating_sub(earlier.all),
            kernel: self.kernel.saturating_sub(earlier.kernel),
        }
    }
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

    /// How many there were until now.
    pub(crate) fn count(&mut self) -> u64 {
        let counters = self.0.iter_mut();
        counters.filter_map(|counter| counter.read().ok()).sum()
    }
}

/// Fields 14 and 15 of proc_pid_stat(5), user and system time, in units of 1/USER_HZ, which
/// is 10 ms on every architecture that Kubernetes runs on.
fn ticks(stat: &str) -> (Duration, Duration) {
    // The second field is the program's name in parentheses, which may hold blanks.
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let mut numbers = fields.split_ascii_whitespace().skip(14 - 3);
    let mut time = || {
        let number = numbers.next().and_then(|number| number.parse().ok());
        Duration::from_millis(10 * number.unwrap_or(0))
    };
    (time(), time())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_found_behind_an_odd_name() {
        let stat = "42 (a ) b) S 1 2 3 4 5 6 7 8 9 10 250 150 13 14 15 16 17 18 6000 20 21";
        let (user, kernel) = ticks(stat);
        assert_eq!((user.as_millis(), kernel.as_millis()), (2500, 1500));
    }

    #[test]
    fn instructions_are_counted_where_the_machine_counts_them() {
        let mut instructions = Instructions::of(std::process::id());
        let sum = || std::hint::black_box((0..100_000_u64).map(std::hint::black_box).sum::<u64>());
        sum();
        let once = instructions.count();
        assert!(instructions.0.is_empty() || once > 100_000, "{once}");
        std::thread::scope(|scope| scope.spawn(sum).join()).unwrap();
        let twice = instructions.count();
        assert!(
            instructions.0.is_empty() || twice > once + 100_000,
            "{twice}"
        );
    }

    #[test]
    fn this_process_uses_something() {
        let memory = Memory::of(std::process::id()).unwrap();
        assert!(memory.resident > 100 && memory.peak >= memory.resident);
        assert!(memory.anonymous + memory.file <= memory.resident);
        let mut sum = 0_u64;
        let before = Cpu::of(std::process::id()).unwrap();
        while Cpu::of(std::process::id())
            .unwrap()
            .since(before)
            .all
            .is_zero()
        {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
    }
}
