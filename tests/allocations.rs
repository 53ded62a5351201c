//! How often the pure functions ask for memory, and for how many bytes: exactly what the table of
//! docs/performance.md says. No other load on the machine changes it.

#[path = "support/calls.rs"]
mod calls;

use allocation_counter::{AllocationInfo, measure};
use quartet_operator::operators::{OPERATORS, Settings};

const DOCUMENT: &str = include_str!("../docs/performance.md");

/// Allocations and bytes of a row of the document, of one or more variants.
fn documented(row: &str) -> Vec<(u64, u64)> {
    let start = format!("| {row} |");
    let mut lines = DOCUMENT.lines();
    let line = lines.find(|line| line.starts_with(&start));
    let cells: Vec<_> = line.expect(row).split('|').collect();
    let numbers = |cell: &str| -> Vec<u64> {
        let numbers = cell.split('/').map(|it| it.replace(' ', "").parse());
        numbers.map(|it| it.expect(row)).collect()
    };
    let (allocations, bytes) = (numbers(cells[3]), numbers(cells[4]));
    allocations.into_iter().zip(bytes).collect()
}

/// Of the second call: the first fills what is made once.
fn counted(call: impl Fn()) -> (u64, u64) {
    call();
    let AllocationInfo {
        count_total,
        bytes_total,
        ..
    } = measure(&call);
    (count_total, bytes_total)
}

#[test]
fn the_pure_functions_allocate_what_the_document_says() {
    let handlers = calls::handlers();
    let answer = |(path, body): calls::Call| {
        counted(|| {
            let (status, _) = handlers.answer(&path, &body).expect("an endpoint");
            assert_eq!(status, 200);
        })
    };
    let memcached = calls::resource(OPERATORS[0]);
    let settings = Settings::default();
    let rows = [
        (
            "conversion, one object from the original version to the hub, with its review",
            vec![answer(calls::conversion(1))],
        ),
        (
            "the same, 500 objects in one call",
            vec![answer(calls::conversion(500))],
        ),
        (
            "admission of a Memcached, original version / hub",
            vec![
                answer(calls::admission(false)),
                answer(calls::admission(true)),
            ],
        ),
        (
            "an update of its number of pods, hub",
            vec![answer(calls::update())],
        ),
        (
            "a Memcached to its children",
            vec![counted(|| {
                let children = OPERATORS[0].desired(&memcached, &settings);
                assert!(children.is_ok());
            })],
        ),
    ];
    let wrong: Vec<_> = rows
        .into_iter()
        .filter(|(row, counted)| documented(row) != *counted)
        .collect();
    assert_eq!(wrong, [], "docs/performance.md says otherwise");
}
