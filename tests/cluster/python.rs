//! The Python client of Kubernetes: `python.py` replaces resources in their original version.

use std::path::Path;
use std::process::Command;

use crate::webhooks;

#[tokio::test]
#[ignore = "needs python3 with pip: make test-nightly"]
async fn the_python_client_replaces_in_the_original_version_and_loses_nothing() {
    let (_turn, env) = webhooks::test_env("python", &[]).await;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let line =
        "packages=$(hack/python.sh) && PYTHONPATH=$packages exec python3 tests/cluster/python.py";
    let output = Command::new("bash")
        .args(["-c", line])
        .current_dir(root)
        .envs(env.variables())
        .env("NAMESPACE", &env.namespace)
        .output()
        .expect("bash runs");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    println!("{text}");
    assert!(output.status.success(), "{text}\n{}", env.log());
}
