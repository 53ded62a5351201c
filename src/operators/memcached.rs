//! The plan of a Memcached: memcached servers and, for client-side hashing, a headless Service.
//! Pure data for `workload`.

use super::operand::{Operand, replicas_within_limit};
use super::plan::{Image, Plan, Program, ServicePlan};
use super::{OperandImage, Refused, Settings};
use crate::api::Kind;
use crate::api::memcached::{KIND, v1::MemcachedSpec};
use crate::api::workload::PodSecurity;

/// The operator of `cache.example.com` Memcached.
pub struct Memcached;

/// Default memory for items in MiB, as in memcached.
const DEFAULT_MEMORY: i32 = 64;
/// Memory in MiB that memcached needs beside items: hash table, 1024 connections, threads, code.
const MEMORY_OVERHEAD: i32 = 32;
/// The registered port of memcached.
const DEFAULT_PORT: i32 = 11211;

/// The image's user is 11211, given as a name.
static IMAGE: OperandImage = OperandImage {
    variable: "MEMCACHED_IMAGE",
    default: "docker.io/library/memcached:1.6.39-alpine",
};

static PROGRAM: Program = Program {
    component: "cache",
    port_name: "memcached",
    // User `memcache` of the official image.
    run_as_user: 11211,
    cpu_request: "10m",
    pod_security: PodSecurity::Restricted,
    read_only: true,
    health_path: None,
    lingers_seconds: 0,
    legacy_pod_label: None,
};

impl Operand for Memcached {
    const KIND: &'static Kind = &KIND;
    const IMAGE: Option<&'static OperandImage> = Some(&IMAGE);
    type Spec = MemcachedSpec;

    fn plan(&self, spec: MemcachedSpec, settings: &Settings) -> Result<Plan, Refused> {
        let memory = spec.memory.unwrap_or(DEFAULT_MEMORY);
        let port = spec.port.unwrap_or(DEFAULT_PORT);
        let flags = [
            ("-m", Some(memory)),
            ("-p", Some(port)),
            ("-c", spec.max_connections),
            ("-t", spec.threads),
        ];
        let given = flags
            .into_iter()
            .filter_map(|(flag, value)| Some((flag, value?)));
        let has_service = spec
            .service
            .and_then(|service| service.enabled)
            .unwrap_or(false);
        Ok(Plan {
            program: &PROGRAM,
            replicas: replicas_within_limit(spec.replicas.into(), "spec.replicas", settings)?,
            image: Image::named_or(spec.image.as_ref(), settings.image(&IMAGE)),
            // An explicit command, so that the flags reach memcached with any entry point.
            command: vec!["memcached".to_owned()],
            args: given
                .flat_map(|(flag, value)| [flag.to_owned(), value.to_string()])
                .collect(),
            container_port: port,
            memory_request: format!("{}Mi", memory.saturating_add(MEMORY_OVERHEAD)),
            workload: spec.workload,
            service: has_service.then_some(ServicePlan {
                type_: "ClusterIP",
                headless: true,
                port,
                node_port: None,
            }),
            config: None,
            storage: None,
            others: Vec::new(),
        })
    }
}
