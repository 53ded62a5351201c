//! What the API server makes of the webhooks' answers, on one API server for all tests of this
//! file. The schemas lose their lower bounds first, so that it is the webhook that refuses.

use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use devcluster::{Cluster, Options};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Config, Error};
use quartet_operator::api::conversion::{DATA_ANNOTATION, convert};
use quartet_operator::api::replicas::Pods;
use quartet_operator::api::{Kind, Version};
use quartet_operator::packaging::sample;
use quartet_operator::packaging::{crd, kinds};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::schemas::{add_defaults, without_minimum};
use crate::webhook_server::WebhookServer;

/// How long anything may take until it is so.
const DEADLINE: Duration = Duration::from_secs(30);
const MAX_REPLICAS: u32 = 10;

/// One API server and one webhook server for all tests of this file.
struct Stage {
    cluster: Cluster,
    webhooks: WebhookServer,
    _runtime: Runtime,
}

fn stage() -> &'static Stage {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    STAGE.get_or_init(|| {
        let cluster = Cluster::start_api_server(Options::default()).expect("an API server");
        let runtime = Runtime::new().unwrap();
        let stage = Stage {
            cluster,
            webhooks: runtime.block_on(WebhookServer::start(MAX_REPLICAS)),
            _runtime: runtime,
        };
        stage._runtime.block_on(install(&stage));
        stage
    })
}

