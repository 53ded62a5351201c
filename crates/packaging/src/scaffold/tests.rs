//! What is written and what is refused. `tests/cluster/new_project.rs` compiles and runs a project.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;

/// A folder that is removed afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = format!("quartet-scaffold-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(folder))
    }

    /// Runs a command; `new` in the folder `project`, `add` in its project.
    fn run(&self, project: &str, line: &str) -> Result<(), String> {
        let words = ["quartet-packaging"].into_iter().chain(line.split(' '));
        let folder = self.0.join(project);
        match Arguments::try_parse_from(words).unwrap() {
            Arguments::New(mut arguments) => {
                arguments.folder = folder;
                new(&arguments, &templates())
            }
            Arguments::Add(kind) => add(&folder, &kind, &templates()),
        }
        .map_err(|error| error.to_string())
    }

    fn files(&self) -> Files {
        let files = list(&self.0).unwrap_or_default().into_iter();
        let files = files.map(|path| (path.clone(), fs::read_to_string(path).unwrap()));
        files.collect()
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn templates() -> Files {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("templates");
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        (path.strip_prefix(&root).unwrap().to_owned(), text)
    };
    list(&root).unwrap().into_iter().map(read).collect()
}

const NEW: &str = "new . --make=false --domain=example.com --group=shop --kind=Cache";

#[test]
fn a_project_has_its_own_names_and_is_not_overwritten() {
    let folder = Folder::new("new");
    folder.run("cache-operator", NEW).unwrap();
    let files = folder.files();
    let foreign = "memcached nginxes elasticweb helloworld quartet-operator- quartet_operator quartet-operator.";
    for (path, text) in &files {
        let path = path.to_string_lossy();
        let text = format!("{path}\n{text}").to_lowercase();
        // The runbooks are those of this repository.
        let text = text.replace("repository of quartet-operator.", "");
        let foreign = foreign.split(' ').find(|name| text.contains(name));
        assert_eq!(foreign, None, "{path}");
        assert!(!path.contains(['{', '}']), "{path}");
        assert!(!text.contains("{one}") && !text.contains("{two}"), "{path}");
    }
    let refused = folder.run("cache-operator", NEW).unwrap_err();
    let nothing = "nothing was written, because ";
    assert!(refused.starts_with(nothing), "{refused}");
    let found = "/cache-operator has .cargo/config.toml, .dockerignore, ";
    assert!(refused.contains(found), "{refused}");
    let add = "add --group=shop --kind=Cache --short=other";
    let refused = folder.run("cache-operator", add).unwrap_err();
    assert!(refused.contains("the name \"cache\""), "{refused}");
    assert_eq!(folder.files(), files);
}

#[test]
fn a_kind_is_added_to_the_list_with_a_short_name_that_no_other_type_has() {
    let folder = Folder::new("add");
    folder.run("cache-operator", NEW).unwrap();
    let mut listed = vec!["cache::Cache".to_owned()];
    for (kind, short) in [
        ("Redis", "rd"),
        ("Cachet", "cch"),
        ("Queue", "q"),
        // `sc` is that of StorageClass, `scp` one of Elastic, `mc` that of MachineConfig.
        ("Scope", "sco"),
        ("Mace", "mac"),
        // The name of another kind is a part of it.
        ("CacheEntry", "cac"),
    ] {
        let add = format!("add --group=shop --kind={kind} --versions=v1beta1,v2 --plural=");
        assert_eq!(folder.run("cache-operator", &add), Ok(()));
        let name = kind.to_lowercase();
        let file = folder.text(&format!("cache-operator/src/kinds/{name}.rs"));
        assert!(file.contains(&format!("short_name: \"{short}\"")), "{file}");
        listed.push(format!("{name}::{kind}"));
        for version in ["v1beta1", "v2"] {
            let sample = format!("cache-operator/config/samples/shop_{version}_{name}.yaml");
            let first = format!("apiVersion: shop.example.com/{version}\nkind: {kind}\n");
            assert!(folder.text(&sample).starts_with(&first));
        }
    }
    let list = listed.iter().map(|entry| format!("    {entry},\n"));
    let list = format!("\nkinds! {{\n{}}}\n", list.collect::<String>());
    let kinds = folder.text("cache-operator/src/kinds/mod.rs");
    assert!(kinds.ends_with(&list), "{kinds}");
}

/// A project, what differs from [`NEW`], and a part of the reason.
const REFUSED: &str = include_str!("../../testdata/refused.txt");

