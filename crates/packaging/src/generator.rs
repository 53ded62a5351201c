//! Every generated file: where it is, and from which templates and fields.

use std::path::Path;

use serde_json::{Value, json};

use crate::crd::both_versions;
use crate::image::image_parts;
use crate::merge::merge;
use crate::template::{Fields, document, fill_text, with};
use crate::{Error, Files, Project, Release, fields};

/// The directories below `config` that `config/default` includes, in the order of apply: the API
/// server sends reviews to the webhooks as soon as they are registered.
const INSTALLED: [&str; 5] = ["crd", "rbac", "rbac-self-managed", "manager", "webhook"];
const NAMESPACE: &str = "manager/namespace.yaml";
/// The files of `config` that the templates of the chart read, with the same paths below `files`.
const IN_CHART: [&str; 8] = [
    "rbac/role.yaml",
    "rbac/leader_election_role.yaml",
    "rbac/metrics_auth_role.yaml",
    "rbac/metrics_reader_role.yaml",
    "rbac-self-managed/webhook_registration_role.yaml",
    "rbac-self-managed/webhook_certificate_role.yaml",
    "webhook/manifests.yaml",
    "prometheus/rules.yaml",
];
/// The objects of the bundle that are files of `config`.
const IN_BUNDLE: [&str; 3] = [
    "manager/metrics_service.yaml",
    "manager/disruption_budget.yaml",
    "rbac/metrics_reader_role.yaml",
];

/// Generates the files of one release. They are returned, not written.
#[derive(Debug)]
pub struct Generator<'a> {
    pub(crate) project: &'a Project,
    pub(crate) fields: Fields,
    config: Files,
}

impl<'a> Generator<'a> {
    /// Reads the project's files.
    ///
    /// # Errors
    /// As [`Self::files`].
    pub fn new(project: &'a Project, release: &Release) -> Result<Self, Error> {
        let fields = fields::all(project, release)?;
        let config = config(project, &fields)?;
        Ok(Self {
            project,
            fields,
            config,
        })
    }

    /// Every committed file, with its path in the repository.
    ///
    /// # Errors
    /// A file of the repository cannot be read, or is not YAML.
    pub fn files(&self) -> Result<Files, Error> {
        let mut files = below("config", self.config.clone());
        files.extend(below("dist", self.installer()?));
        files.extend(below("dist/chart", self.chart()?));
        files.extend(self.bundle("bundle")?);
        files.extend(self.catalog("catalog")?);
        files.insert("docs/api.md".into(), self.api_reference()?);
        Ok(files)
    }

    /// The elements of a field.
    pub(crate) fn list(&self, field: &str) -> impl Iterator<Item = &Value> {
        self.fields[field].as_array().into_iter().flatten()
    }

    /// The text of a field.
    fn text(&self, field: &str) -> &str {
        self.fields[field].as_str().unwrap_or_default()
    }

    /// The file with the object of a template.
    fn file(&self, template: &str) -> Result<String, Error> {
        self.project.filled_file(template, &self.fields)
    }

    /// The text of a file of `config`, generated or not.
    fn config_text(&self, path: &str) -> Result<String, Error> {
        match self.config.get(Path::new(path)) {
            Some(text) => Ok(text.clone()),
            None => self.project.text(&format!("config/{path}")),
        }
    }

    fn config_object(&self, path: &str) -> Result<Value, Error> {
        serde_saphyr::from_str(&self.config_text(path)?).map_err(Error::of(path))
    }

    /// `install.yaml`, which has the objects of `config/default`, and the list of images for a mirror,
    /// including bundle and catalog.
    ///
    /// # Errors
    /// As [`Self::files`].
    pub fn installer(&self) -> Result<Files, Error> {
        let mut text = self.project.filled_text("install.txt", &self.fields)?;
        text.push_str(&self.config_text(NAMESPACE)?);
        for part in INSTALLED {
            let list = self.config_object(&format!("{part}/kustomization.yaml"))?;
            let listed = list["resources"].as_array().into_iter().flatten();
            for file in listed.filter_map(Value::as_str) {
                text += &match format!("{part}/{file}").as_str() {
                    NAMESPACE => continue,
                    "manager/manager.yaml" => document(self.self_managed()?)?,
                    path if path.ends_with(".yaml") => self.config_text(path)?,
                    _ => continue,
                };
            }
        }
        let images = self.text("IMAGE_LIST").to_owned();
        Ok([("install.yaml".into(), text), ("images.txt".into(), images)].into())
    }

