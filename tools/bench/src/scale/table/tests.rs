use std::convert::Infallible;

use super::*;

fn table() -> Table {
    let of = Type {
        group: "apps",
        version: "v1",
        kind: "Deployment",
        plural: "deployments",
        is_custom: false,
        has_generation: true,
    };
    Table::new(of, &Arc::new(AtomicU64::new(1)))
}

fn put(table: &Table, key: &str, replicas: i64) -> Value {
    let written = table.write(key, |live| {
        let mut object = live.unwrap_or_else(|| json!({"metadata": {}}));
        object["spec"] = json!({"replicas": replicas});
        Ok::<_, Infallible>(object)
    });
    let Ok(body) = written;
    serde_json::from_slice(&body).unwrap()
}

fn list(table: &Table, limit: usize, after: Option<&str>) -> Value {
    serde_json::from_slice(&table.page("", limit, after)).unwrap()
}

#[test]
fn a_write_sets_what_the_api_server_sets_and_a_new_spec_is_a_new_generation() {
    let table = table();
    let first = put(&table, "ns/a", 1);
    assert_eq!(first["apiVersion"], "apps/v1");
    assert_eq!(first["kind"], "Deployment");
    let metadata = &first["metadata"];
    assert_eq!(
        (&metadata["namespace"], &metadata["name"]),
        (&"ns".into(), &"a".into())
    );
    assert_eq!(metadata["generation"], 1);
    let same = put(&table, "ns/a", 1);
    assert_eq!(same["metadata"]["generation"], 1);
    assert_ne!(
        same["metadata"]["resourceVersion"],
        metadata["resourceVersion"]
    );
    let other = put(&table, "ns/a", 2);
    assert_eq!(other["metadata"]["generation"], 2);
    assert_eq!(other["metadata"]["uid"], metadata["uid"]);
    let read: Value = serde_json::from_slice(&table.get("ns/a").unwrap()).unwrap();
    assert_eq!(read, other);
}

#[test]
fn an_error_writes_nothing() {
    let table = table();
    assert_eq!(table.write("ns/a", |_| Err::<Value, _>("no")), Err("no"));
    assert_eq!(table.get("ns/a"), None);
    assert!(table.events(0, 10).unwrap().is_empty());
}

#[test]
fn pages_follow_each_other_and_have_the_revision_of_the_first() {
    let table = table();
    for number in 0..5 {
        put(&table, &format!("ns/r{number}"), 1);
    }
    let first = list(&table, 2, None);
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    put(&table, "ns/r9", 1);
    let second = list(&table, 2, Some(&token));
    assert_eq!(
        second["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    let token = second["metadata"]["continue"].as_str().unwrap().to_owned();
    let third = list(&table, 2, Some(&token));
    assert_eq!(third["metadata"].get("continue"), None);
    let names: Vec<_> = [first, second, third]
        .iter()
        .flat_map(|page| page["items"].as_array().unwrap().clone())
        .map(|item| {
            assert_eq!(
                item.get("kind"),
                None,
                "the items of what is built in have none"
            );
            item["metadata"]["name"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(names, ["r0", "r1", "r2", "r3", "r4", "r9"]);
}

#[test]
fn a_list_is_of_a_namespace_or_of_one_object_where_that_is_asked_for() {
    let table = table();
    for key in ["a/x", "b/x", "b/y"] {
        put(&table, key, 1);
    }
    let of_b: Value = serde_json::from_slice(&table.page("b", 2, None)).unwrap();
    assert_eq!(of_b["items"].as_array().unwrap().len(), 2);
    assert_eq!(of_b["metadata"].get("continue"), None);
    let count = |key| {
        let list: Value = serde_json::from_slice(&table.list_of_one(key)).unwrap();
        list["items"].as_array().unwrap().len()
    };
    assert_eq!((count("b/y"), count("a/y")), (1, 0));
}

#[test]
fn a_watch_gets_each_write_in_order_and_is_told_when_it_is_too_far_behind() {
    let table = table();
    put(&table, "ns/a", 1);
    put(&table, "ns/a", 2);
    table.remove("ns/a");
    let events = table.events(0, 10).unwrap();
    let changes: Vec<_> = events.iter().map(|it| it.change).collect();
    assert_eq!(changes, ["ADDED", "MODIFIED", "DELETED"]);
    for event in &events {
        let line: Value = serde_json::from_slice(&table.line(event)).unwrap();
        let object = &line["object"];
        assert_eq!(
            object["metadata"]["resourceVersion"],
            event.revision.to_string()
        );
        assert_eq!(object["kind"], "Deployment");
    }
    assert_eq!(table.events(events[1].revision, 10).unwrap().len(), 1);
    for number in 0..KEPT {
        put(&table, "ns/a", number as i64);
    }
    assert!(table.events(events[0].revision, 10).is_err());
    assert_eq!(table.events(events[2].revision, 10).unwrap().len(), 10);
}

#[test]
fn a_bookmark_has_the_revision_of_the_last_write() {
    let table = table();
    let last = put(&table, "ns/a", 1);
    let (revision, line) = table.bookmark();
    let line: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(line["type"], "BOOKMARK");
    assert_eq!(
        line["object"]["metadata"]["resourceVersion"],
        revision.to_string()
    );
    assert_eq!(last["metadata"]["resourceVersion"], revision.to_string());
}
