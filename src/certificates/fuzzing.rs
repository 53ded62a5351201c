//! Doors for the fuzz targets to the Secret of self-managed certificates, which anybody who may
//! write it may have edited. Only in builds of `hack/fuzz.sh`, which sets `--cfg fuzzing`.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;

use super::contents::{Contents, MAX_OLD};
use super::plan::{Seen, plan};

/// Reads this data for `names` and checks what must hold of any: what was read is read again as
/// it was, each authority is trusted once, and the plan keeps no more than it may. Returns whether
/// there was a pair in it.
pub fn read(data: BTreeMap<String, Vec<u8>>, names: &[String], now: Timestamp) -> bool {
    let data = data
        .into_iter()
        .map(|(key, value)| (key, ByteString(value)));
    let contents = Contents::read(&data.collect(), names);
    assert!(contents.old.len() <= MAX_OLD);
    assert_eq!(Contents::read(&contents.data(), names), contents);
    let trusted = contents.trusted();
    for (index, authority) in trusted.iter().enumerate().skip(2) {
        assert!(!trusted.iter().take(index).any(|it| it == authority));
    }
    for serving in [None, contents.current.as_ref()] {
        let seen = Seen {
            now,
            secret: Some(&contents),
            serving,
            bundles: &[],
            settled: Duration::from_secs(60),
            jitter: 0.5,
        };
        // A new pair is not made here: what would need one ends as this error.
        let Ok(planned) = plan(seen, || Err(())) else {
            continue;
        };
        if let Some(write) = planned.write {
            assert!(write != contents && write.old.len() <= MAX_OLD);
            let current = write.current.as_ref();
            assert!(current.is_some_and(|it| it.is_valid_at(now)));
        }
        assert!(planned.again > now || now == Timestamp::MAX);
    }
    contents.current.is_some() || contents.next.is_some()
}