    /// The Deployment of a manager that generates its own webhook certificate.
    fn self_managed(&self) -> Result<Value, Error> {
        let patch = "config/default/manager_certificates_patch.yaml";
        let mut deployment = self.fields["DEPLOYMENT"].clone();
        merge(&mut deployment, self.project.object(patch)?);
        Ok(deployment)
    }

    /// The Helm chart. Its templates read CRDs, rules, webhooks and alerts below `files`.
    ///
    /// # Errors
    /// As [`Self::files`].
    pub fn chart(&self) -> Result<Files, Error> {
        let (repository, tag, digest) = image_parts(self.text("IMAGE"));
        // Without a tag, that of the chart's version.
        let is_usual = tag.strip_prefix('v') == Some(self.text("VERSION"));
        let operands = self.list("OPERANDS");
        let names = operands.filter_map(|it| it["OPERAND"].as_str());
        let line = |operand| {
            let line = "  $OPERAND$: $IMAGE$".to_owned();
            fill_text(line, &with(&self.fields, operand))
        };
        let mut lines: Vec<_> = self.list("OPERANDS").map(line).collect();
        lines.sort();
        let fields = json!({
            "OPERAND_NAMES": names.collect::<Vec<_>>().join("|"),
            "OPERAND_IMAGES": lines.join("\n"),
            "IMAGE_REPOSITORY": repository,
            "IMAGE_TAG": if is_usual { "" } else { tag },
            "IMAGE_DIGEST": digest,
        });
        let fields = with(&self.fields, &fields);
        let fill = |template: &str| self.project.filled_text(template, &fields);
        let mut files = self.project.filled_folder("chart", fill)?;
        for path in IN_CHART {
            files.insert(format!("files/{path}").into(), self.config_text(path)?);
        }
        for (path, text) in &self.config {
            let folder = if path.starts_with("crd/bases") {
                "files/crd"
            } else if is_user_role(path, text) {
                "files/user-roles"
            } else {
                continue;
            };
            let path = Path::new(folder).join(path.file_name().unwrap_or_default());
            files.insert(path, text.clone());
        }
        Ok(files)
    }

    /// The bundle in `folder`, and the Dockerfile of its image next to it: one document per file, with
    /// operator-sdk's file names. Not included are objects that OLM creates itself (webhook Service
    /// and configuration, ServiceAccounts), objects whose CRDs a cluster may lack (ServiceMonitor,
    /// PrometheusRule), and the NetworkPolicies, which the community catalog rejects.
    ///
    /// # Errors
    /// As [`Self::files`].
    pub fn bundle(&self, folder: &str) -> Result<Files, Error> {
        let fill = |template: &str| self.file(template);
        let mut files = self.project.filled_folder("bundle", fill)?;
        for (path, text) in &self.config {
            if path.starts_with("crd/bases") {
                let path = Path::new("manifests").join(path.file_name().unwrap_or_default());
                files.insert(path, text.clone());
            }
        }
        let config = self.config.iter();
        let roles = config.filter(|(path, text)| is_user_role(path, text));
        let roles = roles.filter_map(|(path, _)| path.to_str());
        for path in IN_BUNDLE.into_iter().chain(roles) {
            let mut object = self.config_object(path)?;
            // OLM sets the namespace.
            object["metadata"]["namespace"] = Value::Null;
            let text = |value: &Value| value.as_str().unwrap_or_default().replace('/', "_");
            let name = text(&object["metadata"]["name"]);
            let [version, kind] = ["apiVersion", "kind"].map(|field| text(&object[field]));
            let path = format!("manifests/{name}_{version}_{}.yaml", kind.to_lowercase());
            files.insert(path.into(), document(object)?);
        }
        self.with_dockerfile("bundle.Dockerfile", folder, files)
    }

