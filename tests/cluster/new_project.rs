//! A project that `quartet-packaging new` writes in an empty folder: its code compiles, its bundle is valid, and its
//! operator serves both versions.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use testkit::{DEADLINE, Kind, Limit, Manager, TestEnv, bash_line};

const CACHE: Kind = Kind {
    api_version: "cache.example.org/v1alpha1",
    kind: "Cache",
    plural: "caches",
};
const NEW: &str = "quartet-packaging new cache-operator --domain example.org --group cache --kind Cache \
                   --versions v1alpha1,v1";
/// Several times what a build takes on a busy machine.
const BUILD: Duration = Duration::from_secs(900);

#[tokio::test]
async fn a_new_project_compiles_and_its_operator_serves_both_versions() {
    let env = TestEnv::without_manager("project").await;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("new-project");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    let devcluster = Path::new(env!("CARGO_BIN_EXE_manager")).with_file_name("devcluster");
    let programs = devcluster.parent().expect("a folder").display();
    let run = |line: &str| {
        // The dependencies are compiled once for both; what belongs to the project is in its folder.
        let line = format!(
            "unset ${{!CARGO_@}} MAKEFLAGS MAKELEVEL; export PATH={programs}:$PATH CARGO_BUILD_BUILD_DIR={programs}/..; {line}"
        );
        let mut bash = Command::new("setpriv");
        bash.args(bash_line(BUILD, &line)).envs(env.variables());
        bash.current_dir(&folder)
            .status()
            .expect("bash runs")
            .success()
    };
    let must = |line: &str| assert!(run(line), "{line}");
    must(NEW);
    assert!(!run(NEW), "it overwrites");
    let validate = concat!(env!("CARGO_MANIFEST_DIR"), "/hack/bundle-validate.sh");
    must(&format!(
        "cd cache-operator && {validate} $PWD/bundle $PWD/catalog"
    ));
    must(
        "for overlay in default certmanager prometheus; do kubectl kustomize cache-operator/config/$overlay || exit; done",
    );
    must("cd cache-operator && make install && cargo build --locked --bin manager");

    let port = devcluster::free_port().expect("a port");
    let flags = format!(
        "--enable-webhooks=true --webhook-port={port} --watch-namespace={}",
        env.namespace
    );
    let flags: Vec<_> = flags.split(' ').map(str::to_owned).collect();
    let manager = Manager::command(env.kubeconfig(), &flags, &[]);
    let mut command = Command::new(&devcluster);
    command
        .args(["webhooks", "--root=cache-operator", "--url"])
        .arg(format!("https://127.0.0.1:{port}"))
        .args(["--", "cache-operator/target/debug/manager"])
        .args(manager.get_args())
        .envs(env.variables())
        .current_dir(&folder);
    let manager = Manager::spawn(command);
    let mut limit = Limit::new(DEADLINE);
    let sample = CACHE.object("sample", json!({"size": 2}));
    while env.apply(&sample).await.is_err() {
        limit
            .pause(|| format!("no webhooks: {}", manager.log()))
            .await;
    }
    env.until_ready(CACHE, "sample").await;
    let stored = env.path(CACHE, "sample").replace("v1alpha1", "v1");
    let stored = env.api.get(&stored).await.expect("the other version");
    assert_eq!(stored["spec"], json!({"replicas": 2}));
    let many = CACHE.object("sample", json!({"size": 2000}));
    let refused = env.apply(&many).await.expect_err("too many pods").message;
    assert!(refused.contains("spec.size: Invalid value: 2000"));

    env.delete(CACHE, "sample").await;
    env.until_gone(CACHE, "sample").await;
    manager.stop();
    must("make -C cache-operator uninstall");
}
