//! The command as a process: its exit codes and output, and that nothing is left of it however it
//! ends. The tests keep state folders in a cache of their own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use devcluster::{binaries, load_factor};
use rustix::process::{Pid, Signal, kill_process};

/// A cache folder, removed at the end of the test.
struct Cache(PathBuf);

impl Cache {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn devcluster(&self, arguments: &[&str]) -> Command {
        let mut command = self.at_home(Command::new(env!("CARGO_BIN_EXE_devcluster")));
        command.args(arguments);
        command
    }

    /// Returns the command with this cache and the programs that are built already.
    fn at_home(&self, mut command: Command) -> Command {
        command
            .env("XDG_CACHE_HOME", &self.0)
            .env("DEVCLUSTER_BIN", binaries().unwrap())
            // The command of `run` is found by its argument, a log in this cache.
            .env_remove("DEVCLUSTER_AUDIT_LOGS")
            .stderr(Stdio::inherit());
        command
    }

    fn state_folders(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.0.join("quartet-operator/clusters")).unwrap();
        entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_dir())
            .collect()
    }

    /// Returns the running processes with this cache in their command line: the components and the
    /// command of `run`.
    fn processes(&self) -> Vec<(Pid, String)> {
        let folder = self.0.to_str().unwrap();
        let is_zombie = |process: &Path| {
            let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
            stat.rsplit_once(") ")
                .is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
        };
        fs::read_dir("/proc")
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|process| !is_zombie(process))
            .filter_map(|process| {
                let id = process.file_name()?.to_str()?.parse().ok()?;
                let line = fs::read_to_string(process.join("cmdline"))
                    .ok()?
                    .replace('\0', " ");
                line.contains(folder).then_some((Pid::from_raw(id)?, line))
            })
            .collect()
    }

    /// Waits until these processes are as wanted; returns how long that took.
    fn until(&self, are_so: impl Fn(&[(Pid, String)]) -> bool) -> Duration {
        let (began, mut highest) = (Instant::now(), load_factor());
        loop {
            let processes = self.processes();
            if are_so(&processes) {
                return began.elapsed();
            }
            highest = highest.max(load_factor());
            let limit = Duration::from_secs(5).mul_f64(highest);
            assert!(began.elapsed() < limit, "{processes:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Starts a `run` that does not end by itself; returns once the command inside runs.
fn run_until_killed(mut command: Command) -> Child {
    let mut run = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(run.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "started\n");
    run
}

/// Kills `run`, asserts that everything it started ends soon, and returns the folder that is left.
fn folder_of_killed(cache: &Cache, mut run: Child) -> PathBuf {
    // The command inside is the last: it names the cache only after its first line.
    cache.until(|processes| processes.len() >= 6);
    run.kill().unwrap();
    run.wait().unwrap();
    let took = cache.until(|processes| processes.is_empty());
    println!("gone after {:.2} s", took.as_secs_f32());

    let mut abandoned = cache.state_folders();
    assert_eq!(abandoned.len(), 1, "{abandoned:?}");
    abandoned.remove(0)
}

const FOREVER: [&str; 6] = [
    "run",
    "--nodes=1",
    "--",
    "sh",
    "-c",
    "echo started; exec tail -f \"$DEVCLUSTER_AUDIT_LOG\" >/dev/null",
];

#[test]
fn nothing_outlives_a_killed_run_and_the_next_run_removes_its_folder() {
    let cache = Cache::new("devcluster-killed");
    println!("a killed run with a paused component");
    let first = a_paused_component_ends_with_a_killed_run(&cache);
    println!("a run that ends by itself");
    run_returns_the_exit_code_and_offers_our_kubectl_with_a_cache_of_its_own(&cache, &first);
}

fn a_paused_component_ends_with_a_killed_run(cache: &Cache) -> PathBuf {
    let run = run_until_killed(cache.devcluster(&FOREVER));
    let (scheduler, _) = cache
        .processes()
        .into_iter()
        .find(|(_, line)| line.contains("kube-scheduler "))
        .expect("a scheduler");
    kill_process(scheduler, Signal::STOP).unwrap();
    folder_of_killed(cache, run)
}

fn run_returns_the_exit_code_and_offers_our_kubectl_with_a_cache_of_its_own(
    cache: &Cache,
    abandoned: &Path,
) {
    let script = "kubectl get nodes -o name; command -v kubectl; \
                  test ! -e \"$ABANDONED\" && \
                  test -d \"${KUBECONFIG%/*}/kubectl-cache/discovery\" && exit 7";
    let output = cache
        .devcluster(&["run", "--nodes=3", "--", "sh", "-c", script])
        .env("ABANDONED", abandoned)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(7));
    let kubectl = binaries().unwrap().join("kubectl");
    let kubectl = kubectl.display();
    let expected = format!("node/node-1\nnode/node-2\nnode/node-3\n{kubectl}\n");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    assert_eq!(cache.state_folders(), Vec::<PathBuf>::new());
}

#[test]
fn up_leaves_one_cluster_running_and_down_stops_it() {
    let cache = Cache::new("devcluster-up");
    // `output` returns when the pipes are closed: it also tests that the holder keeps none open.
    let command = "echo it runs; touch beside; exec tail -f \"$KUBECONFIG\" >/dev/null";
    let up = || {
        let mut up = cache.devcluster(&["up", "--", "sh", "-c", command]);
        String::from_utf8(up.current_dir(&cache.0).output().unwrap().stdout).unwrap()
    };
    let line = up();
    let kubeconfig = line
        .trim()
        .strip_prefix("export KUBECONFIG=")
        .expect("an export line");
    assert!(Path::new(kubeconfig).exists());
    cache.until(|_| cache.0.join("beside").exists());
    let log = Path::new(kubeconfig).with_file_name("command.log");
    assert_eq!(fs::read_to_string(log).unwrap(), "it runs\n");
    assert_eq!(up(), line, "a second `up` names the first one's cluster");

    assert!(cache.devcluster(&["down"]).status().unwrap().success());
    assert!(cache.processes().is_empty());
    assert_eq!(cache.state_folders(), Vec::<PathBuf>::new());
    nothing_outlives_a_killed_holder(&cache, up);
}

/// Neither the components, nor the command, which does not watch its input.
fn nothing_outlives_a_killed_holder(cache: &Cache, up: impl Fn() -> String) {
    up();
    cache.until(|processes| processes.iter().any(|(_, line)| line.starts_with("tail ")));
    let holder = fs::read_to_string(cache.state_folders()[0].join("owner")).unwrap();
    let holder = Pid::from_raw(holder.trim().parse().unwrap()).unwrap();
    kill_process(holder, Signal::KILL).unwrap();
    cache.until(|processes| processes.is_empty());
}

#[test]
fn a_manager_that_exits_fails_the_demo_with_the_end_of_its_log() {
    let cache = Cache::new("devcluster-demo");
    let manager = cache.0.join("manager");
    fs::write(&manager, "#!/bin/sh\necho no port for me\nexit 3\n").unwrap();
    fs::set_permissions(&manager, fs::Permissions::from_mode(0o755)).unwrap();

    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hack/demo.sh");
    let output = cache
        .at_home(Command::new(demo))
        .arg(env!("CARGO_BIN_EXE_devcluster"))
        .arg(&manager)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("the manager ended"), "{told}");
    assert!(told.contains("no port for me"), "{told}");
    assert!(cache.processes().is_empty());
}
