//! Commands that a user types, and what kubectl prints.

use testkit::{DEPLOYMENT, TestEnv};

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
