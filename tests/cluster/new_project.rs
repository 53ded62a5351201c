//! A project that `quartet-packaging new` writes in an empty folder: its code compiles, its bundle is valid, and its
//! operator serves both versions.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use testkit::{DEADLINE, DEPLOYMENT, Kind, Limit, Manager, TestEnv, bash_line};

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
    let built = Path::new(env!("CARGO_BIN_EXE_manager"));
    let programs = built.parent().expect("a folder").display();
    let checkout = env!("CARGO_MANIFEST_DIR");
    let run = |line: &str| {
        // The dependencies are compiled once for both; what belongs to the project is in its folder.
        let line = format!(
            "unset ${{!CARGO_@}} MAKEFLAGS MAKELEVEL; export PATH={programs}:$PATH CARGO_BUILD_BUILD_DIR={programs}/..; {line}"
        );
        let mut bash = Command::new("setpriv");
        bash.args(bash_line(BUILD, &line)).envs(env.variables());
        let output = bash.current_dir(&folder).output().expect("bash runs");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        println!("$ {line}\n{said}");
        (output.status.success(), said)
    };
    let must = |line: &str| assert!(run(line).0, "{line}");
    must(NEW);
    assert!(!run(NEW).0, "it overwrites");
    must(&format!(
        "{checkout}/hack/bundle-validate.sh $PWD/cache-operator/bundle $PWD/cache-operator/catalog"
    ));
    for overlay in ["default", "certmanager", "network-policy", "prometheus"] {
        must(&format!(
            "kubectl kustomize cache-operator/config/{overlay} >{overlay}.yaml"
        ));
    }
    must("cd cache-operator && make install && cargo build --locked --bin manager");

    let port = devcluster::free_port().expect("a port");
    let flags = [
        format!("--watch-namespace={}", env.namespace),
        format!("--webhook-port={port}"),
        "--enable-webhooks=true".to_owned(),
    ];
    let manager = Manager::command(env.kubeconfig(), &flags, &[]);
    let mut command = Command::new(built.with_file_name("devcluster"));
    let url = format!("https://127.0.0.1:{port}");
    command.args(["webhooks", "--url", &url, "--root=cache-operator", "--"]);
    command
        .arg("cache-operator/target/debug/manager")
        .args(manager.get_args());
    command.envs(env.variables()).current_dir(&folder);
    let manager = Manager::spawn(command);
    let mut limit = Limit::new(DEADLINE);
    let sample = CACHE.object("sample", json!({"size": 2}));
    while env.apply(&sample).await.is_err() {
        limit
            .pause(|| format!("no webhooks: {}", manager.log()))
            .await;
    }
    env.until_ready(CACHE, "sample").await;
    let stored = Kind {
        api_version: "cache.example.org/v1",
        ..CACHE
    };
    let stored = env.get(stored, "sample").await.expect("the other version");
    assert_eq!(stored["spec"], json!({"replicas": 2}));
    let child = env.get(DEPLOYMENT, "sample").await.expect("a Deployment");
    assert_eq!(
        child["metadata"]["labels"]["app.kubernetes.io/managed-by"],
        "cache-operator"
    );
    let refused = env
        .apply(&CACHE.object("sample", json!({"size": 2000})))
        .await;
    let refused = refused.expect_err("too many pods").message;
    assert!(
        refused.contains("spec.size: Invalid value: 2000"),
        "{refused}"
    );

    env.delete(CACHE, "sample").await;
    env.until_gone(CACHE, "sample").await;
    manager.stop();
    must("make -C cache-operator uninstall");
}