async fn install(stage: &Stage) {
    let client = stage.client().await;
    let apply = PatchParams::apply("webhook-tests").force();
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for kind in kinds() {
        let mut crd = serde_json::to_value(crd::both_versions(kind)).unwrap();
        crd["spec"]["conversion"] = stage.webhooks.endpoint.conversion();
        for version in crd["spec"]["versions"].as_array_mut().unwrap() {
            let spec = version.pointer_mut("/schema/openAPIV3Schema/properties/spec");
            without_minimum(spec.unwrap());
        }
        let name = crd["metadata"]["name"].as_str().unwrap().to_owned();
        let applied = crds.patch(&name, &apply, &Patch::Apply(&crd)).await;
        applied.expect("the API server takes the CRD");
    }
    let configuration = stage.webhooks.endpoint.validation();
    let name = configuration["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let applied = configurations
        .patch(&name, &apply, &Patch::Apply(&configuration))
        .await;
    applied.expect("the API server takes the webhook configuration");
    // Served, and asked.
    for kind in kinds() {
        for version in [&kind.spoke, &kind.hub] {
            let objects = stage.objects(kind, version).await;
            let start = Instant::now();
            let dry_run = PostParams {
                dry_run: true,
                ..PostParams::default()
            };
            let (refused, _) = wrong(kind, version);
            loop {
                let answer = objects.create(&dry_run, &object(&refused)).await;
                if matches!(&answer, Err(Error::Api(status)) if status.message.contains("denied the request"))
                {
                    break;
                }
                assert!(
                    start.elapsed() < DEADLINE,
                    "{kind:?} {version:?}: {answer:?}"
                );
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Every version of every kind.
fn versions() -> impl Iterator<Item = (&'static Kind, &'static Version)> {
    let both = |kind: &'static Kind| [(kind, &kind.spoke), (kind, &kind.hub)];
    kinds().into_iter().flat_map(both)
}

impl Stage {
    /// Creates the sample of a version under this name; what it said, and where it is.
    async fn create_sample(
        &self,
        kind: &Kind,
        version: &Version,
        name: &str,
    ) -> (Value, Api<DynamicObject>) {
        let objects = self.objects(kind, version).await;
        let mut sample = sample::sample(kind, version).unwrap();
        sample["metadata"] = json!({"name": name});
        let created = objects
            .create(&PostParams::default(), &object(&sample))
            .await;
        created.expect("the sample is taken");
        (sample, objects)
    }
}

/// The field of a sample that says how many pods there are to be.
pub(crate) fn number_of_pods<'a>(object: &'a mut Value, version: &Version) -> &'a mut Value {
    let (field, _) = version.pods.blamed(&object["spec"]);
    let pointer = format!("/{}", field.replace('.', "/"));
    object.pointer_mut(&pointer).unwrap()
}

/// A sample that only the webhook refuses, and what it says. Where there is a scale
/// subresource, the API server itself refuses a negative number.
fn wrong(kind: &Kind, version: &Version) -> (Value, String) {
    let mut sample = sample::sample(kind, version).unwrap();
    sample["metadata"] = json!({"name": "wrong"});
    let (number, detail) = match version.pods {
        Pods::Derived { .. } => (-1, "must be greater than or equal to 0"),
        Pods::Counted(_) => (
            11,
            "must be less than or equal to 10, the operator's limit (--max-replicas)",
        ),
    };
    *number_of_pods(&mut sample, version) = json!(number);
    (sample, format!("Invalid value: {number}: {detail}"))
}

fn object(value: &Value) -> DynamicObject {
    serde_json::from_value(value.clone()).unwrap()
}

async fn merge(objects: &Api<DynamicObject>, name: &str, patch: &Value) {
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
    let patched = objects.patch(name, &parameters, &patch).await;
    patched.expect("the patch is taken");
}

/// Without what the API server adds.
fn essence(object: &DynamicObject) -> Value {
    let mut value = serde_json::to_value(object).unwrap();
    let annotations = value["metadata"]["annotations"].take();
    value["metadata"] = json!({"name": value["metadata"]["name"], "annotations": annotations});
    value.as_object_mut().unwrap().remove("status");
    value
}

impl Stage {
    async fn client(&self) -> Client {
        let kubeconfig = Kubeconfig::read_from(self.cluster.kubeconfig()).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options);
        let _ = rustls::crypto::ring::default_provider().install_default();
        Client::try_from(config.await.unwrap()).unwrap()
    }

    async fn objects(&self, kind: &Kind, version: &Version) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk(kind.group, version.name, kind.kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural);
        Api::namespaced_with(self.client().await, "default", &resource)
    }
}

/// Tests that count decisions, and those that cause some, one at a time.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> std::sync::MutexGuard<'static, ()> {
    TURN.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn block_on<T>(test: impl Future<Output = T>) -> T {
    Runtime::new().unwrap().block_on(test)
}

#[test]
fn every_object_reads_in_the_other_version_as_conversion_says_and_keeps_what_that_lacks() {
    let (stage, _turn) = (stage(), turn());
    block_on(async {
        for kind in kinds() {
            for (written, other) in [(&kind.spoke, &kind.hub), (&kind.hub, &kind.spoke)] {
                let mut sample = sample::sample(kind, written).unwrap();
                let name = format!("conversion-{}", written.name);
                sample["metadata"] = json!({"name": name});
                let own = stage.objects(kind, written).await;
                let others = stage.objects(kind, other).await;
                let created = own.create(&PostParams::default(), &object(&sample)).await;
                let created = essence(&created.unwrap());
                let read = essence(&others.get(&name).await.unwrap());
                let mut expected = convert(kind, created.clone(), other).unwrap().object;
                // The schema of the version that is read has defaults of its own.
                let schema = serde_json::to_value(crd::both_versions(kind)).unwrap();
                let versions = schema["spec"]["versions"].as_array().unwrap();
                let version = versions.iter().find(|it| it["name"] == other.name);
                let spec = "/schema/openAPIV3Schema/properties/spec";
                let schema = version.unwrap().pointer(spec).unwrap();
                add_defaults(&mut expected["spec"], schema);
                assert_eq!(read, expected);
                let mut items = others
                    .list(&Default::default())
                    .await
                    .unwrap()
                    .items
                    .into_iter();
                let listed = items.find(|item| item.metadata.name.as_ref() == Some(&name));
                assert_eq!(essence(&listed.unwrap()), read);
                // A change through the other version keeps the fields that only this one has.
                let mut patch = json!({"spec": read["spec"]});
                let (field, _) = other.pods.blamed(&patch["spec"]);
                let pointer = format!("/{}", field.replace('.', "/"));
                *patch.pointer_mut(&pointer).unwrap() = json!(4);
                merge(&others, &name, &patch).await;
                let mut wanted = created;
                *number_of_pods(&mut wanted, written) = json!(4);
                assert_eq!(essence(&own.get(&name).await.unwrap()), wanted);
                own.delete(&name, &DeleteParams::default()).await.unwrap();
            }
        }
    });
}

#[test]
fn what_only_the_webhook_refuses_is_told_with_its_cause_in_the_version_that_was_written() {
    let (stage, _turn) = (stage(), turn());
    block_on(async {
        for kind in kinds() {
            let decisions = || {
                stage.webhooks.decisions(kind, &kind.spoke)
                    + stage.webhooks.decisions(kind, &kind.hub)
            };
            for version in [&kind.spoke, &kind.hub] {
                let (wrong, detail) = wrong(kind, version);
                let objects = stage.objects(kind, version).await;
                let before = decisions();
                let refused = objects
                    .create(&PostParams::default(), &object(&wrong))
                    .await;
                let Err(Error::Api(status)) = refused else {
                    panic!("not refused");
                };
                let (field, _) = version.pods.blamed(&wrong["spec"]);
                let name = kind.controller_name();
                assert_eq!(
                    status.message,
                    format!(
                        "admission webhook \"v{name}-{}.{}\" denied the request: {}.{} \"wrong\" is \
                         invalid: {field}: {detail}",
                        version.name, kind.group, kind.kind, kind.group
                    )
                );
                assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
                let details = status.details.unwrap();
                assert_eq!(
                    (details.kind.as_str(), details.name.as_str()),
                    (kind.kind, "wrong")
                );
                let [cause] = details.causes.as_slice() else {
                    panic!("one cause: {details:?}");
                };
                assert_eq!(
                    (cause.field.as_str(), cause.message.as_str()),
                    (&*field, &*detail)
                );
                assert_eq!(cause.reason, "FieldValueInvalid");
                assert_eq!(
                    decisions(),
                    before + 1.0,
                    "the other version's was not asked"
                );
            }
        }
    });
}

#[test]
fn scaling_over_the_limit_is_refused_in_both_versions_and_scaling_down_is_not() {
    let (stage, _turn) = (stage(), turn());
    block_on(async {
        for (kind, version) in versions() {
            let (_, objects) = stage.create_sample(kind, version, "scaled").await;
            let scale = async |replicas: i32| {
                let patch = json!({"spec": {"replicas": replicas}});
                objects
                    .patch_scale("scaled", &PatchParams::default(), &Patch::Merge(&patch))
                    .await
            };
            match scale(11).await {
                Err(Error::Api(status)) if status.code == 404 => {} // it cannot be scaled
                Err(Error::Api(status)) => {
                    assert!(
                        status.message.ends_with(
                            "Scale.autoscaling \"scaled\" is invalid: spec.replicas: Invalid value: 11: \
                             must be less than or equal to 10, the operator's limit (--max-replicas)"
                        ),
                        "{status:?}"
                    );
                    assert_eq!(scale(10).await.unwrap().spec.unwrap().replicas, Some(10));
                    let down = scale(0).await.unwrap().spec.unwrap();
                    assert_eq!(down.replicas.unwrap_or(0), 0);
                }
                other => panic!("{other:?}"),
            }
            let deleted = objects.delete("scaled", &DeleteParams::default()).await;
            deleted.unwrap();
        }
    });
}

#[test]
fn what_leaves_the_spec_alone_or_goes_away_asks_no_webhook() {
    let (stage, _turn) = (stage(), turn());
    block_on(async {
        for (kind, version) in versions() {
            let before = stage.webhooks.decisions(kind, version);
            let (sample, objects) = stage.create_sample(kind, version, "calm").await;
            assert_eq!(stage.webhooks.decisions(kind, version), before + 1.0);
            let labels = json!({"metadata": {"labels": {"a": "b"}}});
            merge(&objects, "calm", &labels).await;
            let status = json!({"status": {"nodes": ["a"], "replicas": 1}});
            objects
                .patch_status("calm", &PatchParams::default(), &Patch::Merge(&status))
                .await
                .unwrap();
            let deleted = objects.delete("calm", &DeleteParams::foreground()).await;
            deleted.unwrap();
            let going = objects.get("calm").await.unwrap();
            assert!(going.metadata.deletion_timestamp.is_some());
            // Not even a spec that is wrong keeps its finalizer on.
            let mut whole = json!({"spec": sample["spec"]});
            *number_of_pods(&mut whole, version) = json!(i32::MAX);
            whole["metadata"] = json!({"finalizers": []});
            merge(&objects, "calm", &whole).await;
            assert_eq!(stage.webhooks.decisions(kind, version), before + 1.0);
            assert!(objects.get_opt("calm").await.unwrap().is_none());
        }
    });
}

#[test]
fn hub_fields_that_come_in_by_the_annotation_of_the_old_version_are_stored_and_checked() {
    let (stage, _turn) = (stage(), turn());
    block_on(async {
        let kind = kinds()[0];
        let spoke = stage.objects(kind, &kind.spoke).await;
        let of = |memory: i64| {
            let data = json!({kind.hub.name: {"memory": memory}}).to_string();
            let mut sample = sample::sample(kind, &kind.spoke).unwrap();
            sample["metadata"] = json!({"name": "carried", "annotations": {DATA_ANNOTATION: data}});
            object(&sample)
        };
        let refused = spoke
            .create(&PostParams::default(), &of(-5))
            .await
            .unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("spec.memory of v1: Invalid value: -5"),
            "{refused}"
        );
        spoke
            .create(&PostParams::default(), &of(128))
            .await
            .unwrap();
        let hub = stage
            .objects(kind, &kind.hub)
            .await
            .get("carried")
            .await
            .unwrap();
        assert_eq!(hub.data["spec"]["memory"], 128);
        assert_eq!(hub.metadata.annotations, None);
        spoke
            .delete("carried", &DeleteParams::default())
            .await
            .unwrap();
    });
}
