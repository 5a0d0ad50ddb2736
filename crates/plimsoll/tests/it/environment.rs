//! Tests of the `environment` room: on the real kernel where root allows, and always undone.
//!
//! Swap, zswap and sysctls are the machine's: tests that change them hold the machine lock, and so wait for each
//! other and for any run of the program itself.

mod cgroups;
mod journals;
mod killed_runs;
mod planted;
mod reserves;
mod swap_areas;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use plimsoll_lab::environment::Session;
use plimsoll_model::scenario::Settings;
use plimsoll_testkit::capability;

use plimsoll_proc::cgroup::Hierarchy;

const MIB: u64 = 1 << 20;

/// A stop without a request.
static NEVER: AtomicBool = AtomicBool::new(false);

fn root() -> bool {
    rustix::process::geteuid().is_root()
}

fn has_cgroup() -> bool {
    let found = Hierarchy::of_this_process();
    capability(
        "cgroup",
        root() && found.is_ok(),
        "needs root and a memory cgroup hierarchy",
    )
}

fn has_zram() -> bool {
    let there = Path::new("/sys/class/zram-control/hot_add").exists();
    has_cgroup() && capability("zram", root() && there, "needs root and the zram module")
}

fn has_swap_file() -> bool {
    has_cgroup() && capability("swapfile", root(), "needs root")
}

fn has_zswap() -> bool {
    let there = Path::new("/sys/module/zswap/parameters/enabled").exists();
    has_swap_file() && capability("zswap", root() && there, "needs root and CONFIG_ZSWAP")
}

/// The machine's lock, for a test that changes global settings.
fn session(run: &str) -> Session {
    crate::machine::alone_as(run)
}

/// A small trial on `subject`.
fn settings(subject: &str) -> Settings {
    crate::machine::settings(subject, 32 * MIB, 48 * MIB, 64 * MIB)
}

/// A folder on a real disk: the system's own for temporary files is often in memory.
fn disk() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path.as_ref()).unwrap().trim().to_owned()
}

/// Lines of /proc/swaps, as `(path, priority)`.
fn swaps() -> Vec<(String, i32)> {
    let text = read("/proc/swaps");
    let parse = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        (fields[0].to_owned(), fields[4].parse().unwrap())
    };
    text.lines().skip(1).map(parse).collect()
}

/// The zram devices with their sizes.
fn zram_devices() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/sys/block").unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name.starts_with("zram") {
            found.push((name, read(entry.path().join("disksize"))));
        }
    }
    found.sort();
    found
}

/// Everything that a run could leave behind, to compare before and after. Only under the machine lock.
#[derive(Debug, PartialEq)]
struct Traces {
    swaps: Vec<(String, i32)>,
    zram: Vec<(String, String)>,
    values: Vec<(&'static str, String)>,
    swap_files: Vec<PathBuf>,
}

impl Traces {
    fn now() -> Traces {
        let paths = [
            "/proc/sys/vm/swappiness",
            "/proc/sys/vm/page-cluster",
            "/sys/module/zswap/parameters/enabled",
            "/sys/module/zswap/parameters/compressor",
            "/sys/module/zswap/parameters/max_pool_percent",
        ];
        let entries = fs::read_dir(disk()).unwrap().map(|entry| entry.unwrap().path());
        Traces {
            swaps: swaps(),
            zram: zram_devices(),
            values: paths
                .into_iter()
                .filter(|path| Path::new(path).exists())
                .map(|path| (path, read(path)))
                .collect(),
            swap_files: entries
                .filter(|path| path.extension().is_some_and(|e| e == "swap"))
                .collect(),
        }
    }
}

/// This test program again, running only `test` (a test that does its work only with the variable `ROLE` set).
fn again(test: &str) -> std::process::Command {
    let mut command = plimsoll_testkit::command(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).env(ROLE, test);
    command
}

/// Environment variable that makes a test the helper process of another one.
const ROLE: &str = "PLIMSOLL_TEST_ROLE";

/// Whether this process was started by [`again`] for `test`.
fn is_role(test: &str) -> bool {
    std::env::var(ROLE).is_ok_and(|role| role == test)
}
