//! The fields of the templates: of the release, of `packaging/project.yaml`, and of each kind and
//! version.

use k8s_openapi::ByteString;
use quartet_versions::{Kind, Version};
use serde_json::{Value, json};

use crate::merge::merge;
use crate::template::{fill_text, tidy, with, yaml};
use crate::{Error, Fields, Operator, Project, Release, api_reference, descriptor};

/// Roles that apply beside those of the manager and its election: hand-written files of `config`.
const METRICS_AUTH: &str = "config/rbac/metrics_auth_role.yaml";
const LEADER_ELECTION: &str = "config/rbac/leader_election_role.yaml";

impl Project {
    /// The content of `packaging/project.yaml`, with names in upper case.
    pub(crate) fn settings(&self) -> Result<Fields, Error> {
        let settings = self.object("packaging/project.yaml")?;
        let settings = settings.as_object().into_iter().flatten();
        Ok(settings
            .map(|(name, value)| (name.to_uppercase(), value.clone()))
            .collect())
    }

    /// The sample of a version: a hand-written file in `config/samples`.
    ///
    /// # Errors
    /// Its file cannot be read, or is not YAML.
    pub fn sample(&self, kind: &Kind, version: &Version) -> Result<Value, Error> {
        self.object(&format!("config/samples/{}", sample_file(kind, version)))
    }
}

/// E.g. `cache_v1alpha1_memcached.yaml`, as in kubebuilder.
pub fn sample_file(kind: &Kind, version: &Version) -> String {
    let group = kind.group.split('.').next().unwrap_or(kind.group);
    format!("{group}_{}_{}.yaml", version.name, kind.controller_name())
}

