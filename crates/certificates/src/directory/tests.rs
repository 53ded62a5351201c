//! Real files, written as by users and the kubelet. Time is paused, so ten seconds pass when all tasks
//! wait.

use std::convert::Infallible;
use std::fs;
use std::os::unix::fs::symlink;

use jiff::{SignedDuration, Timestamp};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::*;
use crate::identity::tests::{pair, pair_for};
use crate::tests::metrics;
use testkit::{StateFolder, log_lines};

/// A folder that is removed when dropped.
struct Folder(StateFolder);

impl Folder {
    fn new() -> Self {
        Self(StateFolder::create().unwrap())
    }

    fn files(&self) -> Files {
        Files {
            certificate: self.0.path().join("tls.crt"),
            key: self.0.path().join("tls.key"),
        }
    }

    fn write(&self, (certificate, key): &(String, String)) {
        fs::write(self.files().certificate, certificate).unwrap();
        fs::write(self.files().key, key).unwrap();
    }

    /// Updates the files as the kubelet's atomic writer does: a new timestamped folder, and `..data`
    /// renamed over the link to the old one. `tls.crt` always links to `..data/tls.crt`.
    fn swap(&self, generation: usize, (certificate, key): &(String, String)) {
        let name = format!("..2026_11_21_{generation}");
        let folder = self.0.path().join(&name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("tls.crt"), certificate).unwrap();
        fs::write(folder.join("tls.key"), key).unwrap();
        let [new, data] = ["..data_tmp", "..data"].map(|it| self.0.path().join(it));
        symlink(&name, &new).unwrap();
        fs::rename(new, data).unwrap();
        if generation > 0 {
            let old = format!("..2026_11_21_{}", generation - 1);
            fs::remove_dir_all(self.0.path().join(old)).unwrap();
        } else {
            symlink("..data/tls.crt", self.files().certificate).unwrap();
            symlink("..data/tls.key", self.files().key).unwrap();
        }
    }
}

/// Directory mode on a folder.
struct Served {
    folder: Folder,
    resolver: Arc<Resolver>,
    metrics: Metrics,
    task: JoinHandle<Result<(), Infallible>>,
}

impl Served {
    async fn start(folder: Folder) -> Self {
        let metrics = metrics();
        let (resolver, run) = directory(folder.files(), metrics.clone());
        let task = tokio::spawn(run);
        let served = Self {
            folder,
            resolver,
            metrics,
            task,
        };
        sleep(Duration::from_secs(1)).await;
        served
    }

    /// Waits for the next read of the files.
    async fn look(&self) {
        sleep(POLL_INTERVAL).await;
    }

    /// The certificate chain in a handshake.
    fn shown(&self) -> Vec<u8> {
        let shown = self.resolver.current();
        shown.map_or_else(Vec::new, |pair| pair.key.cert[0].to_vec())
    }

    fn shows(&self, (certificate, _): &(String, String)) -> bool {
        let wanted = crate::pair::certificates(certificate.as_bytes()).unwrap();
        self.shown() == wanted[0].to_vec()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serving(first: &(String, String)) -> Served {
    let folder = Folder::new();
    folder.write(first);
    let served = Served::start(folder).await;
    assert!(served.shows(first));
    served
}

fn lasting(from_hours: i64, to_hours: i64) -> (String, String) {
    let at = |hours| Timestamp::now() + SignedDuration::from_hours(hours);
    pair_for("localhost", at(from_hours), at(to_hours))
}

#[tokio::test(start_paused = true)]
async fn without_files_it_is_not_ready_and_takes_them_up_when_they_come() {
    let folder = Folder::new();
    let served = Served::start(folder).await;
    let ready = served.resolver.check_at(Timestamp::now());
    assert_eq!(ready.unwrap_err(), "there is no webhook certificate yet");
    assert_eq!(served.metrics.counts(), (1, 1));

    let pair = pair();
    served.folder.write(&pair);
    served.look().await;
    assert_eq!(served.resolver.check_at(Timestamp::now()), Ok(()));
    assert!(served.shows(&pair));
    assert_eq!(served.metrics.counts(), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn the_kubelets_swap_of_a_link_is_noticed_each_time() {
    let folder = Folder::new();
    let first = pair();
    folder.swap(0, &first);
    let served = Served::start(folder).await;
    assert!(served.shows(&first));
    for generation in 1..4 {
        let next = pair();
        served.folder.swap(generation, &next);
        served.look().await;
        assert!(served.shows(&next), "generation {generation}");
    }
    assert_eq!(served.metrics.counts(), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn a_pair_written_in_place_is_served_when_both_halves_are_there() {
    let (old, new) = (pair(), pair());
    let served = serving(&old).await;
    let Files { certificate, key } = served.folder.files();

    fs::write(&certificate, &new.0[..new.0.len() / 2]).unwrap();
    served.look().await;
    assert!(served.shows(&old), "half of the new certificate");
    fs::write(&certificate, &new.0).unwrap();
    served.look().await;
    assert!(served.shows(&old), "the new certificate with the old key");
    fs::write(&key, "").unwrap();
    served.look().await;
    assert!(served.shows(&old), "an empty key");
    fs::write(&key, &new.1).unwrap();
    served.look().await;
    assert!(served.shows(&new), "the new pair");
    assert_eq!(served.metrics.counts(), (5, 3));
}

#[tokio::test(start_paused = true)]
async fn a_folder_in_place_of_a_file_is_an_error() {
    let old = pair();
    let served = serving(&old).await;
    let Files { certificate, .. } = served.folder.files();
    fs::remove_file(&certificate).unwrap();
    fs::create_dir(&certificate).unwrap();
    served.look().await;
    assert!(served.shows(&old));
    assert_eq!(served.metrics.counts(), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn an_expired_pair_at_the_start_is_shown_but_not_ready() {
    let folder = Folder::new();
    let expired = lasting(-48, -24);
    folder.write(&expired);
    let served = Served::start(folder).await;
    assert!(served.shows(&expired), "a client then says what is wrong");
    let check = || served.resolver.check_at(Timestamp::now());
    let invalid = "the webhook certificate is valid from ";
    assert!(check().unwrap_err().contains(invalid));

    for (pair, is_ready) in [(lasting(24, 48), false), (pair(), true)] {
        served.folder.write(&pair);
        served.look().await;
        assert_eq!(check().is_ok(), is_ready);
        assert!(is_ready || check().unwrap_err().contains(invalid));
    }
}

#[tokio::test(start_paused = true)]
async fn a_problem_is_logged_with_its_reason() {
    let (lines, writer) = log_lines();
    let _logs = tracing::subscriber::set_default(writer);
    let (one, other) = (pair(), pair());
    let served = serving(&one).await;
    for (content, reason) in [
        ((String::new(), String::new()), "no certificate"),
        ((one.0.clone(), String::new()), "no unencrypted"),
        ((one.0.clone(), other.1), "not match"),
    ] {
        served.folder.write(&content);
        served.look().await;
        let written = lines.written();
        let last = written.last().unwrap();
        assert!(last.contains(reason), "{last}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_or_future_pair_does_not_replace_one_that_is_valid_now() {
    for bad in [lasting(-48, -24), lasting(24, 48)] {
        let old = pair();
        let served = serving(&old).await;
        served.folder.write(&bad);
        served.look().await;
        assert!(served.shows(&old));
    }
}
