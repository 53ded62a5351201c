use super::*;
use crate::promises::row;

fn burst(resources: u32, pods: u32, row: &'static str) -> Burst {
    Burst {
        manager: "manager",
        resources,
        pods,
        row,
    }
}

const BURSTS: &str = "manager,resources,pods,row,value
manager,1000,0,requests per resource,3.23
manager,1000,1,requests per resource,3.25
manager,5000,0,requests per resource,3.27
";

#[test]
fn figures_of_the_same_load_are_replaced_and_all_are_sorted() {
    let mut records = Records::<Burst>::parse(BURSTS).unwrap();
    let new = [
        (burst(1000, 0, row::STATUS_AFTER_CHILDREN), 4.951_23),
        (burst(1000, 0, row::CPU), 1.25),
        (burst(1000, 0, row::RECONCILES), f64::NAN),
    ];
    records.replace(|old| (old.resources, old.pods) == (1000, 0), new);
    assert_eq!(
        records.text(),
        "manager,resources,pods,row,value\n\
         manager,1000,0,\"CPU per 1000 resources, s\",1.25\n\
         manager,1000,0,\"from the children to the first status, P99, s\",4.951\n\
         manager,1000,1,requests per resource,3.25\n\
         manager,5000,0,requests per resource,3.27\n"
    );
    assert_eq!(Records::parse(&records.text()).unwrap(), records);
}

#[test]
fn a_bad_line_is_an_error_with_its_number() {
    for (line, expected) in [
        (
            "manager,1000,0,requests per resource",
            "4 cells in place of 5",
        ),
        (
            "us,1000,0,requests per resource,1",
            "manager: \"us\" is none of: manager;",
        ),
        ("manager,0,0,requests per resource,1", "resources: \"0\""),
        ("manager,1000,-1,requests per resource,1", "pods: \"-1\""),
        (
            "manager,1000,0,request per resource,1",
            "row: \"request per resource\"",
        ),
        (
            "manager,1000,0,requests per resource,many",
            "value: \"many\" is no number",
        ),
        (
            "manager,1000,0,requests per resource,NaN",
            "value: \"NaN\" is no number",
        ),
        (
            "manager,1000,0,\"requests per resource,1",
            "a quote is not closed",
        ),
        (
            "manager,1000,0,\"requests per resource\"s,1",
            "\"s,1\" stands behind a quote",
        ),
        (
            "manager,1000,0,requests per resource,3.23",
            "the same cells",
        ),
        ("", "1 cells in place of 5"),
    ] {
        let (number, reason) = Records::<Burst>::parse(&format!("{BURSTS}{line}\n")).unwrap_err();
        assert_eq!(number, 5, "{line}");
        assert!(reason.contains(expected), "{line}: {reason}");
    }
    let (number, reason) = Records::<Fleet>::parse(BURSTS).unwrap_err();
    assert_eq!(number, 1);
    assert!(reason.contains("resources,row,value"), "{reason}");
}

#[test]
fn a_file_is_begun_and_added_to_and_named_where_it_is_bad() {
    let folder = std::env::temp_dir().join(format!("bench-figures-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("fleet.csv");
    let idle = |resources| Fleet {
        resources,
        row: row::MEMORY_IDLE,
    };
    for (resources, value) in [(50_000, 11.0), (10_000, 9.0), (10_000, 11.2)] {
        let ledger = Ledger::open(&path).unwrap();
        let is_old = |old: &Fleet| old.resources == resources;
        ledger.replace(is_old, [(idle(resources), value)]).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap();
    let lines = "10000,\"memory idle, MiB\",11.2\n50000,\"memory idle, MiB\",11\n";
    assert_eq!(text, format!("resources,row,value\n{lines}"));

    std::fs::write(&path, text + "100000,x,1\n").unwrap();
    let error = Ledger::<Fleet>::open(&path).err().unwrap().to_string();
    assert!(error.contains("fleet.csv:4: row: \"x\""), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_figures_of_webhooks_have_a_line_each() {
    let key = Webhook {
        server: "bare server",
        call: "convert",
        objects: 100,
        connections: 1,
        row: crate::webhook::CPU,
    };
    let mut records = Records(BTreeMap::new());
    records.replace(|_| false, [(key, 123.0)]);
    let line = "bare server,convert,100,1,\"CPU of a call, µs\",123\n";
    assert!(records.text().ends_with(line), "{}", records.text());
    assert_eq!(records.get(&key), Some(123.0));
}
