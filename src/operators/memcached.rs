//! The plan of a Memcached: servers and, for client-side hashing, a headless Service. Pure data.

use super::operand::{Operand, OperandImage, Settings, ValidationError};
use super::plan::{Plan, ServicePlan, WorkloadDefaults};
use crate::api::{Kind, memcached::KIND, memcached::v1::MemcachedSpec};

/// The operator of `cache.example.com` Memcached.
pub struct Memcached;

/// Default memory for items in MiB, as in memcached.
const DEFAULT_MEMORY: i32 = 64;
/// Memory in MiB that memcached needs beside items: hash table, 1024 connections, threads, code.
const MEMORY_OVERHEAD: i32 = 32;

static IMAGE: OperandImage = OperandImage {
    variable: "MEMCACHED_IMAGE",
    default: "docker.io/library/memcached:1.6.39-alpine",
};

static DEFAULTS: WorkloadDefaults = WorkloadDefaults {
    component: "cache",
    port_name: "memcached",
    // The registered port of memcached.
    port: 11211,
    // The user of the image, which gives it as a name, `memcache`.
    run_as_user: 11211,
    read_only: true,
    ..WorkloadDefaults::RESTRICTED
};

impl Operand for Memcached {
    const KIND: &'static Kind = &KIND;
    const IMAGE: Option<&'static OperandImage> = Some(&IMAGE);
    type Spec = MemcachedSpec;

    fn plan(&self, spec: MemcachedSpec, settings: &Settings) -> Result<Plan, ValidationError> {
        let memory = spec.memory.unwrap_or(DEFAULT_MEMORY);
        let port = spec.port.unwrap_or(DEFAULTS.port);
        let flags = [
            ("-m", Some(memory)),
            ("-p", Some(port)),
            ("-c", spec.max_connections),
            ("-t", spec.threads),
        ]
        .into_iter()
        .filter_map(|(flag, value)| Some([flag.to_owned(), value?.to_string()]));
        let service = spec.service.filter(|service| service.enabled == Some(true));
        Ok(Plan {
            // An explicit command, so that the flags reach memcached with any entry point.
            command: vec!["memcached".to_owned()],
            args: flags.flatten().collect(),
            container_port: port,
            memory_request: format!("{}Mi", memory.saturating_add(MEMORY_OVERHEAD)),
            service: service.map(|_| ServicePlan::headless(port)),
            ..Plan::replicated(&DEFAULTS, &IMAGE, spec.workload, settings)?
        })
    }
}
