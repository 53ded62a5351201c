//! Lists and the index. `simulation` shows what events and own writes do, in any order.

mod simulation;

use std::collections::BTreeSet;

use super::*;

#[derive(Debug, PartialEq)]
pub(super) struct Thing {
    form: &'static str,
    pub(super) key: ObjectKey,
    pub(super) uid: &'static str,
    pub(super) version: u64,
    owner: Option<&'static str>,
}

impl Object for Thing {
    fn key(&self) -> &ObjectKey {
        &self.key
    }
    fn uid(&self) -> &str {
        self.uid
    }
    fn resource_version(&self) -> u64 {
        self.version
    }
    fn index(&self) -> Option<&str> {
        self.owner
    }
    fn form(&self) -> &str {
        self.form
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

fn thing(name: &str, uid: &'static str, version: u64) -> Thing {
    Thing {
        form: "",
        key: key(name),
        uid,
        version,
        owner: None,
    }
}

fn owned(name: &str, owner: &'static str, version: u64) -> Arc<Thing> {
    Arc::new(Thing {
        owner: Some(owner),
        ..thing(name, "uid", version)
    })
}

/// `+name@version`, `~name@old>new`, `-name@version`.
fn reported(changes: Vec<Change<Thing>>) -> Vec<String> {
    let line = |change: &Change<Thing>| {
        let of = |thing: &Arc<Thing>| (thing.key.name().to_owned(), thing.version);
        let before = change.before.as_ref().map(of);
        match (before, change.after.as_ref().map(of)) {
            (Some((name, old)), Some((_, new))) => format!("~{name}@{old}>{new}"),
            (None, Some((name, new))) => format!("+{name}@{new}"),
            (Some((name, old)), None) => format!("-{name}@{old}"),
            (None, None) => panic!("no state"),
        }
    };
    changes.iter().map(line).collect()
}

fn relist(store: &Store<Thing>, things: Vec<Thing>) -> Vec<String> {
    let things = things.into_iter().map(Arc::new);
    reported(store.relisted(things.collect()))
}

fn applied(store: &Store<Thing>, thing: Thing) -> Vec<String> {
    reported(store.applied(Arc::new(thing)))
}

#[test]
fn a_relist_announces_exactly_what_differs_deletions_first() {
    let store = Store::default();
    let first = vec![thing("a", "1", 1), thing("b", "2", 2), thing("c", "3", 3)];
    assert_eq!(relist(&store, first), ["+a@1", "+b@2", "+c@3"]);
    let second = vec![thing("d", "4", 5), thing("b", "2", 4), thing("a", "1", 1)];
    assert_eq!(relist(&store, second), ["-c@3", "+d@5", "~b@2>4"]);
}

#[test]
fn an_unchanged_relist_announces_nothing_and_keeps_the_very_same_objects() {
    let store = Store::default();
    relist(&store, vec![thing("a", "1", 1)]);
    let before = store.get(&key("a")).unwrap();
    assert_eq!(relist(&store, vec![thing("a", "1", 1)]), [""; 0]);
    assert!(Arc::ptr_eq(&before, &store.get(&key("a")).unwrap()));
}

#[test]
fn an_object_that_was_replaced_by_a_namesake_is_deleted_and_added() {
    let store = Store::default();
    relist(&store, vec![thing("a", "first", 1)]);
    assert_eq!(applied(&store, thing("a", "second", 5)), ["-a@1", "+a@5"]);
    let found = relist(&store, vec![thing("a", "third", 9)]);
    assert_eq!(found, ["-a@5", "+a@9"]);
}

#[test]
fn what_a_list_misses_of_our_writes_is_reported_again_by_the_watch() {
    let store = Store::default();
    relist(&store, vec![thing("a", "1", 1)]);
    let written = [thing("a", "1", 10), thing("created", "2", 11)];
    assert!(written.map(|it| store.put_written(it, 1)) == [true; 2]);
    let found = relist(&store, vec![thing("a", "1", 1)]);
    assert_eq!(found, ["-created@11", "~a@10>1"]);
    assert_eq!(applied(&store, thing("a", "1", 10)), ["~a@1>10"]);
}

#[test]
fn a_list_with_lower_versions_replaces_the_store() {
    let store = Store::default();
    relist(&store, vec![thing("a", "1", 100), thing("b", "2", 90)]);
    assert!(store.put_written(thing("a", "1", 110), 0));
    let reported_of = relist(&store, vec![thing("a", "1", 50), thing("c", "3", 40)]);
    assert_eq!(reported_of, ["-b@90", "~a@110>50", "+c@40"]);
    assert_eq!(applied(&store, thing("a", "1", 51)), ["~a@50>51"]);
    let is_stored = store.put_written(thing("b", "2", 60), store.removals());
    assert!(is_stored, "it was deleted in no life");
}

#[test]
fn the_index_follows_every_change() {
    let store = Store::<Thing>::default();
    let names = |owner| {
        let things = store.indexed("default", owner);
        let names = things.iter().map(|thing| thing.key.name().to_owned());
        names
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
    };
    store.applied(owned("a", "one", 1));
    store.applied(owned("b", "one", 2));
    assert_eq!(names("one"), ["a", "b"]);
    assert!(store.indexed("another", "one").is_empty());
    store.applied(owned("a", "two", 3));
    let expected = (vec!["b".to_owned()], vec!["a".to_owned()]);
    assert_eq!((names("one"), names("two")), expected);
    store.deleted(&key("b"), 4);
    assert_eq!(names("one"), [""; 0]);
    store.relisted(vec![owned("c", "two", 5)]);
    assert_eq!(names("two"), ["c"]);
    let owners = store.state.lock().index.len();
    assert_eq!(owners, 1, "nothing is left of owners without objects");
}

#[test]
fn the_same_state_in_another_form_is_news_and_an_older_one_is_not() {
    let store = Store::default();
    relist(&store, vec![thing("a", "1", 5)]);
    let in_form = |form, version| Thing {
        form,
        ..thing("a", "1", version)
    };
    assert_eq!(relist(&store, vec![in_form("v2", 5)]), ["~a@5>5"]);
    assert_eq!(relist(&store, vec![in_form("v2", 5)]), [] as [&str; 0]);
    assert_eq!(applied(&store, in_form("v1", 4)), [""; 0]);
    assert_eq!(store.get(&key("a")).map(|thing| thing.form), Some("v2"));
}
