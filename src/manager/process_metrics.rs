//! The `process_*` metrics of Prometheus client libraries, read from `/proc` at each scrape. Values
//! that cannot be read are omitted; the scrape does not fail.

use std::fmt::Error;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Ticks per second in `/proc/*/stat`: USER_HZ, which is 100 on every architecture that Kubernetes
/// supports (see proc(5) and `include/uapi/asm-generic/param.h`).
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads `/proc/self` at each scrape.
#[derive(Debug)]
pub(super) struct ProcessMetrics;

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), Error> {
        let read = |file| fs::read_to_string(file).unwrap_or_default();
        let (status, stat) = (read("/proc/self/status"), read("/proc/self/stat"));
        let descriptors = fs::read_dir("/proc/self/fd").map(Iterator::count).ok();
        // One of them is the descriptor of the directory that is read.
        let open = descriptors.and_then(|count| u64::try_from(count.saturating_sub(1)).ok());
        for (name, help, value) in [
            (
                "process_resident_memory_bytes",
                "Resident memory size in bytes",
                bytes(&status, "VmRSS:"),
            ),
            (
                "process_virtual_memory_bytes",
                "Virtual memory size in bytes",
                bytes(&status, "VmSize:"),
            ),
            ("process_open_fds", "Number of open file descriptors", open),
        ] {
            if let Some(value) = value {
                write(&mut encoder, name, help, &ConstGauge::new(value))?;
            }
        }
        if let Some(seconds) = cpu_seconds(&stat) {
            let help = "Total user and system CPU time spent in seconds";
            let value = ConstCounter::new(seconds);
            write(&mut encoder, "process_cpu_seconds", help, &value)?;
        }
        let start = boot_time(&read("/proc/stat")).zip(start_after_boot(&stat));
        if let Some((boot, since)) = start {
            let help = "Start time of the process since unix epoch in seconds";
            let value = ConstGauge::new(boot + since);
            write(&mut encoder, "process_start_time_seconds", help, &value)?;
        }
        Ok(())
    }
}

fn write(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    metric: &impl EncodeMetric,
) -> Result<(), Error> {
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}

/// The bytes in a line such as `VmRSS:      8192 kB` of `/proc/self/status`.
fn bytes(status: &str, field: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: u64 = value.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The fields of `/proc/self/stat` from the third on, after the name in parentheses, which may contain
/// blanks and parentheses. proc(5) counts from 1.
fn stat_field(stat: &str, number: usize) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    fields
        .split_ascii_whitespace()
        .nth(number.checked_sub(3)?)?
        .parse()
        .ok()
}

/// User time (14) and system time (15).
fn cpu_seconds(stat: &str) -> Option<f64> {
    Some((stat_field(stat, 14)? + stat_field(stat, 15)?) / TICKS_PER_SECOND)
}

/// Start time (22), in seconds after boot.
fn start_after_boot(stat: &str) -> Option<f64> {
    Some(stat_field(stat, 22)? / TICKS_PER_SECOND)
}

/// The line `btime` of `/proc/stat`: seconds since the epoch.
fn boot_time(stat: &str) -> Option<f64> {
    stat.lines()
        .find_map(|line| line.strip_prefix("btime "))?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    const STAT: &str = "42 (a ) b) S 1 2 3 4 5 6 7 8 9 10 250 150 13 14 15 16 17 18 6000 20 21";

    #[test]
    fn times_are_found_behind_a_name_with_a_parenthesis() {
        assert_eq!(cpu_seconds(STAT), Some(4.0));
        assert_eq!(start_after_boot(STAT), Some(60.0));
    }

    #[test]
    fn memory_is_read_in_kibibytes() {
        assert_eq!(
            bytes("Name:\ta\nVmRSS:\t    8192 kB\n", "VmRSS:"),
            Some(8192 * 1024)
        );
        assert_eq!(bytes("Name:\ta\n", "VmRSS:"), None);
    }

    #[test]
    fn every_value_of_a_real_process_is_shown_and_plausible() {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ProcessMetrics));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let value = |name: &str| -> f64 {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .expect(name);
            line.trim().parse().unwrap()
        };
        assert!(value("process_resident_memory_bytes ") > 1e6);
        assert!(value("process_virtual_memory_bytes ") > value("process_resident_memory_bytes "));
        assert!(value("process_cpu_seconds_total ") >= 0.0);
        assert!(value("process_open_fds ") >= 3.0);
        let age = jiff::Timestamp::now().as_second() as f64 - value("process_start_time_seconds ");
        assert!((-2.0..86_400.0).contains(&age), "{age}");
    }
}
