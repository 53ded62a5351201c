//! State folders: one per cluster, removed with it, or by the next start if the owner was killed.
//!
//! The owner holds a lock on the file `owner` as long as it runs; the kernel releases it however
//! the owner exits. (Process id and start time would work within one container, but not across
//! containers that share the cache folder.)

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;
use std::{env, process};

use crate::environment::variable;
use crate::error::{Doing, Result, create_folder};
use crate::node::inside::{is_inside, name};

/// Distinguishes the clusters of one process.
static COUNTER: AtomicU32 = AtomicU32::new(0);

const OWNER: &str = "owner";
/// The file of the folder of a cluster that stays until `devcluster down`; `devcluster up` makes it.
const STAYS: &str = "stays";

/// The folder of one cluster: data, certificates, logs. Dropping it removes it.
#[derive(Debug)]
pub struct StateFolder {
    path: PathBuf,
    /// Locked until this is dropped or the process exits.
    _owner: File,
}

impl StateFolder {
    /// Removes the folders of exited owners, then creates a new one.
    ///
    /// # Errors
    /// The cache folder is not writable.
    pub fn create() -> Result<Self> {
        let root = root();
        create_folder(&root)?;
        let _lock = swept(&root)?;
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = root.join(if is_inside() {
            name()
        } else {
            format!("{}-{count}", process::id())
        });
        let owner = || {
            fs::create_dir(&path)?;
            let mut owner = File::create(path.join(OWNER))?;
            owner.lock()?;
            writeln!(owner, "{}", process::id())?;
            Ok(owner)
        };
        let owner = owner().doing(|| format!("creating {}", path.display()))?;
        Ok(Self {
            path,
            _owner: owner,
        })
    }

    /// Removes the folders of exited owners.
    pub(crate) fn sweep() {
        let _ = swept(&root());
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the folders and process ids of the running owners of clusters that stay.
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
        // The folder of a node is full of mounts; the process outside removes it when they are
        // gone.
        if !is_inside() {
            remove(&self.path);
        }
    }
}

/// `$XDG_CACHE_HOME/quartet-operator/clusters`, by default under `~/.cache`.
fn root() -> PathBuf {
    variable("XDG_CACHE_HOME")
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

/// Removes the folders of exited owners. The lock that is returned is held while folders are created and
/// removed, so that no other process takes ours for abandoned between its creation and its lock.
fn swept(root: &Path) -> Result<File> {
    let lock = || {
        let lock = File::create(root.join("lock"))?;
        lock.lock()?;
        Ok(lock)
    };
    let lock = lock().doing(|| format!("locking {}", root.display()))?;
    for folder in folders(root).iter().filter(|folder| is_abandoned(folder)) {
        remove(folder);
    }
    Ok(lock)
}

/// Reports whether no running process holds the lock. A folder without an owner file was being
/// created or removed when its process exited.
fn is_abandoned(folder: &Path) -> bool {
    match OpenOptions::new().write(true).open(folder.join(OWNER)) {
        Ok(owner) => !matches!(owner.try_lock(), Err(TryLockError::WouldBlock)),
        Err(_) => true,
    }
}

/// A component of an exited owner may write for some milliseconds more, so one attempt is not
/// always enough. The next start removes what is left.
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
