//! The ClusterServiceVersion: Deployment, RBAC rules and presentation, in the template
//! `base.yaml`. It follows the rules of `operator-sdk bundle validate` (operator-framework/api,
//! pkg/validation) and of the community catalog's pipeline.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::descriptor::{of_spec, of_status, words};
use crate::config::WEBHOOK_PORT;
use crate::kinds::OPERATORS;
use crate::names::{LEASE, WEBHOOK_SERVICE_PORT};
use crate::packaging::kinds::{crd_names, kinds, versions};
use crate::packaging::manager::deployment;
use crate::packaging::manifest::ManifestError;
use crate::packaging::release::Release;
use crate::packaging::sample::sample;
use crate::packaging::webhook::validating_webhook_configuration;
use crate::packaging::{rbac, schema, template};
use quartet_versions::Kind;
use quartet_webhook::paths;

/// The processor architectures on which CI runs the manager. There are images for more.
const TESTED: [&str; 1] = ["amd64"];
/// Objects that belong to every resource, of version v1. Includes Events: without them here, operator-sdk
/// takes RBAC rules for events.k8s.io as rules for a removed API.
const OF_EVERY_KIND: [&str; 2] = ["Event", "Pod"];

/// The ClusterServiceVersion.
///
/// # Errors
/// A file of the repository cannot be read, or is not YAML.
pub fn csv(release: &Release) -> Result<Value, ManifestError> {
    let deployment = deployment(release)?;
    let kinds = kinds();
    let names: Vec<_> = kinds.iter().map(|kind| kind.kind).collect();
    let controllers: Vec<_> = kinds.iter().map(|kind| kind.controller_name()).collect();
    let description = template::with(release.fields(), json!({ "ROWS": rows(&kinds) }));
    let fields = json!({
        "KINDS": names.join(", "),
        "CONTROLLERS": controllers,
        "LABELS": labels(release),
        "EXAMPLES": examples()?,
        "NAMESPACE": template::config("manager/namespace.yaml")?.to_string(),
        "DESCRIPTION": template::text("olm/description.md", &description)?,
        "ICON": ByteString(template::read("docs/icon.svg")?.into()),
        "OWNED": owned(),
        "DEPLOYMENT_LABELS": deployment["metadata"]["labels"],
        "DEPLOYMENT_SPEC": deployment["spec"],
        "CLUSTER_RULES": rbac::cluster_rules()?,
        "NAMESPACE_RULES": rbac::namespace_rules()?,
        "WEBHOOKS": webhook_definitions()?,
    });
    template::object("olm/base.yaml", &template::with(release.fields(), fields))
}

/// The rows of the table of kinds.
fn rows(kinds: &[&Kind]) -> String {
    let row = |kind: &&Kind| {
        let Kind {
            kind,
            group,
            input,
            output,
            ..
        } = kind;
        format!("| **{kind}** `{group}` | {input} | {output} |")
    };
    kinds.iter().map(row).collect::<Vec<_>>().join("\n")
}

/// One sample of each version of each kind, as the text of a JSON array.
fn examples() -> Result<String, ManifestError> {
    let examples = versions().map(|(kind, version)| sample(kind, version));
    let examples: Vec<Value> = examples.collect::<Result<_, _>>()?;
    Ok(format!("{:#}", json!(examples)))
}

fn labels(release: &Release) -> Value {
    let mut labels = json!({ "operatorframework.io/os.linux": "supported" });
    let architectures = release.architectures.iter().map(String::as_str);
    for tested in architectures.filter(|it| TESTED.contains(it)) {
        labels[format!("operatorframework.io/arch.{tested}")] = "supported".into();
    }
    labels
}

/// One entry for each version of each kind, with a descriptor for every field.
fn owned() -> Vec<Value> {
    versions()
        .map(|(kind, version)| {
            let crd = kind.crd(version);
            json!({
                "name": kind.crd_name(),
                "version": version.name,
                "kind": kind.kind,
                "displayName": words(kind.kind),
                "description": schema::description(&crd),
                "resources": resources(kind),
                "specDescriptors": of_spec(&crd),
                "statusDescriptors": of_status(&crd),
            })
        })
        .collect()
}

/// The types of the objects that belong to a resource of this kind, by name.
fn resources(kind: &Kind) -> Vec<Value> {
    let mut operators = OPERATORS.iter();
    let operator = operators.find(|operator| operator.kind().kind == kind.kind);
    let owned = operator.into_iter().flat_map(|operator| operator.owns());
    let owned = owned.map(|owned| (owned.kind.kind, owned.kind.version));
    let all: BTreeMap<_, _> = owned.chain(OF_EVERY_KIND.map(|it| (it, "v1"))).collect();
    let resource = |(kind, version)| json!({ "kind": kind, "name": "", "version": version });
    all.into_iter().map(resource).collect()
}

/// The conversion and the webhooks of `config/webhook`.
fn webhook_definitions() -> Result<Vec<Value>, ManifestError> {
    let definition = |kind: &str, mut fields: Value| {
        fields["TYPE"] = kind.into();
        fields["SERVICE_PORT"] = WEBHOOK_SERVICE_PORT.into();
        fields["PORT"] = WEBHOOK_PORT.into();
        template::object("olm/webhook.yaml", &fields)
    };
    let name = format!("conversion.{LEASE}");
    let conversion = json!({
        "NAME": name, "PATH": paths::CONVERT, "CRDS": crd_names(),
        "FAILURE_POLICY": null, "RULES": null, "TIMEOUT": null,
    });
    let mut definitions = vec![definition("ConversionWebhook", conversion)?];
    let configured = validating_webhook_configuration(&kinds()).webhooks;
    for webhook in configured.into_iter().flatten() {
        let service = webhook.client_config.service;
        let validating = json!({
            "NAME": webhook.name, "PATH": service.and_then(|it| it.path), "CRDS": null,
            "FAILURE_POLICY": webhook.failure_policy, "RULES": webhook.rules,
            "TIMEOUT": webhook.timeout_seconds,
        });
        definitions.push(definition("ValidatingAdmissionWebhook", validating)?);
    }
    Ok(definitions)
}
