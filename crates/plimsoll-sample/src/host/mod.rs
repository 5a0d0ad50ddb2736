//! The machine that a recording was made on: its name, kernel, memory, and every setting that moves the numbers.

use std::collections::BTreeMap;

use plimsoll_model::recording::model::Host;

mod cgroup;
mod mounts;
mod swap;
mod tree;
mod virtualization;

pub use cgroup::MemoryCgroup;
pub use mounts::{Mount, mounts};
pub use swap::{SwapDevice, swap_devices};
pub use tree::Tree;
pub use virtualization::{container, hypervisor, virtualization};

/// Kernel settings (`/proc/sys`) that decide how memory is reclaimed, promised and written back.
const SYSCTLS: &[&str] = &[
    "vm/swappiness",
    "vm/page-cluster",
    "vm/watermark_boost_factor",
    "vm/watermark_scale_factor",
    "vm/min_free_kbytes",
    "vm/overcommit_memory",
    "vm/overcommit_ratio",
    "vm/overcommit_kbytes",
    "vm/dirty_background_bytes",
    "vm/dirty_background_ratio",
    "vm/dirty_bytes",
    "vm/dirty_ratio",
    "vm/dirty_expire_centisecs",
    "vm/dirty_writeback_centisecs",
    "vm/vfs_cache_pressure",
    "vm/zone_reclaim_mode",
    "vm/compaction_proactiveness",
    "vm/compact_unevictable_allowed",
    "vm/laptop_mode",
    "vm/max_map_count",
    "vm/oom_kill_allocating_task",
    "vm/panic_on_oom",
    "vm/nr_hugepages",
    "vm/unprivileged_userfaultfd",
    "vm/user_reserve_kbytes",
    "vm/admin_reserve_kbytes",
    "kernel/numa_balancing",
    "kernel/perf_event_paranoid",
    "kernel/randomize_va_space",
];

/// Folders of which every readable file is kept, and how deep below them.
const FOLDERS: &[(&str, u32)] = &[
    ("sys/kernel/mm/transparent_hugepage", 1),
    ("sys/kernel/mm/lru_gen", 0),
    ("sys/kernel/mm/swap", 0),
    ("sys/module/zswap/parameters", 0),
    ("sys/module/zram/parameters", 0),
    ("sys/module/page_reporting/parameters", 0),
    ("sys/module/damon_reclaim/parameters", 0),
    ("sys/module/damon_lru_sort/parameters", 0),
    ("sys/module/damon_stat/parameters", 0),
];

/// Single files that are kept.
const FILES: &[&str] = &[
    "proc/cmdline",
    "sys/kernel/mm/ksm/run",
    "sys/kernel/mm/numa/demotion_enabled",
    "sys/devices/system/cpu/smt/active",
    "sys/devices/system/cpu/intel_pstate/no_turbo",
    "sys/devices/system/cpu/cpufreq/boost",
    "sys/devices/system/clocksource/clocksource0/current_clocksource",
    "sys/hypervisor/type",
];

/// The folder of DAMON's running monitors.
const KDAMONDS: &str = "sys/kernel/mm/damon/admin/kdamonds";

/// Describes the machine that this process runs on. Reads alone; what may not be read is left out.
pub fn host() -> Host {
    host_of(&Tree::live())
}

/// Describes the machine whose files are `tree`.
pub fn host_of(tree: &Tree) -> Host {
    Host {
        hostname: tree.read("proc/sys/kernel/hostname").unwrap_or_default(),
        kernel: kernel(tree),
        cpu: cpu_model(tree).unwrap_or_default(),
        cpus: online_cpus(tree),
        mem_total: tree.kib_field("proc/meminfo", "MemTotal").unwrap_or_default(),
        page_size: rustix::param::page_size() as u64,
        cgroup: MemoryCgroup::of(tree).name().to_owned(),
        swap_before: swap_devices(tree)
            .into_iter()
            .map(|swap| (swap.path, swap.size))
            .collect(),
        virtualization: virtualization(tree),
        settings: settings(tree),
    }
}

