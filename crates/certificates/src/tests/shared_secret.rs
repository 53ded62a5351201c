//! The certificates of a Secret that the replicas share.

use super::*;
use testkit::log_lines;

/// A replica that runs; returns its resolver.
fn replica(server: &Shared) -> Arc<Resolver> {
    let (resolver, run) = self_managed(options(), client(server), metrics());
    tokio::spawn(run);
    resolver
}

fn bundles(server: &Shared) -> [Value; 2] {
    let server = server.lock().unwrap();
    let configuration = &server.objects[&format!("{CONFIGURATIONS}/{CONFIGURATION}")];
    let crd = &server.objects[CRD];
    [
        configuration["webhooks"][0]["clientConfig"]["caBundle"].clone(),
        crd["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"].clone(),
    ]
}

fn installed() -> Shared {
    let mut server = Server::default();
    let path = format!("{CONFIGURATIONS}/{CONFIGURATION}");
    server.put(&path, configuration());
    server.put(CRD, crd());
    Arc::new(Mutex::new(server))
}

#[tokio::test(start_paused = true)]
async fn two_replicas_share_a_secret_and_trust_it_in_every_object() {
    let server = installed();
    let replicas = [replica(&server), replica(&server)];
    sleep(Duration::from_secs(1)).await;
    let validity = replicas.each_ref().map(|it| it.validity());
    assert!(validity[0].is_some());
    assert_eq!(validity[0], validity[1]);
    let [one, other] = bundles(&server);
    assert!(one.is_string());
    assert_eq!(one, other);
    let written = answered(&server);
    let mut creations: Vec<_> = written.iter().filter(|it| it.starts_with("POST")).collect();
    creations.sort();
    assert_eq!(creations, ["POST secrets 201", "POST secrets 409"]);
    assert!(server.lock().unwrap().objects.contains_key(SECRET));
    // Nothing to do until the next regular check.
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(answered(&server), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_about_a_repair_counts_as_the_repair_of_another_replica() {
    let server = installed();
    let _replica = replica(&server);
    sleep(Duration::from_secs(60)).await;
    let [_, trusted] = bundles(&server);
    assert!(trusted.is_string());
    // Another writer replaces the CRD before the regular check, which finds no watch event.
    server.lock().unwrap().put(CRD, crd());
    server.lock().unwrap().refused = Some((CRD.to_owned(), 409));
    sleep(Duration::from_secs(12 * 3600 - 30)).await;
    assert!(server.lock().unwrap().refused.is_none(), "it has tried");
    let [_, bundle] = bundles(&server);
    assert_ne!(bundle, trusted, "not twice in a minute");
    sleep(Duration::from_secs(31)).await;
    assert_eq!(bundles(&server)[1], trusted);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_rejects_a_bundle_leaves_the_others_alone_and_is_tried_again() {
    let server = installed();
    let rejected = format!("{CONFIGURATIONS}/{CONFIGURATION}");
    server.lock().unwrap().refused = Some((rejected, 500));
    let _replica = replica(&server);
    // After the pause that follows the write of the Secret, and before the next attempt.
    sleep(Duration::from_millis(300)).await;
    let [one, other] = bundles(&server);
    assert!(one.is_null() && other.is_string());
    sleep(Duration::from_secs(1)).await;
    let [one, other] = bundles(&server);
    assert_eq!(one, other);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_could_not_be_read_is_read_again_soon() {
    let server = installed();
    let _replica = replica(&server);
    sleep(Duration::from_secs(60)).await;
    let [_, trusted] = bundles(&server);
    server.lock().unwrap().put(CRD, crd());
    server.lock().unwrap().unread = Some(CRD.to_owned());
    sleep(Duration::from_secs(12 * 3600)).await;
    assert!(server.lock().unwrap().unread.is_none(), "it has tried");
    assert_eq!(bundles(&server)[1], trusted);
}

#[tokio::test(start_paused = true)]
async fn a_bundle_is_restored_while_the_secret_cannot_be_written() {
    let server = installed();
    let _replica = replica(&server);
    sleep(Duration::from_secs(60)).await;
    let [_, trusted] = bundles(&server);
    {
        let mut server = server.lock().unwrap();
        server.put(CRD, crd());
        // The pair is to be replaced.
        server.days = 70;
        server.immutable = Some(SECRET.to_owned());
    }
    sleep(Duration::from_secs(13 * 3600)).await;
    assert!(answered(&server).contains(&"PUT the-secret 403".to_owned()));
    assert_eq!(bundles(&server)[1], trusted);
}

#[tokio::test(start_paused = true)]
async fn a_registration_that_is_deleted_is_told() {
    let (lines, writer) = log_lines();
    let _logs = tracing::subscriber::set_default(writer);
    let server = installed();
    let _replica = replica(&server);
    let checks = Duration::from_secs(24 * 3600);
    sleep(checks).await;
    assert!(!lines.text().contains("does not exist"), "{}", lines.text());
    let path = format!("{CONFIGURATIONS}/{CONFIGURATION}");
    server.lock().unwrap().objects.remove(&path);
    sleep(checks).await;
    let written = lines.written();
    let mut told = written.iter().filter(|it| it.contains("does not exist"));
    assert!(told.any(|line| line.contains(CONFIGURATION)), "{written:?}");
}

/// Another manager or the user has set another Service.
#[tokio::test(start_paused = true)]
async fn an_object_that_names_another_service_is_left_alone_and_told() {
    let (lines, writer) = log_lines();
    let _logs = tracing::subscriber::set_default(writer);
    let server = installed();
    let mut other = crd();
    let client = &mut other["spec"]["conversion"]["webhook"]["clientConfig"];
    client["service"]["namespace"] = json!("elsewhere");
    client["caBundle"] = json!("b3RoZXI=");
    server.lock().unwrap().put(CRD, other);
    let _replica = replica(&server);
    sleep(Duration::from_secs(3 * 24 * 3600)).await;
    let [ours, theirs] = bundles(&server);
    assert!(ours.is_string());
    assert_eq!(theirs, "b3RoZXI=");
    assert!(lines.text().contains("does not name this Service"));
}
