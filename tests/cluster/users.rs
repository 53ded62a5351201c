//! Commands that a user types, and what kubectl prints.

use serde_json::{Value, json};

use crate::changes;
use testkit::{DEPLOYMENT, ELASTIC_WEB, HELLO_WORLD, MEMCACHED, NGINX, TestEnv};

fn succeeds(env: &TestEnv, arguments: &[&str]) -> String {
    let output = env.kubectl(arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{arguments:?}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

fn refused(env: &TestEnv, arguments: &[&str]) -> String {
    let output = env.kubectl(arguments);
    assert!(!output.status.success(), "{arguments:?} was accepted");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn sample(name: &str) -> String {
    format!("{}/config/samples/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[tokio::test]
async fn the_commands_of_the_original_tutorials_work() {
    let env = TestEnv::start("users").await;
    succeeds(
        &env,
        &["apply", "-f", &sample("cache_v1alpha1_memcached.yaml")],
    );
    succeeds(&env, &["apply", "-f", &sample("proxy_v1alpha1_nginx.yaml")]);
    succeeds(
        &env,
        &[
            "wait",
            "--for=condition=Ready",
            "--timeout=300s",
            "memcached/memcached-sample",
        ],
    );
    let table = succeeds(&env, &["get", "memcached"]);
    let header: Vec<_> = table
        .lines()
        .next()
        .expect("a header")
        .split_whitespace()
        .collect();
    assert_eq!(header, ["NAME", "DESIRED", "READY", "AVAILABLE", "AGE"]);
    let row: Vec<_> = table
        .lines()
        .nth(1)
        .expect("a row")
        .split_whitespace()
        .take(4)
        .collect();
    assert_eq!(row, ["memcached-sample", "3", "3", "True"]);
    let yaml = succeeds(&env, &["get", "nginx/nginx-sample", "-o", "yaml"]);
    assert!(yaml.contains("count: 3"), "{yaml}");
    succeeds(
        &env,
        &["scale", "memcached", "memcached-sample", "--replicas=5"],
    );
    env.until(DEPLOYMENT, "memcached-sample", "has five pods", |child| {
        child["status"]["readyReplicas"] == 5
    })
    .await;
    let quartet = succeeds(&env, &["get", "quartet"]);
    assert!(
        quartet.contains("memcached-sample") && quartet.contains("nginx-sample"),
        "{quartet}"
    );
    assert!(succeeds(&env, &["get", "memc,ngx,ew,hw"]).contains("nginx-sample"));
    assert!(succeeds(&env, &["get", "deploy", "memcached-sample"]).contains("5/5"));
    succeeds(
        &env,
        &["delete", "-f", &sample("cache_v1alpha1_memcached.yaml")],
    );
    env.until_gone(DEPLOYMENT, "memcached-sample").await;
}

#[tokio::test]
async fn elasticweb_shows_its_image_and_with_wide_its_port() {
    let env = TestEnv::start("wide").await;
    succeeds(
        &env,
        &["apply", "-f", &sample("elasticweb_v1_elasticweb.yaml")],
    );
    succeeds(
        &env,
        &[
            "wait",
            "--for=condition=Ready",
            "--timeout=300s",
            "ElasticWeb/elasticweb-sample",
        ],
    );
    let header = |text: String| text.lines().next().unwrap_or_default().to_owned();
    let narrow = header(succeeds(&env, &["get", "ElasticWeb"]));
    assert_eq!(
        narrow.split_whitespace().collect::<Vec<_>>(),
        ["NAME", "IMAGE", "AGE"]
    );
    let wide = succeeds(&env, &["get", "ElasticWeb", "-o", "wide"]);
    assert!(
        header(wide.clone()).contains("PORT") && wide.contains("30003"),
        "{wide}"
    );
    let service = succeeds(&env, &["get", "service", "elasticweb-sample"]);
    assert!(service.contains("8080:30003/TCP"), "{service}");
}

#[tokio::test]
async fn an_invalid_value_is_rejected_with_a_message_that_names_the_field() {
    let env = TestEnv::without_manager("wrong").await;
    for (what, spec) in [
        ("negative", json!({"size": -1})),
        ("a string", json!({"size": "three"})),
        ("missing", json!({})),
    ] {
        let file = std::env::temp_dir().join(format!("{}-wrong.json", env.namespace));
        std::fs::write(&file, MEMCACHED.object("wrong", spec).to_string()).expect("written");
        let message = refused(&env, &["apply", "-f", file.to_str().expect("a path")]);
        println!("{what}: {message}");
        assert!(message.contains("spec.size"), "{what}: {message}");
        let _ = std::fs::remove_file(file);
    }
    assert!(env.get(MEMCACHED, "wrong").await.is_none());
}

/// Collects path and description of every field below a schema.
fn fields(schema: &Value, path: &str, found: &mut Vec<(String, String)>) {
    let of_items = schema
        .get("items")
        .or_else(|| schema.get("additionalProperties"));
    if let Some(items) = of_items {
        fields(items, path, found);
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        // A field with a type of the API server itself is explained there.
        let description = field["description"].as_str().unwrap_or_default();
        found.push((path.clone(), description.to_owned()));
        fields(field, &path, found);
    }
}

#[tokio::test]
async fn kubectl_explain_describes_every_field() {
    let env = TestEnv::without_manager("explain-all").await;
    for kind in [MEMCACHED, NGINX, ELASTIC_WEB, HELLO_WORLD] {
        // The source of `kubectl explain`.
        let path = format!("/openapi/v3/apis/{}", kind.api_version);
        let document = env.api.get(&path).await.expect("OpenAPI");
        let schemas = document["components"]["schemas"]
            .as_object()
            .expect("schemas");
        let suffix = format!(".{}", kind.kind);
        let (_, schema) = schemas
            .iter()
            .find(|(name, _)| name.ends_with(&suffix))
            .expect("ours");
        let mut found = Vec::new();
        fields(schema, kind.plural, &mut found);
        assert!(found.len() > 15, "{found:?}");
        println!("{}: {} fields", kind.kind, found.len());
        for (path, description) in &found {
            let is_standard = path == &format!("{}.metadata", kind.plural);
            assert!(
                is_standard || description.len() > 20,
                "{path}: {description:?}"
            );
        }
        let text = succeeds(&env, &["explain", "--recursive", kind.plural]);
        for (path, _) in &found {
            let name = path.rsplit('.').next().expect("a name");
            let shown = text
                .lines()
                .any(|line| line.split_whitespace().next() == Some(name));
            assert!(shown, "{path} is not in\n{text}");
        }
    }
}

#[tokio::test]
async fn a_paused_resource_is_left_alone_until_it_is_resumed() {
    let env = TestEnv::start("paused").await;
    changes::apply_ready(&env, NGINX, "web", json!({"count": 1})).await;
    let paused = "quartet-operator.example.com/paused";
    succeeds(
        &env,
        &["annotate", "nginx", "web", &format!("{paused}=true")],
    );
    changes::scale(&env, NGINX, "web", 3).await;
    env.until(NGINX, "web", "is reported as paused", |resource| {
        let conditions = resource["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        conditions
            .iter()
            .any(|condition| condition["reason"] == "Paused")
    })
    .await;
    let deployment = env.get(DEPLOYMENT, "web").await.expect("the child");
    assert_eq!(deployment["spec"]["replicas"], 1);
    succeeds(&env, &["annotate", "nginx", "web", &format!("{paused}-")]);
    env.until(DEPLOYMENT, "web", "follows again", |child| {
        child["status"]["readyReplicas"] == 3
    })
    .await;
}
