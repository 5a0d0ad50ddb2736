//! The machine that a recording was made on: its name, kernel, memory, and every setting that moves the numbers.

use std::collections::BTreeMap;

use plimsoll_model::recording::is_counter;
use plimsoll_model::recording::model::Host;

use plimsoll_proc::cgroup::{CgroupVersion, Hierarchy};
use plimsoll_proc::{Tree, cpus, damon, meminfo, swaps, sysctl};

mod virtualization;

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

/// Folders whose readable files are recorded, and how deep below them.
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

/// Describes the machine that this process runs on. Changes nothing; unreadable files are left out.
pub fn host() -> Host {
    host_of(&Tree::live())
}

/// Describes the machine whose files are `tree`.
pub fn host_of(tree: &Tree) -> Host {
    Host {
        hostname: tree.read(sysctl::HOST_NAME).unwrap_or_default(),
        kernel: sysctl::kernel(tree),
        cpu: cpus::model(tree).unwrap_or_default(),
        cpus: cpus::online(tree),
        mem_total: meminfo::read(tree, "MemTotal").unwrap_or_default(),
        page_size: rustix::param::page_size() as u64,
        cgroup: Hierarchy::of(tree)
            .map_or("none", |hierarchy| CgroupVersion::name(hierarchy.version))
            .to_owned(),
        swap_before: swaps::of(tree)
            .into_iter()
            .map(|swap| (swap.path.display().to_string(), swap.size))
            .collect(),
        virtualization: virtualization(tree),
        settings: settings(tree),
    }
}

/// Every relevant sysctl and sysfs value by absolute path.
fn settings(tree: &Tree) -> BTreeMap<String, String> {
    let mut kept = BTreeMap::new();
    for name in SYSCTLS {
        keep(tree, &sysctl::file(name).to_string_lossy(), &mut kept);
    }
    for path in FILES {
        keep(tree, path, &mut kept);
    }
    for (folder, depth) in FOLDERS {
        keep_folder(tree, folder, *depth, &mut kept);
    }
    for cpu in tree.list(cpus::FREQUENCY_POLICIES) {
        for file in [
            "scaling_driver",
            "scaling_governor",
            "scaling_min_freq",
            "scaling_max_freq",
        ] {
            keep(
                tree,
                &format!("{}/{cpu}/{file}", cpus::FREQUENCY_POLICIES),
                &mut kept,
            );
        }
    }
    keep_damon(tree, &mut kept);
    kept
}

fn keep(tree: &Tree, path: &str, kept: &mut BTreeMap<String, String>) {
    let absolute = format!("/{}", path.trim_start_matches('/'));
    if is_counter(&absolute) {
        return;
    }
    if let Some(value) = tree.read(path) {
        kept.insert(absolute, value);
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

/// The schemes and intervals of each DAMON thread: enough to repeat them, without their counters.
fn keep_damon(tree: &Tree, kept: &mut BTreeMap<String, String>) {
    for kdamond in damon::kdamonds(tree) {
        keep(tree, &format!("{kdamond}/state"), kept);
        for context in damon::contexts(tree, &kdamond) {
            keep(tree, &format!("{context}/operations"), kept);
            keep_folder(tree, &format!("{context}/monitoring_attrs/intervals"), 0, kept);
            for scheme in damon::schemes(tree, &context) {
                keep(tree, &format!("{scheme}/action"), kept);
                for folder in ["quotas", "access_pattern"].into_iter().chain(damon::FILTERS) {
                    let depth = u32::from(folder != "quotas");
                    keep_folder(tree, &format!("{scheme}/{folder}"), depth, kept);
                }
            }
        }
    }
}
