//! One generic reconciler, and a `Controller` of each kind around it.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::{DeepMerge, NamespaceResourceScope};
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{Action, Error};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::scheduler::{ScheduleRequest, debounced_scheduler};
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{Config, Controller, WatchStreamExt, predicates};
use kube::{Api, Client, Resource, ResourceExt};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api::Operand;
use crate::children::{self, MANAGER};
use crate::watches::{Inbox, Shared, slim};

const CONCURRENCY: u16 = 16;
const DEBOUNCE: Duration = Duration::from_millis(100);
const BACKOFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1000));

pub static RECONCILES: AtomicU64 = AtomicU64::new(0);

struct Context<K: Operand> {
    shared: Shared,
    /// Failures in a row: `error_policy` is told of the failure only, not of how many there were before.
    failures: Mutex<HashMap<ObjectRef<K>, u32>>,
}

/// Runs the controller of `K` until `shutdown`, then lets running reconciliations finish.
pub async fn control<K: Operand>(shared: Shared, inbox: Inbox, shutdown: CancellationToken) {
    let ctx = Arc::new(Context {
        shared,
        failures: Mutex::default(),
    });
    let (reader, writer) = reflector::store::<K>();
    let mut listed = false;
    let crs = watcher(
        Api::<K>::all(ctx.shared.client.clone()),
        watcher::Config::default(),
    )
    .default_backoff()
    .modify(slim)
    .reflect(writer)
    // Objects of a relist trigger before they are in the store (it swaps at InitDone), so once more after it.
    .inspect_ok(move |event| {
        if matches!(event, Event::InitDone) && std::mem::replace(&mut listed, true) {
            let _ = inbox.relist.unbounded_send(());
        }
    })
    .applied_objects()
    .predicate_filter(predicates::generation, Default::default());
    // What Config::debounce does, for children only: that would hold back a new resource as well.
    let children = debounced_scheduler(
        inbox.touched.map(|(namespace, name)| ScheduleRequest {
            message: ObjectRef::new(&name).within(&namespace),
            run_at: Instant::now(),
        }),
        DEBOUNCE,
    );
    Controller::for_stream(crs, reader)
        .reconcile_on(children)
        .reconcile_all_on(inbox.relisted)
        .with_config(Config::default().concurrency(CONCURRENCY))
        .graceful_shutdown_on(shutdown.cancelled_owned())
        .run(reconcile::<K>, error_policy::<K>, ctx.clone())
        .for_each(|result| {
            match result {
                Ok(_) => {}
                Err(Error::ObjectNotFound(gone)) => {
                    ctx.failures
                        .lock()
                        .unwrap()
                        .remove(&gone.into_kind_unchecked(()));
                }
                Err(error) => tracing::warn!(kind = K::NAME, %error, "controller"),
            }
            std::future::ready(())
        })
        .await
}

async fn reconcile<K: Operand>(cr: Arc<K>, ctx: Arc<Context<K>>) -> Result<Action, kube::Error> {
    RECONCILES.fetch_add(1, Ordering::Relaxed);
    if cr.meta().deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let Shared {
        client,
        deployments,
        services,
        pods,
    } = &ctx.shared;
    let (name, namespace, wants) = (
        cr.name_any(),
        cr.namespace().unwrap_or_default(),
        cr.wants(),
    );

    let deployment = ensure(client, deployments, &children::deployment(&*cr, &wants)).await?;
    if let Some(service) = children::service(&*cr, &wants) {
        ensure(client, services, &service).await?;
    }

    let status = children::status(
        &*cr,
        &wants,
        deployment.as_deref(),
        pods.of(K::NAME, &namespace, &name),
    );
    if cr.status() != Some(&status) {
        let patch = Patch::Merge(json!({ "status": status }));
        Api::<K>::namespaced(client.clone(), &namespace)
            .patch_status(&name, &PatchParams::apply(MANAGER), &patch)
            .await?;
    }
    ctx.failures
        .lock()
        .unwrap()
        .remove(&ObjectRef::from_obj(&*cr));
    Ok(Action::await_change())
}

/// The child as it is cached, if that has all we want. If not, it is applied, and what is cached is no longer so.
async fn ensure<C>(
    client: &Client,
    cache: &Store<C>,
    want: &C,
) -> Result<Option<Arc<C>>, kube::Error>
where
    C: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Serialize + DeserializeOwned,
    C: Clone + Debug + PartialEq + DeepMerge,
{
    let got = cache
        .get(&ObjectRef::from_obj(want))
        .filter(|got| children::holds(&**got, want));
    if got.is_none() {
        let api = Api::<C>::namespaced(client.clone(), &want.namespace().unwrap_or_default());
        let params = PatchParams::apply(MANAGER).force();
        // Nothing of the answer is read, so only its metadata is asked for.
        api.patch_metadata(&want.name_any(), &params, &Patch::Apply(want))
            .await?;
    }
    Ok(got)
}

fn error_policy<K: Operand>(cr: Arc<K>, _: &kube::Error, ctx: Arc<Context<K>>) -> Action {
    let mut failures = ctx.failures.lock().unwrap();
    let n = failures.entry(ObjectRef::from_obj(&*cr)).or_default();
    *n += 1;
    let (first, max) = BACKOFF;
    Action::requeue(first.saturating_mul(2u32.saturating_pow(*n - 1)).min(max))
}
