//! The ValidatingWebhookConfiguration: one webhook for each version of each kind, for our API
//! groups only. Contains no validation rules.

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, RuleWithOperations, ServiceReference, ValidatingWebhook,
    ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::kinds::DATA_ANNOTATION;
use crate::names::{
    NAMESPACE, PROJECT, WEBHOOK_CONFIGURATION, WEBHOOK_SERVICE, WEBHOOK_SERVICE_PORT,
};
use quartet_versions::{Kind, Version};
use quartet_webhook::paths;

/// Timeout of a request. A response takes a millisecond; a replica that takes longer is gone.
const TIMEOUT_SECONDS: i32 = 5;

/// Annotations of up to this many entries and characters per value always leave room for
/// conversion data: `24 × (317 + 4 × 2048)` bytes is less than the limit of all annotations, 256
/// KiB, less the 32 KiB and the key of the data. 317 is the longest key, and a character has up
/// to 4 bytes.
const FEW_ANNOTATIONS: usize = 24;
const SHORT_ANNOTATION: usize = 2048;

/// The match conditions. Requests that need no validation are not sent, so that they succeed
/// without a webhook server, in particular a foreground deletion, which removes finalizers by
/// updates.
///
/// An update needs validation if it changes the spec, the conversion data (a part of the spec),
/// or annotations that may leave no room for conversion data.
fn match_conditions() -> Vec<MatchCondition> {
    let data = format!("metadata.?annotations[?'{DATA_ANNOTATION}']");
    let annotations = "metadata.?annotations.orValue({})";
    let needs_answer = format!(
        "request.operation != 'UPDATE' || has(object.spec) != has(oldObject.spec) \
         || (has(object.spec) && object.spec != oldObject.spec) \
         || object.{data} != oldObject.{data} \
         || (object.{annotations} != oldObject.{annotations} \
         && (size(object.{annotations}) > {FEW_ANNOTATIONS} \
         || object.{annotations}.exists(key, \
         size(object.metadata.annotations[key]) > {SHORT_ANNOTATION})))"
    );
    let condition = |name: &str, expression: &str| MatchCondition {
        name: name.to_owned(),
        expression: expression.to_owned(),
    };
    vec![
        condition(
            "not-being-deleted",
            "!has(object.metadata.deletionTimestamp)",
        ),
        condition("needs-answer", &needs_answer),
    ]
}

/// The webhooks of all kinds.
pub fn validating_webhook_configuration(kinds: &[&Kind]) -> ValidatingWebhookConfiguration {
    let of_kind = |kind: &&Kind| [webhook(kind, &kind.spoke), webhook(kind, &kind.hub)];
    let labels = [
        ("app.kubernetes.io/name", PROJECT),
        ("app.kubernetes.io/managed-by", "kustomize"),
    ];
    ValidatingWebhookConfiguration {
        metadata: ObjectMeta {
            name: Some(WEBHOOK_CONFIGURATION.to_owned()),
            labels: Some(
                labels
                    .map(|(name, value)| (name.into(), value.into()))
                    .into(),
            ),
            ..ObjectMeta::default()
        },
        webhooks: Some(kinds.iter().flat_map(of_kind).collect()),
    }
}

fn webhook(kind: &Kind, version: &Version) -> ValidatingWebhook {
    let mut resources = vec![kind.plural.to_owned()];
    if version.has_scale() {
        resources.push(format!("{}/scale", kind.plural));
    }
    ValidatingWebhook {
        name: format!(
            "v{}-{}.{}",
            kind.controller_name(),
            version.name,
            kind.group
        ),
        admission_review_versions: vec!["v1".to_owned()],
        client_config: WebhookClientConfig {
            service: Some(ServiceReference {
                name: WEBHOOK_SERVICE.to_owned(),
                namespace: NAMESPACE.to_owned(),
                path: Some(paths::validate(kind, version)),
                port: Some(WEBHOOK_SERVICE_PORT),
            }),
            ..WebhookClientConfig::default()
        },
        failure_policy: Some("Fail".to_owned()),
        // With Equivalent, the default, the webhooks of both versions would be called for each
        // write, one of them with an object of the other version.
        match_policy: Some("Exact".to_owned()),
        match_conditions: Some(match_conditions()),
        rules: Some(vec![RuleWithOperations {
            api_groups: Some(vec![kind.group.to_owned()]),
            api_versions: Some(vec![version.name.to_owned()]),
            operations: Some(vec!["CREATE".to_owned(), "UPDATE".to_owned()]),
            resources: Some(resources),
            scope: Some("Namespaced".to_owned()),
        }]),
        side_effects: "None".to_owned(),
        timeout_seconds: Some(TIMEOUT_SECONDS),
        ..ValidatingWebhook::default()
    }
}