    /// The file-based catalog in `folder`, and the Dockerfile of its image next to it: the package, its
    /// channels with the upgrade edges, and the bundle of this version, equal to the output of `opm
    /// render` for the directory of the bundle. The bundles of earlier versions are separate files,
    /// which do not change.
    ///
    /// # Errors
    /// As [`Self::files`].
    pub fn catalog(&self, folder: &str) -> Result<Files, Error> {
        let csv = self.csv()?;
        let related = csv["spec"]["relatedImages"].as_array();
        let mut images = related.cloned().unwrap_or_default();
        images.push(json!({ "image": self.text("BUNDLE_IMAGE"), "name": "" }));
        // As in opm; equal images keep the order of the ClusterServiceVersion.
        images.sort_by_key(|it| it["image"].as_str().map(ToOwned::to_owned));
        let more = json!({
            "annotations": csv["metadata"]["annotations"],
            "labels": csv["metadata"]["labels"],
            "CATALOG_SUMMARY": csv["metadata"]["annotations"]["description"],
            "CATALOG_ICON": csv["spec"]["icon"][0],
            "CATALOG_IMAGES": images,
        });
        let fields = with(&with(&self.fields, &csv["spec"]), &more);
        let fill = |template: &str, fields: &Fields| self.project.filled_file(template, fields);
        let mut files = Files::new();
        let package = fill("catalog/package.yaml", &fields)?;
        files.insert("package.yaml".into(), package);
        let name = format!("{}.yaml", self.text("CSV_NAME"));
        files.insert(name.into(), fill("catalog/bundle.yaml", &fields)?);
        for channel in self.list("CHANNELS") {
            let name = channel.as_str().unwrap_or_default();
            let fields = with(&fields, &json!({ "CHANNEL": channel }));
            let text = fill("catalog/channel.yaml", &fields)?;
            files.insert(format!("channel-{name}.yaml").into(), text);
        }
        let files = below(self.project.name, files);
        self.with_dockerfile("catalog.Dockerfile", folder, files)
    }

    /// The ClusterServiceVersion. It follows the rules of `operator-sdk bundle validate`
    /// (operator-framework/api, pkg/validation) and of the community catalog's pipeline.
    ///
    /// # Errors
    /// As [`Self::files`].
    pub fn csv(&self) -> Result<Value, Error> {
        let name = self.project.name;
        let template = format!("bundle/manifests/{name}.clusterserviceversion.yaml");
        self.project.filled_object(&template, &self.fields)
    }

    /// `files` in `folder`. The parent of the folder is the build context.
    fn with_dockerfile(&self, template: &str, folder: &str, files: Files) -> Result<Files, Error> {
        let folder = Path::new(folder);
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let fields = with(&self.fields, &json!({ "FOLDER": name }));
        let mut files = below(folder, files);
        let path = folder.with_file_name(format!("{name}.Dockerfile"));
        files.insert(path, self.project.filled_text(template, &fields)?);
        Ok(files)
    }

    /// The directory for a pull request to the community catalogs
    /// (k8s-operatorhub/community-operators, docs/contributing-fbc.md), below the root of a clone: the
    /// bundle, and the files that make the pipeline there add the version to the file-based catalog.
    /// Template and catalog are not included, since they name the image of the bundle that the pipeline
    /// builds (operator-pipelines, add_bundle_to_fbc.py).
    ///
    /// # Errors
    /// As [`Self::files`].
    pub fn community(&self) -> Result<Files, Error> {
        let folder = Path::new("operators").join(self.project.name);
        let version = folder.join(self.text("VERSION"));
        let mut files = self.bundle(&version.to_string_lossy())?;
        files.retain(|path, _| path.starts_with(&version));
        let ci = self
            .project
            .filled_text("community/ci.yaml", &self.fields)?;
        files.insert(folder.join("ci.yaml"), ci);
        let config = self.file("community/release-config.yaml")?;
        files.insert(version.join("release-config.yaml"), config);
        Ok(files)
    }
}

/// Reports whether a file of `config` is a role that is added to a built-in role.
fn is_user_role(path: &Path, text: &str) -> bool {
    path.starts_with("rbac") && text.contains("rbac.authorization.k8s.io/aggregate-to-")
}

/// The generated files of `config`.
fn config(project: &Project, fields: &Fields) -> Result<Files, Error> {
    let fill = |template: &str| project.filled_file(template, fields);
    let mut files = project.filled_folder("config", fill)?;
    for kind in project.operators.iter().map(|operator| operator.kind) {
        let file = format!("{}_{}.yaml", kind.group, kind.plural);
        let both = |stored| both_versions(kind, stored, project.conversion.clone());
        for (folder, crd) in [
            ("crd/bases", both(&kind.hub)),
            ("crd-transition", both(&kind.spoke)),
            ("crd-original", kind.crd(&kind.spoke)),
        ] {
            files.insert(Path::new(folder).join(&file), document(json!(crd))?);
        }
    }
    for kind in fields["KINDS"].as_array().into_iter().flatten() {
        let name = kind["CONTROLLER"].as_str().unwrap_or_default();
        for person in ["admin", "editor", "viewer"] {
            let fields = with(fields, kind);
            let role = project.filled_file(&format!("roles/{person}.yaml"), &fields)?;
            files.insert(format!("rbac/{name}_{person}_role.yaml").into(), role);
        }
    }
    Ok(files)
}

/// `files` in `folder`.
fn below(folder: impl AsRef<Path>, files: Files) -> Files {
    let files = files.into_iter();
    files
        .map(|(path, text)| (folder.as_ref().join(path), text))
        .collect::<Files>()
}
