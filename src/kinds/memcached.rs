//! Memcached (`cache.example.com`): servers and, for client-side hashing, a headless Service. Both versions
//! of the type, and the plan of the children.

use kube::CustomResource;
use quartet_versions::validation::ServiceName;
use quartet_versions::{FieldMapping, Kind, Version};
use quartet_workload::api::Status;
use quartet_workload::api::workload::ReplicatedWorkload;
use quartet_workload::operand::{Operand, OperandImage, Problem, Settings};
use quartet_workload::plan::{Plan, ServicePlan, WorkloadDefaults};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::BRAND;

/// The original version.
pub mod v1alpha1 {
    use super::*;

    /// Desired state of the Memcached instance.
    #[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "cache.example.com", version = "v1alpha1", kind = "Memcached", namespaced)]
    #[kube(status = "Status")]
    #[serde(rename_all = "camelCase")]
    pub struct MemcachedSpec {
        /// Number of memcached pods, from 0 to the operator's limit (--max-replicas); 0 means no
        /// pods. Required. No default.
        #[schemars(range(min = 0))]
        pub size: i32,
    }
}

/// The storage version.
pub mod v1 {
    use super::*;

    /// Desired state of the Memcached instance.
    #[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "cache.example.com", version = "v1", kind = "Memcached", namespaced)]
    #[kube(status = "Status")]
    #[kube(printcolumn(name = "Image", type_ = "string", json_path = ".spec.image", priority = 1))]
    #[serde(rename_all = "camelCase")]
    pub struct MemcachedSpec {
        /// Number of pods, image and pod settings.
        #[serde(flatten)]
        pub workload: ReplicatedWorkload,
        /// Memory for items in MiB (memcached -m). The process needs more than that: a container
        /// whose memory limit is too low is OOM-killed. Default: 64.
        #[schemars(range(min = 1, max = 1 << 20))]
        pub memory: Option<i32>,
        /// Maximum number of simultaneous connections (memcached -c). Default: 1024, the default
        /// of memcached.
        #[schemars(range(min = 1, max = 1_000_000))]
        pub max_connections: Option<i32>,
        /// Number of worker threads (memcached -t). Default: 4, the default of memcached.
        #[schemars(range(min = 1, max = 128))]
        pub threads: Option<i32>,
        /// Port that memcached listens on. Default: 11211.
        #[schemars(range(min = 1, max = 65_535))]
        pub port: Option<i32>,
        /// The headless Service, through which clients find every pod. Default: no Service.
        pub service: Option<MemcachedService>,
    }

    /// Settings of the Service.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    pub struct MemcachedService {
        /// Whether to create a headless Service with the name of the instance. Its DNS name
        /// resolves to the address of each pod, for client-side hashing. Default: false.
        pub enabled: Option<bool>,
    }
}

/// Names, versions and functions of Memcached.
pub static KIND: Kind = Kind {
    brand: &BRAND,
    group: "cache.example.com",
    kind: "Memcached",
    plural: "memcacheds",
    short_name: "memc",
    description: "Memcached runs memcached servers, as a Deployment of the same name.",
    input: "how many servers, how much memory",
    output: "memcached, and an optional headless Service for client-side hashing",
    field_manager: "quartet-operator-memcached",
    spoke: Version::new::<v1alpha1::Memcached>("v1alpha1").counted_by(&["size"]),
    hub: Version::new::<v1::Memcached>("v1")
        .counted_by(&["replicas"])
        .with_service(ServiceName::NeededWhen {
            has: "service",
            enabled: Some("enabled"),
        }),
    field_mappings: &[FieldMapping::new(&["size"], &["replicas"])],
};

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
    type Spec = v1::MemcachedSpec;

    fn plan(&self, spec: v1::MemcachedSpec, settings: &Settings) -> Result<Plan, Problem> {
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
