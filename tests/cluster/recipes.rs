//! What users and other programs do with kubectl: each file of `recipes` is a script, and its comment says
//! what is right. docs/testing.md lists them.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use testkit::{bash_line, load_factor};
use tokio::task::spawn_blocking;

use crate::webhooks;

/// Below the root. bash looks for a name without a slash in PATH.
const RECIPES: &str = "tests/cluster/recipes";

/// The most time for one on an idle machine: twice what the longest takes.
const LIMIT: Duration = Duration::from_secs(240);

/// Most recipes wait most of their time.
const AT_A_TIME: usize = 3;

#[tokio::test]
async fn every_recipe_ends_as_its_comment_says() {
    let (_turn, mut env) = webhooks::test_env("recipes", &[]).await;
    let metrics = env.manager().address_of("metrics").await;
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = silent.local_addr().expect("an address").to_string();
    let variables = [
        ("NAMESPACE", env.namespace.clone()),
        ("METRICS", format!("http://{metrics}/metrics")),
        ("SILENT", silent),
    ];
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let listed = fs::read_to_string(root.join("docs/testing.md")).expect("a document");
    let mut recipes = Vec::new();
    for file in fs::read_dir(root.join(RECIPES)).expect("the recipes") {
        let name = file.expect("a file").file_name();
        let name = name.to_str().expect("UTF-8").to_owned();
        if let Some(recipe) = name.strip_suffix(".sh") {
            let named = format!("`{recipe}`");
            assert!(listed.contains(&named), "{recipe} is not listed");
            recipes.push(name);
        }
    }
    let run = |name: String| {
        let line = format!(". {RECIPES}/functions.bash; set -x; . {RECIPES}/{name}");
        let mut command = Command::new("setpriv");
        command
            .args(bash_line(LIMIT.mul_f64(load_factor()), &line))
            .current_dir(root)
            .envs(env.variables())
            .envs(variables.clone());
        async move {
            let began = Instant::now();
            let output = spawn_blocking(move || command.output()).await;
            let output = output.expect("no panic").expect("bash runs");
            println!("{name}: {} after {:.0?}", output.status, began.elapsed());
            let text = [output.stdout, output.stderr].concat();
            (!output.status.success())
                .then(|| format!("{name}:\n{}", String::from_utf8_lossy(&text)))
        }
    };
    let failed = stream::iter(recipes).map(run).buffer_unordered(AT_A_TIME);
    let failed: Vec<String> = failed.filter_map(async |failed| failed).collect().await;
    let failed = failed.join("\n");
    assert!(failed.is_empty(), "{failed}\nmanager:\n{}", env.log());
}