/// Release and version, as `uname -r` and `-v` print them.
pub fn kernel(tree: &Tree) -> String {
    let release = tree.read("proc/sys/kernel/osrelease").unwrap_or_default();
    let version = tree.read("proc/sys/kernel/version").unwrap_or_default();
    format!("{release} {version}").trim().to_owned()
}

/// `model name` on x86; where that is missing (Arm), implementer and part, or the machine that firmware names.
fn cpu_model(tree: &Tree) -> Option<String> {
    let cpuinfo = |key| tree.field("proc/cpuinfo", key);
    cpuinfo("model name").or_else(|| cpuinfo("Model")).or_else(|| {
        Some(format!(
            "implementer {} part {}",
            cpuinfo("CPU implementer")?,
            cpuinfo("CPU part")?
        ))
    })
}

/// CPUs that are online, from the kernel's list (`0-3,6`), or counted in `cpuinfo`.
pub fn online_cpus(tree: &Tree) -> u32 {
    let list = tree.read("sys/devices/system/cpu/online").unwrap_or_default();
    let from_list = count_in_list(&list);
    if from_list > 0 {
        return from_list;
    }
    let cpuinfo = tree.read("proc/cpuinfo").unwrap_or_default();
    cpuinfo
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count() as u32
}

fn count_in_list(list: &str) -> u32 {
    let count = |range: &str| -> Option<u32> {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        Some(last.checked_sub(first)? + 1)
    };
    list.split(',').filter_map(count).sum()
}

/// Every relevant sysctl and sysfs value by absolute path.
fn settings(tree: &Tree) -> BTreeMap<String, String> {
    let mut kept = BTreeMap::new();
    for name in SYSCTLS {
        keep(tree, &format!("proc/sys/{name}"), &mut kept);
    }
    for path in FILES {
        keep(tree, path, &mut kept);
    }
    for (folder, depth) in FOLDERS {
        keep_folder(tree, folder, *depth, &mut kept);
    }
    for cpu in tree.list("sys/devices/system/cpu/cpufreq") {
        for file in [
            "scaling_driver",
            "scaling_governor",
            "scaling_min_freq",
            "scaling_max_freq",
        ] {
            keep(
                tree,
                &format!("sys/devices/system/cpu/cpufreq/{cpu}/{file}"),
                &mut kept,
            );
        }
    }
    keep_damon(tree, &mut kept);
    kept
}

fn keep(tree: &Tree, path: &str, kept: &mut BTreeMap<String, String>) {
    if let Some(value) = tree.read(path) {
        kept.insert(format!("/{path}"), value);
    }
}

fn keep_folder(tree: &Tree, folder: &str, depth: u32, kept: &mut BTreeMap<String, String>) {
    for name in tree.list(folder) {
        let path = format!("{folder}/{name}");
        if !tree.path(&path).is_dir() {
            keep(tree, &path, kept);
        } else if depth > 0 {
            keep_folder(tree, &path, depth - 1, kept);
        }
    }
}

/// What each DAMON thread does and how fast: enough to repeat it, without its counters.
fn keep_damon(tree: &Tree, kept: &mut BTreeMap<String, String>) {
    for kdamond in tree.list(KDAMONDS) {
        keep(tree, &format!("{KDAMONDS}/{kdamond}/state"), kept);
        let contexts = format!("{KDAMONDS}/{kdamond}/contexts");
        for context in tree.list(&contexts) {
            keep(tree, &format!("{contexts}/{context}/operations"), kept);
            keep_folder(
                tree,
                &format!("{contexts}/{context}/monitoring_attrs/intervals"),
                0,
                kept,
            );
            let schemes = format!("{contexts}/{context}/schemes");
            for scheme in tree.list(&schemes) {
                keep(tree, &format!("{schemes}/{scheme}/action"), kept);
                for folder in [
                    "quotas",
                    "access_pattern",
                    "ops_filters",
                    "core_filters",
                    "filters",
                ] {
                    let depth = u32::from(folder != "quotas");
                    keep_folder(tree, &format!("{schemes}/{scheme}/{folder}"), depth, kept);
                }
            }
        }
    }
}
