//! An operator with child types that the four kinds lack: a claim that outlives its resource, an
//! optional ConfigMap, and a StatefulSet. It uses the spec of Memcached; `memory` adds files.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use quartet_operator::kinds::BRAND;
use quartet_operator::kinds::memcached::{Memcached, v1::MemcachedSpec};
use quartet_versions::Kind;
use quartet_workload::operand::Operand;
use quartet_workload::plan::{ConfigPlan, Plan, StoragePlan};
use quartet_workload::{
    CONFIG_MAP, Child, ChildKind, ChildState, ChildType, OperandImage, Owned, Problem,
    STATEFUL_SET, Settings,
};

pub(super) struct Keeper;

pub(super) const CLAIM: ChildKind = &ChildType::of::<PersistentVolumeClaim>(|_| ChildState::Ready);

impl Operand for Keeper {
    const KIND: &'static Kind = Memcached::KIND;
    const IMAGE: Option<&'static OperandImage> = Memcached::IMAGE;
    const OWNS: &'static [Owned] = &[
        Owned::optional(CLAIM),
        Owned::optional(CONFIG_MAP),
        Owned::always(STATEFUL_SET),
    ];
    type Spec = MemcachedSpec;

    fn plan(&self, spec: MemcachedSpec, settings: &Settings) -> Result<Plan, Problem> {
        let memory = spec.memory;
        let plan = Memcached.plan(spec, settings)?;
        Ok(Plan {
            service: None,
            config: memory.map(|memory| ConfigPlan {
                folder: "/etc/keeper",
                files: [("keeper.conf".to_owned(), format!("memory {memory}\n"))].into(),
            }),
            storage: Some(StoragePlan {
                folder: "/data",
                size: "1Gi".to_owned(),
                class: None,
            }),
            others: vec![claim().retained(&BRAND)],
            ..plan
        })
    }
}

fn claim() -> Child {
    let metadata = ObjectMeta {
        name: Some("kept".to_owned()),
        ..ObjectMeta::default()
    };
    let claim = PersistentVolumeClaim {
        metadata,
        ..PersistentVolumeClaim::default()
    };
    Child::of(CLAIM, claim)
}
