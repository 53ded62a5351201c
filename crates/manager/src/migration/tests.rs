//! Requests and results of a migration for scripted responses: the real client against a scripted
//! server. Time is paused.

use std::collections::VecDeque;
use std::future::ready;
use std::sync::{Arc, Mutex};

use kube::Client;
use serde_json::{Value, json};
use testkit::scripted;

use super::*;
use crate::tests::APPLICATION;
use quartet_operator::kinds::OPERATORS;
use quartet_operator::kinds::memcached::KIND;
use quartet_operator::packaging;

const LIST: &str = "GET /apis/cache.example.com/v1/memcacheds?&limit=2";
const REWRITE: &str = "PATCH /apis/cache.example.com/v1/namespaces/n/memcacheds/NAME/status";
const CRD: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/memcacheds.cache.example.com";

type Answer = (u16, Value);

/// An API server with scripted responses, in this order, for requests that match; it accepts all other
/// requests.
#[derive(Clone, Default)]
struct Server {
    script: Arc<Mutex<VecDeque<(String, Answer)>>>,
    sent: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn answers(self, request: &str, answer: Answer) -> Self {
        let entry = (request.to_owned(), answer);
        self.script.lock().unwrap().push_back(entry);
        self
    }

    fn answer(&self, line: &str, body: &Value) -> Answer {
        let mut sent = self.sent.lock().unwrap();
        sent.push(format!("{line} {body}"));
        let mut script = self.script.lock().unwrap();
        let next = script.iter().position(|(start, _)| line.starts_with(start));
        if let Some((_, answer)) = next.and_then(|next| script.remove(next)) {
            return answer;
        }
        if line.contains(CRD) {
            return (200, definition(3));
        }
        if line.starts_with(LIST) {
            return page(&["a"], "");
        }
        (200, object("any", "9"))
    }

    fn sent(&self, part: &str) -> Vec<String> {
        let sent = self.sent.lock().unwrap();
        let those = sent.iter().filter(|line| line.contains(part));
        those.cloned().collect()
    }

    async fn migrate(&self) -> Result<Vec<String>, String> {
        self.migrate_with(false).await
    }

    fn client(&self) -> Client {
        let server = self.clone();
        scripted(move |line, body| ready(server.answer(&line, &body)))
    }

    async fn migrate_with(&self, dry_run: bool) -> Result<Vec<String>, String> {
        let migration = Migration {
            client: &self.client(),
            options: &options(dry_run),
            kind: &KIND,
            name: KIND.crd_name(),
            manager: PatchParams::apply("quartet-operator-migrate-storage"),
        };
        migration.migrate().await
    }
}

fn options(dry_run: bool) -> MigrateStorage {
    MigrateStorage {
        dry_run,
        kubeconfig: None,
        page_size: 2,
    }
}

fn definition(generation: i64) -> Value {
    let mut crd = serde_json::to_value(packaging::both_versions(&KIND)).unwrap();
    crd["metadata"]["resourceVersion"] = json!("50");
    crd["metadata"]["generation"] = json!(generation);
    crd["status"] = json!({"storedVersions": ["v1alpha1", "v1"]});
    crd
}

fn object(name: &str, resource_version: &str) -> Value {
    json!({"metadata": {
        "namespace": "n", "name": name, "uid": "u", "resourceVersion": resource_version,
    }})
}

fn page(names: &[&str], next: &str) -> Answer {
    let items: Vec<_> = names.iter().map(|name| object(name, "7")).collect();
    (200, json!({"items": items, "metadata": {"continue": next}}))
}

fn rejected(code: u16) -> Answer {
    let status = json!({"kind": "Status", "status": "Failure", "code": code, "message": "no"});
    (code, status)
}

fn gone(name: &str) -> Answer {
    let (code, mut status) = rejected(404);
    status["details"] = json!({"name": name});
    (code, status)
}

fn of(request: &str, name: &str) -> String {
    request.replace("NAME", name)
}

