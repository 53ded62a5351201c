//! The `process_*` metrics of Prometheus client libraries that dashboards use, read at each scrape.

use std::fmt::Error;
use std::fs;

use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use rustix::time::{ClockId, clock_gettime};

/// Registers the metrics. Call it once, at the start of the process.
pub(super) fn register(registry: &mut Registry) {
    let start = Timestamp::now().as_millisecond() as f64 / 1000.0;
    registry.register(
        "process_start_time_seconds",
        "Start time of the process since unix epoch in seconds",
        ConstGauge::new(start),
    );
    registry.register_collector(Box::new(Usage));
}

#[derive(Debug)]
struct Usage;

impl Collector for Usage {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), Error> {
        let mut write = |name, help, metric: &dyn EncodeMetric| {
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
        };
        let used = clock_gettime(ClockId::ProcessCPUTime);
        let seconds = used.tv_sec as f64 + used.tv_nsec as f64 / 1e9;
        let help = "Total user and system CPU time spent in seconds";
        write("process_cpu_seconds", help, &ConstCounter::new(seconds))?;

        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        if let Some(bytes) = resident_bytes(&status) {
            let help = "Resident memory size in bytes";
            write(
                "process_resident_memory_bytes",
                help,
                &ConstGauge::new(bytes),
            )?;
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            // One of them is the directory that is read.
            let open = (files.count() as u64).saturating_sub(1);
            let help = "Number of open file descriptors";
            write("process_open_fds", help, &ConstGauge::new(open))?;
        }
        Ok(())
    }
}

/// The value of the line `VmRSS:      8192 kB` of `/proc/self/status`.
fn resident_bytes(status: &str) -> Option<u64> {
    let value = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn every_value_of_a_real_process_is_shown_and_plausible() {
        let mut registry = Registry::default();
        register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let value = |name: &str| -> f64 {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .expect(name);
            line.trim().parse().unwrap()
        };
        let resident = value("process_resident_memory_bytes ");
        assert!((1e6..1e11).contains(&resident), "{resident}");
        assert!(value("process_cpu_seconds_total ") > 0.0);
        assert!(value("process_open_fds ") >= 3.0);
        let age = Timestamp::now().as_second() as f64 - value("process_start_time_seconds ");
        assert!((-2.0..60.0).contains(&age), "{age}");
    }

    #[test]
    fn memory_is_read_in_kibibytes() {
        let status = "Name:\ta\nVmRSS:\t    8192 kB\n";
        assert_eq!(resident_bytes(status), Some(8192 * 1024));
        assert_eq!(resident_bytes("Name:\ta\n"), None);
    }
}