#[test]
fn a_name_that_is_not_allowed_is_refused_before_anything_is_written() {
    let folder = Folder::new("refused");
    for line in REFUSED.lines() {
        let [project, option, reason] = line.split('|').map(str::trim).collect::<Vec<_>>()[..]
        else {
            panic!("{line}");
        };
        let name = option.split('=').next().filter(|it| !it.is_empty());
        let command = NEW
            .split(' ')
            .filter(|it| name.is_none_or(|name| !it.starts_with(name)));
        let command: Vec<_> = command.chain(name.map(|_| option)).collect();
        let refused = folder.run(project, &command.join(" ")).unwrap_err();
        assert!(refused.contains(reason), "{line}: {refused}");
        assert!(!folder.0.exists(), "{line}");
    }
    let refused = folder.run(".", "add --group=a --kind=Cache").unwrap_err();
    assert!(refused.contains("not the root of a project"), "{refused}");
}

/// `add` takes it, which is not its first `name`, from a manifest in any style.
#[test]
fn the_name_of_a_project_is_that_of_its_package() {
    let folder = Folder::new("name");
    folder.run("it", NEW).unwrap();
    let manifest = folder.0.join("it/Cargo.toml");
    let bin = "[[bin]]\nname = \"other\"\n";
    for (section, number) in [
        ("[package] # This one\n  name=\"mine\" # x\n", 1),
        ("[package]\nversion = \"1.0.0\"\nname = 'mine'\n", 2),
    ] {
        fs::write(&manifest, format!("{bin}{section}")).unwrap();
        let add = format!("add --group=shop --kind=Queue{number}");
        folder.run("it", &add).unwrap();
        let file = folder.text(&format!("it/src/kinds/queue{number}.rs"));
        let manager = format!("field_manager: \"mine-queue{number}\"");
        assert!(file.contains(&manager), "{file}");
    }
    let without_name = "[package]\nedition = \"2024\"\n[[bin]]\nname = \"other\"\n";
    for unnamed in [bin, without_name] {
        fs::write(&manifest, unnamed).unwrap();
        let refused = folder.run("it", "add --group=shop --kind=Topic");
        assert_eq!(refused.unwrap_err(), "Cargo.toml has no name in [package]");
        assert!(!folder.0.join("it/src/kinds/topic.rs").exists());
    }
}

#[test]
fn a_kind_with_one_version_has_one_type_and_one_sample() {
    let folder = Folder::new("one");
    folder
        .run("it", &format!("{NEW} --versions=v1beta2"))
        .unwrap();
    let file = folder.text("it/src/kinds/cache.rs");
    assert!(!file.contains("FieldMapping"), "{file}");
    let one_version = "    spoke: VERSION,\n    hub: VERSION,\n";
    assert!(file.contains(one_version), "{file}");
    assert_eq!(file.matches("pub struct CacheSpec {").count(), 1, "{file}");
    let samples = fs::read_dir(folder.0.join("it/config/samples")).unwrap();
    let samples: Vec<_> = samples.map(|it| it.unwrap().file_name()).collect();
    assert_eq!(samples, ["shop_v1beta2_cache.yaml"]);
    let sample = folder.text("it/config/samples/shop_v1beta2_cache.yaml");
    assert!(sample.contains("\n  replicas: 2\n"), "{sample}");
}

/// What the templates call something, or a field of `Kind`, is not a name in the file of a kind.
#[test]
fn a_common_word_can_be_a_kind() {
    let folder = Folder::new("words");
    folder.run("it", NEW).unwrap();
    for kind in "Project Image Group Workload Port Hub One DNSZone".split(' ') {
        let add = format!("add --group=shop --kind={kind}");
        assert_eq!(folder.run("it", &add), Ok(()));
    }
}

#[test]
fn the_crates_are_those_of_a_checkout_a_repository_or_a_version() {
    let here = fs::canonicalize(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).unwrap();
    let here = here.to_string_lossy();
    let path = format!("path = \"{here}/crates/webhook\"");
    let package = "package = \"quartet-webhook\"";
    for (source, dependency) in [
        ("", path),
        ("--source=0.1.0", format!("version = \"0.1.0\", {package}")),
        (
            "--source=https://a.b/c",
            format!("git = \"https://a.b/c\", {package}"),
        ),
    ] {
        let folder = Folder::new("source");
        folder.run("it", format!("{NEW} {source}").trim()).unwrap();
        let manifest = folder.text("it/Cargo.toml");
        let dependency = format!("quartet-webhook = {{ {dependency} }}\n");
        assert!(manifest.contains(&dependency), "{manifest}");
    }
}

#[test]
fn every_renamed_text_is_in_a_file() {
    let renamed: BTreeMap<String, String> = serde_saphyr::from_str(RENAMED).unwrap();
    let mut files = templates();
    files.retain(|path, _| path.starts_with("project"));
    let texts: String = files.into_values().collect();
    for text in renamed.keys() {
        assert!(texts.contains(text), "{text:?}");
    }
}
