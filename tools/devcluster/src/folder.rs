//! State folders: one per cluster, removed with it, and removed by the next start if the
//! owner died without doing so.
//!
//! The owner holds a lock on the file `owner` for as long as it lives; the kernel lets go of
//! it however the owner dies. (A process id and start time would say the same within one
//! container, but not to another that shares the cache folder.)

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;
use std::{env, process};

use crate::error::{Doing, Result, write};
use crate::node;

/// Tells apart the clusters of one process.
static COUNTER: AtomicU32 = AtomicU32::new(0);

const OWNER: &str = "owner";
/// Marks the folder of a cluster that stays until `devcluster down`.
const STAYS: &str = "stays";

/// The folder of one cluster: data, certificates, logs. Dropping it removes it.
#[derive(Debug)]
pub struct StateFolder {
    path: PathBuf,
    /// Locked until this is dropped or the process dies.
    _owner: File,
}

impl StateFolder {
    /// Removes the folders of dead owners, then makes a new one.
    ///
    /// # Errors
    /// The cache folder cannot be written to.
    pub fn create() -> Result<Self> {
        let root = root();
        fs::create_dir_all(&root).doing(|| format!("creating {}", root.display()))?;
        // Held while folders come and go, so that no one takes ours for abandoned in the
        // moment between its creation and its lock.
        let lock_path = root.join("lock");
        let lock = File::create(&lock_path).doing(|| format!("opening {}", lock_path.display()))?;
        lock.lock()
            .doing(|| format!("locking {}", lock_path.display()))?;
        remove_abandoned(&root);

        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = root.join(if node::is_inside() {
            node::name()
        } else {
            format!("{}-{count}", process::id())
        });
        fs::create_dir(&path).doing(|| format!("creating {}", path.display()))?;
        let owner_path = path.join(OWNER);
        let mut owner =
            File::create(&owner_path).doing(|| format!("creating {}", owner_path.display()))?;
        owner
            .lock()
            .doing(|| format!("locking {}", owner_path.display()))?;
        writeln!(owner, "{}", process::id())
            .doing(|| format!("writing {}", owner_path.display()))?;
        Ok(Self {
            path,
            _owner: owner,
        })
    }

    /// Removes the folders of dead owners.
    pub fn sweep() {
        let root = root();
        let lock = File::create(root.join("lock"));
        if lock.is_ok_and(|lock| lock.lock().is_ok()) {
            remove_abandoned(&root);
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the cluster one that [`StateFolder::staying_owners`] finds.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub fn mark_as_staying(&self) -> Result<()> {
        write(&self.path.join(STAYS), "")
    }

    /// The folders and process ids of the living owners of clusters that stay.
    pub fn staying_owners() -> Vec<(PathBuf, i32)> {
        folders(&root())
            .into_iter()
            .filter(|folder| folder.join(STAYS).exists() && !is_abandoned(folder))
            .filter_map(|folder| {
                let owner = fs::read_to_string(folder.join(OWNER)).ok()?;
                Some((folder, owner.trim().parse().ok()?))
            })
            .collect()
    }
}

impl Drop for StateFolder {
    fn drop(&mut self) {
        // Of a node it is full of mounts; the process outside removes it when they are gone.
        if !node::is_inside() {
            remove(&self.path);
        }
    }
}

/// `$XDG_CACHE_HOME/quartet-operator/clusters`, by default under `~/.cache`.
fn root() -> PathBuf {
    env::var_os("XDG_CACHE_HOME")
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
        .or_else(|| env::home_dir().map(|home| home.join(".cache")))
        .unwrap_or_else(env::temp_dir)
        .join("quartet-operator/clusters")
}

fn folders(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(root) else {
        return Vec::new();
    };
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect()
}

fn remove_abandoned(root: &Path) {
    for folder in folders(root).iter().filter(|folder| is_abandoned(folder)) {
        remove(folder);
    }
}

/// Whether no living process holds the lock. A folder without an owner file was being made
/// or removed when its process died.
fn is_abandoned(folder: &Path) -> bool {
    match OpenOptions::new().write(true).open(folder.join(OWNER)) {
        Ok(owner) => !matches!(owner.try_lock(), Err(TryLockError::WouldBlock)),
        Err(_) => true,
    }
}

/// A component of a dead owner may still be writing for some milliseconds, so once is not
/// always enough. What cannot be removed is left for the next start.
fn remove(folder: &Path) {
    for _ in 0..20 {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                thread::sleep(Duration::from_millis(25));
            }
            _ => return,
        }
    }
}
