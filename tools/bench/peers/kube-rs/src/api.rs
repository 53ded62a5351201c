//! The four kinds (spoke versions), and what the reconciler needs to know of each.

use std::fmt::Debug;

use k8s_openapi::{NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::Condition};
use kube::{CustomResource, Resource, ResourceExt, core::object::HasStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Shared by the four kinds; `realQPS` is ElasticWeb's.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    pub observed_generation: i64,
    pub nodes: Vec<String>,
    #[serde(rename = "realQPS", skip_serializing_if = "Option::is_none")]
    pub real_qps: Option<i64>,
    pub conditions: Vec<Condition>,
}

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "cache.example.com",
    version = "v1alpha1",
    kind = "Memcached",
    plural = "memcacheds"
)]
#[kube(namespaced, status = "Status")]
pub struct MemcachedSpec {
    pub size: i32,
}

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "proxy.example.com", version = "v1alpha1", kind = "Nginx", plural = "nginxes")]
#[kube(namespaced, status = "Status")]
pub struct NginxSpec {
    pub count: i32,
}

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "test.jiaozi.com",
    version = "v1alpha1",
    kind = "HelloWorld",
    plural = "helloworlds"
)]
#[kube(namespaced, status = "Status")]
pub struct HelloWorldSpec {
    pub size: i32,
}

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "elasticweb.example.com",
    version = "v1",
    kind = "ElasticWeb",
    plural = "elasticwebs"
)]
#[kube(namespaced, status = "Status")]
pub struct ElasticWebSpec {
    pub image: String,
    pub port: i32,
    #[serde(rename = "singlePodsQPS")]
    pub single_pods_qps: i32,
    #[serde(rename = "totalQPS", default)]
    pub total_qps: i32,
}

/// What the one generic reconciler makes of a resource's spec.
#[derive(Default)]
pub struct Wants<'a> {
    pub image: &'a str,
    pub container_port: i32,
    pub replicas: i32,
    /// A further label of the pods.
    pub pod_label: Option<(&'static str, String)>,
    /// `None`: the resource owns no Service.
    pub node_port: Option<i32>,
    /// What each ready pod adds to `status.realQPS`, where the kind has that field.
    pub qps: Option<i32>,
}

pub trait Operand:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + HasStatus<Status = Status>
    + DeserializeOwned
    + Clone
where
    Self: Debug + Send + Sync + 'static,
{
    /// Value of the label `app.kubernetes.io/name`, and the container's name.
    const NAME: &'static str;

    fn wants(&self) -> Wants<'_>;
}

impl Operand for Memcached {
    const NAME: &'static str = "memcached";

    fn wants(&self) -> Wants<'_> {
        let image = "memcached:1.6.39-alpine";
        Wants {
            image,
            container_port: 11211,
            replicas: self.spec.size,
            ..Default::default()
        }
    }
}

impl Operand for Nginx {
    const NAME: &'static str = "nginx";

    fn wants(&self) -> Wants<'_> {
        let image = "nginxinc/nginx-unprivileged:1.29";
        Wants {
            image,
            container_port: 8080,
            replicas: self.spec.count,
            ..Default::default()
        }
    }
}

impl Operand for HelloWorld {
    const NAME: &'static str = "helloworld";

    fn wants(&self) -> Wants<'_> {
        let (image, pod_label) = (
            "example.com/helloworld:1.0",
            Some(("hello_name", self.name_any())),
        );
        Wants {
            image,
            container_port: 8080,
            replicas: self.spec.size,
            pod_label,
            ..Default::default()
        }
    }
}

impl Operand for ElasticWeb {
    const NAME: &'static str = "elasticweb";

    fn wants(&self) -> Wants<'_> {
        let ElasticWebSpec {
            image,
            port,
            single_pods_qps,
            total_qps,
        } = &self.spec;
        let (single, total) = (i64::from(*single_pods_qps).max(1), i64::from(*total_qps));
        Wants {
            image,
            container_port: 80,
            replicas: ((total + single - 1) / single) as i32,
            node_port: (*port != 0).then_some(*port),
            qps: Some(*single_pods_qps),
            ..Default::default()
        }
    }
}