#[tokio::test(start_paused = true)]
async fn every_page_is_rewritten_and_then_the_list_is_cut_once() {
    let server = Server::default()
        .answers(LIST, page(&["a", "b"], "more"))
        .answers(&format!("{LIST}&continue=more"), page(&["c"], ""));
    server.migrate().await.unwrap();
    let rewritten = server.sent("fieldManager=quartet-operator-migrate-storage");
    assert_eq!(rewritten.len(), 4, "{rewritten:#?}");
    assert!(rewritten[0].ends_with(" {}"), "{rewritten:#?}");
    let cut = r#"{"metadata":{"resourceVersion":"50"},"status":{"storedVersions":["v1"]}}"#;
    assert!(rewritten[3].contains(CRD) && rewritten[3].ends_with(cut));
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_writes_nothing() {
    let server = Server::default();
    server.migrate_with(true).await.unwrap();
    assert_eq!(server.sent("GET ").len(), 2, "the CRD and a page");
    assert_eq!(server.sent("PATCH "), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_changed_is_sent_again_and_one_that_is_gone_is_done() {
    let server = Server::default()
        .answers(LIST, page(&["a", "b"], ""))
        .answers(&of(REWRITE, "a"), rejected(409))
        .answers(&of(REWRITE, "b"), gone("b"));
    server.migrate().await.unwrap();
    assert_eq!(server.sent(&of(REWRITE, "a")).len(), 2);
    assert_eq!(server.sent(&of(REWRITE, "b")).len(), 1);
}

/// A 404 without a name is the answer of a server or a proxy that does not know the path.
#[tokio::test(start_paused = true)]
async fn each_error_is_of_one_object_or_of_all_or_is_waited_out() {
    for (code, requests, is_of_one) in [
        (400, 1, true),
        (422, 1, true),
        (403, 1, false),
        (404, 8, false),
        (429, 8, false),
        (500, 8, false),
        (503, 8, false),
    ] {
        let name = of(REWRITE, "a");
        let server = (0..8).fold(Server::default(), |server, _| {
            server.answers(&name, rejected(code))
        });
        let error = server.migrate().await.unwrap_err();
        let incomplete = error.starts_with("1 objects could not be rewritten");
        assert_eq!(incomplete, is_of_one, "{code}: {error}");
        assert_eq!(server.sent(&name).len(), requests, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_object_that_cannot_be_rewritten_keeps_the_list_and_hinders_no_other() {
    let server = Server::default()
        .answers(LIST, page(&["a", "b"], ""))
        .answers(&of(REWRITE, "a"), rejected(422));
    let error = server.migrate().await.unwrap_err();
    let expected = "1 objects could not be rewritten; status.storedVersions was left as it was";
    assert_eq!(error, expected);
    assert_eq!(server.sent(&of(REWRITE, "b")).len(), 1);
    assert_eq!(server.sent(&format!("PATCH {CRD}")), Vec::<String>::new());
}

/// A later run begins with a new list.
#[tokio::test(start_paused = true)]
async fn an_expired_list_ends_it_before_an_object_is_rewritten() {
    let server = Server::default()
        .answers(LIST, page(&["a", "b"], "more"))
        .answers(&format!("{LIST}&continue=more"), rejected(410));
    let error = server.migrate().await.unwrap_err();
    assert_eq!(error, "cannot list memcacheds.cache.example.com: no");
    assert_eq!(server.sent("PATCH "), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_crd_that_stores_the_new_version_only_is_left_as_it_is() {
    let mut migrated = definition(3);
    migrated["status"]["storedVersions"] = json!(["v1"]);
    let server = Server::default().answers(&format!("GET {CRD}"), (200, migrated));
    server.migrate().await.unwrap();
    assert_eq!(server.sent("PATCH "), Vec::<String>::new());
}

/// The rotation of certificates writes the caBundle, and so raises the generation.
#[tokio::test(start_paused = true)]
async fn a_ca_bundle_that_changed_meanwhile_does_not_start_the_migration_over() {
    let mut rotated = definition(4);
    let config = rotated.pointer_mut("/spec/conversion/webhook/clientConfig");
    config.unwrap()["caBundle"] = json!("bmV3");
    let server = Server::default()
        .answers(&format!("GET {CRD}"), (200, definition(3)))
        .answers(&format!("GET {CRD}"), (200, rotated));
    server.migrate().await.unwrap();
    assert_eq!(server.sent(&of(REWRITE, "a")).len(), 1);
    assert_eq!(server.sent(&format!("PATCH {CRD}")).len(), 1);
}

/// The other CRDs of this server are in no form that can be migrated.
#[tokio::test(start_paused = true)]
async fn a_kind_that_cannot_be_migrated_is_named_and_hinders_no_other() {
    let server = Server::default();
    let (client, options) = (server.client(), options(false));
    let message = run(&APPLICATION, &client, &options).await.unwrap_err();
    assert_eq!(message.lines().count(), OPERATORS.len() - 1, "{message}");
    let expected = "nginxes.proxy.example.com stores no version";
    assert!(message.contains(expected), "{message}");
    assert_eq!(server.sent(&of(REWRITE, "a")).len(), 1);
    assert_eq!(server.sent(&format!("PATCH {CRD}")).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_storage_version_that_was_put_back_meanwhile_keeps_its_place_in_the_list() {
    let mut back = definition(4);
    for version in back["spec"]["versions"].as_array_mut().unwrap() {
        version["storage"] = json!(version["name"] == "v1alpha1");
    }
    let server = Server::default()
        .answers(&format!("GET {CRD}"), (200, definition(3)))
        .answers(&format!("GET {CRD}"), (200, back));
    let error = server.migrate().await.unwrap_err();
    assert!(error.contains("apply config/crd first"), "{error}");
    assert_eq!(server.sent(&of(REWRITE, "a")).len(), 1);
    assert_eq!(server.sent(&format!("PATCH {CRD}")), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_condition_written_to_the_crd_meanwhile_is_no_obstacle() {
    let server = Server::default().answers(&format!("PATCH {CRD}"), rejected(409));
    server.migrate().await.unwrap();
    assert_eq!(server.sent(&format!("PATCH {CRD}")).len(), 2);
    assert_eq!(server.sent(&of(REWRITE, "a")).len(), 1);
}

fn stored(versions: &[&str]) -> CustomResourceDefinition {
    let mut crd = packaging::both_versions(&KIND);
    crd.metadata.resource_version = Some("7".to_owned());
    let versions = versions.iter().map(|&version| version.to_owned()).collect();
    crd.status.get_or_insert_default().stored_versions = Some(versions);
    crd
}

#[test]
fn a_crd_that_stores_the_old_version_is_rejected_with_the_way_out() {
    let rejected = stored_versions(&KIND, &packaging::transition(&KIND)).unwrap_err();
    let expected = "memcacheds.cache.example.com stores v1alpha1, and only what is stored in v1 can be \
                    migrated to it; apply config/crd first";
    assert_eq!(rejected, expected);
    assert!(stored_versions(&KIND, &packaging::original_only(&KIND)).is_err());
}

#[test]
fn a_crd_whose_conversion_would_drop_fields_is_rejected() {
    let mut crd = stored(&["v1alpha1", "v1"]);
    crd.spec.conversion = None;
    let expected = "memcacheds.cache.example.com has several versions and no conversion webhook, so that \
                    rewriting would lose fields; apply config/crd first";
    assert_eq!(stored_versions(&KIND, &crd).unwrap_err(), expected);
    // With one version there is nothing to convert.
    crd.spec.versions.retain(|version| version.name == "v1");
    assert!(stored_versions(&KIND, &crd).is_ok());
}

#[tokio::test(start_paused = true)]
async fn objects_with_entries_in_the_original_version_are_counted_with_their_managers() {
    let entry = |manager: &str, operation: &str, version: &str| {
        let api_version = format!("{}/{version}", KIND.group);
        json!({"manager": manager, "operation": operation, "apiVersion": api_version})
    };
    let kubectl = entry("kubectl", "Apply", "v1");
    let manager = entry("manager", "Update", "v1alpha1");
    let helm = entry("helm", "Apply", "v1alpha1");
    let both = vec![&kubectl, &manager];
    let items = [both, vec![&helm, &manager], vec![&kubectl], vec![]];
    let items = items.map(|entries| {
        let mut object = object("any", "7");
        object["metadata"]["managedFields"] = json!(entries);
        object
    });
    let list = json!({"items": items, "metadata": {}});
    let server = Server::default().answers(LIST, (200, list));
    let results = server.migrate_with(true).await.unwrap();
    let expected = "2 objects have managedFields in v1alpha1, of helm (Apply), manager (Update): a write of \
                    them needs the conversion webhook until the same manager applies them in v1";
    assert_eq!(results[1], expected);
    let server = Server::default();
    assert_eq!(server.migrate_with(true).await.unwrap().len(), 1);
}