/// Every field.
pub(crate) fn all(project: &Project, release: &Release) -> Result<Fields, Error> {
    let mut fields = release.fields(project)?;
    for (name, rules) in &project.rules {
        fields.insert((*name).to_owned(), json!(rules));
    }
    let (mut kinds, mut versions, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for operator in &project.operators {
        let kind = of_kind(operator);
        for version in operator.kind.versions() {
            let version = of_version(project, operator.kind, version)?;
            versions.push(Value::Object(with(&kind, &version)));
        }
        let row = "| **$KIND$** `$GROUP$` | $INPUT$ | $OUTPUT$ |".to_owned();
        rows.push(fill_text(row, &kind));
        kinds.push(Value::Object(kind));
    }
    let mut sorted = versions.clone();
    // opm sorts the versions in a catalog as text.
    sorted.sort_by_key(|it| ["GROUP", "KIND", "API"].map(|field| it[field].to_string()));
    let examples: Vec<_> = versions.iter().map(|version| &version["EXAMPLE"]).collect();
    let names: Vec<_> = kinds.iter().map(|kind| &kind["KIND"]).collect();
    let converted = project.operators.iter().map(|operator| operator.kind);
    let converted = converted.filter(|kind| kind.versions().count() > 1);
    let converted: Vec<_> = converted.map(Kind::crd_name).collect();
    // None for a project whose kinds have one version each.
    let conversions: &[_] = match &*converted {
        [] => &[],
        names => &[json!({ "CONVERTED": names })],
    };
    let more = json!({
        "KIND_NAMES": names,
        "ROWS": rows.join("\n"),
        "CONVERSIONS": conversions,
        "EXAMPLES": format!("{:#}", json!(examples)),
        "KINDS": kinds,
        "VERSIONS": versions,
        "SORTED_VERSIONS": sorted,
        "METRICS_AUTH_RULES": project.object(METRICS_AUTH)?["rules"],
        "LEADER_ELECTION_RULES": project.object(LEADER_ELECTION)?["rules"],
        "NAMESPACE": project.object("config/manager/namespace.yaml")?.to_string(),
        "ICON": ByteString(project.text("docs/icon.svg")?.into()),
    });
    fields = with(&fields, &more);
    // The manager's Deployment in the release, without a mount of the webhook certificate.
    let mut deployment = project.object("config/manager/manager.yaml")?;
    let patch = project.filled_object("config/manager/release_patch.yaml", &fields)?;
    merge(&mut deployment, patch);
    let description = project.filled_text("description.md", &fields)?;
    let more = json!({
        "DEPLOYMENT_LABELS": deployment["metadata"]["labels"],
        "DEPLOYMENT_SPEC": deployment["spec"],
        "DEPLOYMENT": deployment,
        "DESCRIPTION": description,
    });
    Ok(with(&fields, &more))
}

fn of_kind(operator: &Operator) -> Fields {
    let kind = operator.kind;
    let mut owned = operator.owns.clone();
    // Belong to every resource. Without Events, operator-sdk takes RBAC rules for events.k8s.io as
    // rules for a removed API.
    owned.extend([("Event", "v1"), ("Pod", "v1")]);
    owned.sort_unstable();
    let owned = owned
        .iter()
        .map(|(kind, version)| json!({ "kind": kind, "name": "", "version": version }));
    let is_scaled = kind.spoke.has_scale() || kind.hub.has_scale();
    let name = kind.controller_name();
    let links = kind.versions().map(|version| version.name);
    let links = links.map(|version| format!("[`{version}`](#{name}-{version})"));
    let fields = json!({
        "KIND": kind.kind,
        "KIND_WORDS": descriptor::words(kind.kind),
        "CONTROLLER": name,
        "GROUP": kind.group,
        "PLURAL": kind.plural,
        "SHORT_NAME": kind.short_name,
        "CRD": kind.crd_name(),
        "SUMMARY": kind.description,
        "INPUT": kind.input,
        "OUTPUT": kind.output,
        "VERSION_LINKS": links.collect::<Vec<_>>().join(", "),
        "HUB": kind.hub.name,
        "SAMPLE_FILE": sample_file(kind, &kind.spoke),
        "CONVERSION_DATA": kind.brand.conversion_data,
        "OWNED": owned.collect::<Vec<_>>(),
        "IF_SCALED": if_scaled(is_scaled),
    });
    with(&Fields::new(), &fields)
}

/// A list of one element if there is a subresource `scale`.
fn if_scaled(is_scaled: bool) -> Value {
    let element = is_scaled.then(|| json!({}));
    element.into_iter().collect()
}

fn of_version(project: &Project, kind: &Kind, version: &Version) -> Result<Value, Error> {
    let mut crd = json!(kind.crd(version));
    tidy(&mut crd);
    let served = &crd["spec"]["versions"][0];
    let scaled = served["subresources"]["scale"]["specReplicasPath"].as_str();
    let scaled = scaled.and_then(|path| path.strip_prefix(".spec."));
    let schema = &served["schema"]["openAPIV3Schema"]["properties"];
    let (mut spec, mut status) = (Vec::new(), Vec::new());
    collect(&schema["spec"], "", &mut spec);
    collect(&schema["status"], "", &mut status);
    let example = project.sample(kind, version)?;
    let scale_note = scaled.map(|path| format!("\n`kubectl scale` writes `spec.{path}`.\n"));
    Ok(json!({
        "API": version.name,
        "VALIDATION": (project.validation)(kind, version),
        "IF_SCALED": if_scaled(version.has_scale()),
        "SPEC_DESCRIPTORS": descriptor::of_spec(&spec, scaled),
        "STATUS_DESCRIPTORS": descriptor::of_status(&status),
        "SPEC_ROWS": api_reference::rows("spec", &spec),
        "STATUS_ROWS": api_reference::rows("status", &status),
        "SCALE_NOTE": scale_note.unwrap_or_default(),
        "SAMPLE": yaml(json!({ "spec": example["spec"] }))?.trim_end(),
        "EXAMPLE": example,
    }))
}

/// A field, with its path below `spec` or `status`. Fields of list items are below `[0]`.
pub(crate) struct SchemaField<'a> {
    pub(crate) path: String,
    pub(crate) schema: &'a Value,
    pub(crate) is_required: bool,
}

/// Every field below an object, including nested fields, in the order of their paths.
pub(crate) fn collect<'a>(object: &'a Value, prefix: &str, fields: &mut Vec<SchemaField<'a>>) {
    for (name, schema) in object["properties"].as_object().into_iter().flatten() {
        let path = format!("{prefix}{name}");
        let required = object["required"].as_array().into_iter().flatten();
        fields.push(SchemaField {
            path: path.clone(),
            schema,
            is_required: required.into_iter().any(|it| it == name),
        });
        collect(schema, &format!("{path}."), fields);
        collect(&schema["items"], &format!("{path}[0]."), fields);
    }
}
