//! Commands that a user types, and what kubectl prints.

use testkit::{DEPLOYMENT, TestEnv};

/// Runs kubectl as it is typed, with files of `config/samples`; returns what it prints.
fn kubectl(env: &TestEnv, line: &str) -> String {
    let samples = concat!("-f ", env!("CARGO_MANIFEST_DIR"), "/config/samples/");
    let line = line.replace("-f ", samples);
    let output = env.kubectl(&line.split(' ').collect::<Vec<_>>());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {text}{error}");
    text
}

/// Returns the first words of a line of a table.
fn words(table: &str, line: usize, count: usize) -> Vec<&str> {
    let line = table.lines().nth(line).expect("a line");
    line.split_whitespace().take(count).collect()
}

#[tokio::test]
async fn the_commands_of_the_original_tutorials_work() {
    let env = TestEnv::start("users").await;
    kubectl(&env, "apply -f cache_v1alpha1_memcached.yaml");
    kubectl(&env, "apply -f proxy_v1alpha1_nginx.yaml");
    let wait = "wait --for=condition=Ready --timeout=300s";
    kubectl(&env, &format!("{wait} memcached/memcached-sample"));
    let table = kubectl(&env, "get memcached");
    let header = ["NAME", "DESIRED", "READY", "AVAILABLE", "AGE"];
    assert_eq!(words(&table, 0, 6), header);
    let row = ["memcached-sample", "3", "3", "True"];
    assert_eq!(words(&table, 1, 4), row);
    let yaml = kubectl(&env, "get nginx/nginx-sample -o yaml");
    assert!(yaml.contains("count: 3"), "{yaml}");
    kubectl(&env, "scale memcached memcached-sample --replicas=5");
    env.until(DEPLOYMENT, "memcached-sample", "has five pods", |child| {
        child["status"]["readyReplicas"] == 5
    })
    .await;
    let quartet = kubectl(&env, "get quartet");
    let has_both = quartet.contains("memcached-sample") && quartet.contains("nginx-sample");
    assert!(has_both, "{quartet}");
    assert!(kubectl(&env, "get memc,ngx,ew,hw").contains("nginx-sample"));
    assert!(kubectl(&env, "get deploy memcached-sample").contains("5/5"));
    kubectl(&env, "delete -f cache_v1alpha1_memcached.yaml");
    env.until_gone(DEPLOYMENT, "memcached-sample").await;
}

#[tokio::test]
async fn elasticweb_shows_its_image_and_with_wide_its_port() {
    let env = TestEnv::start("wide").await;
    kubectl(&env, "apply -f elasticweb_v1_elasticweb.yaml");
    let wait = "wait --for=condition=Ready --timeout=300s";
    kubectl(&env, &format!("{wait} ElasticWeb/elasticweb-sample"));
    let narrow = kubectl(&env, "get ElasticWeb");
    assert_eq!(words(&narrow, 0, 4), ["NAME", "IMAGE", "AGE"]);
    let wide = kubectl(&env, "get ElasticWeb -o wide");
    let has_port = words(&wide, 0, 9).contains(&"PORT") && wide.contains("30003");
    assert!(has_port, "{wide}");
    let service = kubectl(&env, "get service elasticweb-sample");
    assert!(service.contains("8080:30003/TCP"), "{service}");
}
