use super::*;

fn deploy(cluster: &Cluster, replicas: i64) -> i64 {
    let table = cluster.table(DEPLOYMENTS).unwrap();
    let Ok(body) = table.write("ns/a", |live| {
        let mut object = live.unwrap_or_else(|| json!({"metadata": {}}));
        object["spec"] = json!({"replicas": replicas, "template": {
            "metadata": {"labels": {}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
        }});
        Ok::<_, Infallible>(object)
    });
    let object: Value = serde_json::from_slice(&body).unwrap();
    object["metadata"]["generation"].as_i64().unwrap()
}

fn writes(cluster: &Cluster, plural: &str) -> Vec<&'static str> {
    let events = cluster.table(plural).unwrap().events(0, 100).unwrap();
    events.iter().map(|it| it.change).collect()
}

#[tokio::test]
async fn a_rollout_has_the_writes_of_a_real_one_and_ends_available() {
    let cluster = Cluster::new();
    let generation = deploy(&cluster, 1);
    cluster
        .clone()
        .roll_out("ns/a".to_owned(), generation)
        .await;
    assert_eq!(writes(&cluster, DEPLOYMENTS).len(), 1 + 3);
    assert_eq!(
        writes(&cluster, PODS),
        ["ADDED", "MODIFIED", "MODIFIED", "MODIFIED"]
    );
    let status = cluster.deployment("ns/a").unwrap()["status"].clone();
    assert_eq!(
        (&status["readyReplicas"], &status["observedGeneration"]),
        (&1.into(), &1.into())
    );

    let generation = deploy(&cluster, 2);
    cluster
        .clone()
        .roll_out("ns/a".to_owned(), generation)
        .await;
    assert_eq!(writes(&cluster, PODS).len(), 8, "one pod more");
    assert_eq!(
        cluster.deployment("ns/a").unwrap()["status"]["readyReplicas"],
        2
    );

    let generation = deploy(&cluster, 1);
    cluster
        .clone()
        .roll_out("ns/a".to_owned(), generation)
        .await;
    assert_eq!(writes(&cluster, PODS).last(), Some(&"DELETED"));
    assert_eq!(
        cluster.deployment("ns/a").unwrap()["status"]["readyReplicas"],
        1
    );
}

#[tokio::test]
async fn a_rollout_of_an_older_generation_writes_nothing() {
    let cluster = Cluster::new();
    let generation = deploy(&cluster, 1);
    deploy(&cluster, 2);
    cluster
        .clone()
        .roll_out("ns/a".to_owned(), generation)
        .await;
    assert_eq!(writes(&cluster, DEPLOYMENTS), ["ADDED", "MODIFIED"]);
    assert!(writes(&cluster, PODS).is_empty());
}

#[test]
fn only_the_versions_that_are_served_are_found() {
    let cluster = Cluster::new();
    let custom = &KINDS[0];
    let root = format!("/apis/{}/{}", custom.group, custom.version);
    assert!(
        cluster
            .served(&format!("{root}/memcacheds"), "memcacheds")
            .is_some()
    );
    let other = format!("/apis/{}/v1/memcacheds", custom.group);
    assert!(cluster.served(&other, "memcacheds").is_none());
    assert!(cluster.served("/api/v1/pods", "pods").is_some());
    assert!(cluster.discovery(&root).is_some());
    assert!(
        cluster
            .discovery(&format!("/apis/{}/v1", custom.group))
            .is_none()
    );
}
