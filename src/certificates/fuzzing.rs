//! Entry points of the fuzz targets for the Secret of self-managed certificates, which a user may have
//! edited. Only in builds of `hack/fuzz.sh`, which sets `--cfg fuzzing`.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;

use super::contents::{Contents, MAX_OLD};
use super::plan::{Seen, plan};

/// Reads this data for `names` and checks the invariants: contents survive a round trip, each authority
/// occurs once, and the plan keeps no more than the limit. Returns whether a pair was found.
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
        // No new pair is created here: a plan that needs one returns this error.
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
