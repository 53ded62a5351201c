//! The plan of an ElasticWeb: as many pods of the user's image as its queries per second need,
//! behind a NodePort Service. Pure data for `workload`.

use serde_json::Value;

use super::operand::{Operand, OperandImage, Settings, ValidationError};
use super::plan::{Image, Plan, WorkloadDefaults, invalid, replicas_within_limit};
use crate::api::Kind;
use crate::api::elasticweb::{KIND, v2::ElasticWebSpec};
use crate::api::replicas::pods_for;
use crate::api::workload::PodSecurity;

/// The operator of `elasticweb.example.com` ElasticWeb.
pub struct ElasticWeb;

static DEFAULTS: WorkloadDefaults = WorkloadDefaults {
    component: "web",
    port_name: "http",
    // Port of web server images that start as root.
    port: 80,
    // The user's image is unknown, so any non-root user will do. This is nginx's.
    run_as_user: 101,
    pod_security: PodSecurity::Baseline,
    pre_stop_seconds: 3,
    ..WorkloadDefaults::RESTRICTED
};

impl Operand for ElasticWeb {
    const KIND: &'static Kind = &KIND;
    const IMAGE: Option<&'static OperandImage> = None;
    type Spec = ElasticWebSpec;

    fn plan(&self, spec: ElasticWebSpec, settings: &Settings) -> Result<Plan, ValidationError> {
        // At 0 there are no pods, but the Deployment and the Service stay: the children depend on
        // the spec only, never on earlier state.
        let target = spec.capacity.target_qps.unwrap_or(0);
        let replicas = pods_for(target, spec.capacity.per_pod_qps).ok_or_else(|| {
            let detail = "perPodQPS must be at least 1, and targetQPS at least 0";
            invalid("spec.capacity", None, detail.to_owned())
        })?;
        let replicas = replicas_within_limit(replicas, "spec.capacity.targetQPS", settings)?;
        Ok(Plan {
            container_port: spec.container_port.unwrap_or(DEFAULTS.port),
            service: Some(spec.service.into()),
            ..Plan::new(&DEFAULTS, replicas, Image::Users(spec.image), spec.workload)
        })
    }

    fn per_pod_qps(&self, spec: &Value) -> Option<i64> {
        let queries = spec.pointer("/capacity/perPodQPS").and_then(Value::as_i64);
        Some(queries.unwrap_or(0))
    }
}
