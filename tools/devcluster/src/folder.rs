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

use crate::error::{Doing, Result, write};
use crate::node::inside::{is_inside, name};

/// Distinguishes the clusters of one process.
static COUNTER: AtomicU32 = AtomicU32::new(0);

const OWNER: &str = "owner";
/// Marks the folder of a cluster that stays until `devcluster down`.
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
        fs::create_dir_all(&root).doing(|| format!("creating {}", root.display()))?;
        // Held while folders are created and removed, so that no other process takes our folder for
        // abandoned between its creation and its lock.
        let lock_path = root.join("lock");
        let lock = File::create(&lock_path).doing(|| format!("opening {}", lock_path.display()))?;
        lock.lock()
            .doing(|| format!("locking {}", lock_path.display()))?;
        remove_abandoned(&root);

        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = root.join(if is_inside() {
            name()
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

    /// Removes the folders of exited owners.
    pub fn sweep() {
        let root = root();
        let lock = File::create(root.join("lock"));
        if lock.is_ok_and(|lock| lock.lock().is_ok()) {
            remove_abandoned(&root);
        }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Marks the cluster as one that [`StateFolder::staying_owners`] finds.
    ///
    /// # Errors
    /// The folder is not writable.
    pub fn mark_as_staying(&self) -> Result<()> {
        write(&self.path.join(STAYS), "")
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
