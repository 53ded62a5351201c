//! `hack/kind.sh`: a name that the API server, OLM, kubectl or the compiler does not take is refused
//! before anything is written, and a name that kubectl has is not derived.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use quartet_operator::packaging::kinds;
use testkit::is_original;

use crate::root;

/// A copy of what the script reads and writes, without the kinds that were added, whose names are free
/// there.
struct Checkout(PathBuf);

impl Checkout {
    fn new(name: &str) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("kind-{name}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("bin")).expect("a folder");
        let copied = Command::new("cp")
            .args([
                "--recursive",
                "--parents",
                "hack/kind.sh",
                "hack/kind",
                "src",
                "crates",
            ])
            .arg("config/samples")
            .arg(&folder)
            .current_dir(root())
            .status();
        assert!(copied.expect("cp runs").success());
        for kind in kinds().iter().filter(|kind| !is_original(kind.kind)) {
            let file = format!("src/kinds/{}.rs", kind.controller_name());
            fs::remove_file(folder.join(file)).expect("the file of a kind");
        }
        // How the files look is not tested here.
        symlink("/bin/true", folder.join("bin/rustfmt")).expect("a link");
        Self(folder)
    }

    /// Runs the script with these variables. Returns its exit code and what it says.
    fn kind(&self, variables: &[(&str, &str)]) -> (Option<i32>, String) {
        let bin = self.0.join("bin").display().to_string();
        let path = std::env::var("PATH").expect("a PATH");
        let mut script = Command::new(self.0.join("hack/kind.sh"));
        for name in ["KIND", "GROUP", "PLURAL", "SHORT", "IMAGE"] {
            script.env_remove(name);
        }
        let output = script
            .env("PATH", format!("{bin}:{path}"))
            .envs(variables.iter().copied())
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    }

    /// The checksum of every file.
    fn files(&self) -> Vec<u8> {
        let mut sums = Command::new("sh");
        sums.args(["-c", "find . -type f -exec sha256sum {} + | sort"]);
        sums.current_dir(&self.0).output().expect("sh runs").stdout
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).expect(path)
    }
}

#[test]
fn no_short_name_of_ours_is_one_of_kubernetes_openshift_or_a_common_operator() {
    let names = include_str!("../../hack/kind/names.txt");
    let names: Vec<_> = names.lines().collect();
    assert!(
        ["svc", "mc", "csv", "es"]
            .iter()
            .all(|it| names.contains(it))
    );
    for kind in kinds() {
        assert!(!names.contains(&kind.short_name), "{kind:?}");
    }
}

/// The variables of `make kind`, and a part of its error.
const REFUSED: &str = "\
GROUP=cache.example.com | KIND is a name in CamelCase, not ''
KIND=redis GROUP=cache.example.com | not 'redis'
KIND=Memcached GROUP=cache.example.com | exists already
KIND=Plan GROUP=cache.example.com | its own files need
KIND=Match GROUP=cache.example.com | a keyword of Rust
KIND=Result GROUP=cache.example.com | its own files need
KIND=Version GROUP=cache.example.com | its own files need
KIND=ReplicaSet GROUP=cache.example.com | calls something else
KIND=Event GROUP=cache.example.com | the name 'event'
KIND=Memc GROUP=cache.example.com | the name 'memc'
KIND=Redis | GROUP is a domain in lower case, not ''
KIND=Redis GROUP=cache | not 'cache'
KIND=Redis GROUP=k8s.io | for Kubernetes
KIND=Redis GROUP=a.kubernetes.io | for Kubernetes
KIND=Redis GROUP=gggggggggggggggggggggggggggggggggggggggg.example.com | at most 63 characters
KIND=Redis GROUP=cache.example.com PLURAL=re-dis | not 're-dis'
KIND=Redis GROUP=cache.example.com PLURAL=nginx | the name 'nginx'
KIND=Redis GROUP=cache.example.com PLURAL=pods | the name 'pods'
KIND=Redis GROUP=cache.example.com SHORT=R | not 'R'
KIND=Redis GROUP=cache.example.com SHORT=mc | the name 'mc'
KIND=Redis GROUP=cache.example.com SHORT=nginxes | the name 'nginxes'
KIND=Redis GROUP=cache.example.com SHORT=svc | the name 'svc'
KIND=Redis GROUP=cache.example.com IMAGE=redis | unlike 'redis'";

#[test]
fn a_name_that_is_not_allowed_is_refused_before_anything_is_written() {
    let checkout = Checkout::new("refused");
    let before = checkout.files();
    for line in REFUSED.lines() {
        let (variables, reason) = line.split_once(" | ").expect("a reason");
        let variables = variables.split(' ').filter_map(|it| it.split_once('='));
        let variables: Vec<_> = variables.collect();
        let (code, said) = checkout.kind(&variables);
        assert_eq!(code, Some(64), "{variables:?}: {said}");
        assert!(said.starts_with("kind: "), "{variables:?}: {said}");
        assert!(said.contains(reason), "{variables:?}: {said}");
        assert!(checkout.files() == before, "{variables:?}: files changed");
    }
}

#[test]
fn a_kind_has_a_short_name_that_no_other_type_has_and_may_have_any_common_name() {
    let checkout = Checkout::new("accepted");
    for (kind, short) in [
        ("Redis", "rd"),
        ("Cache", "cc"),
        ("Queue", "q"),
        // `sc` is that of StorageClass, `scp` one of Elastic, `mc` that of MachineConfig.
        ("Scope", "sco"),
        ("Mace", "mac"),
        // The name of another kind is a part of it.
        ("NginxIngress", "ng"),
    ] {
        let (code, said) = checkout.kind(&[("KIND", kind), ("GROUP", "shop.example.com")]);
        assert_eq!(code, Some(0), "{kind}: {said}");
        let name = kind.to_lowercase();
        let file = checkout.text(&format!("src/kinds/{name}.rs"));
        assert!(file.contains(&format!("short_name: \"{short}\"")), "{file}");
        let line = format!("    {name}::{kind},\n");
        assert!(checkout.text("src/kinds/mod.rs").contains(&line), "{line}");
        for version in ["v1alpha1", "v1"] {
            let sample = checkout.text(&format!("config/samples/shop_{version}_{name}.yaml"));
            assert!(sample.contains(&format!("kind: {kind}\n")), "{sample}");
        }
    }
}
