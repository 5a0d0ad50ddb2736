//! The examination of this machine, and its description.

use std::fs;

use plimsoll::doctor::{examine, render};
use plimsoll_proc::Tree;
use plimsoll_sample::host::host_of;
use rustix::process::geteuid;

use super::{Machine, SCHEME, modern_host, paging_out};

/// State that a check of this machine must not change: swap, zram, every setting, the identity of this process.
#[test]
fn an_examination_changes_nothing() {
    // Other tests add devices and change settings.
    let _alone = geteuid().is_root().then(crate::machine::alone);
    let state = || {
        let tree = Tree::live();
        let mut host = host_of(&tree);
        // Counters that move by themselves.
        host.settings
            .retain(|path, _| !path.contains("page_reporting") && !path.contains("khugepaged"));
        (
            host,
            tree.list("sys/block"),
            tree.field("proc/self/status", "Uid"),
            tree.field("proc/self/status", "CapEff"),
            rustix::process::dumpable_behavior(),
            tree.writable("proc/self/oom_score_adj"),
        )
    };
    let before = state();
    let examination = examine(&std::env::temp_dir());
    assert_eq!(state(), before);
    let userfaultfd = examination.check("userfaultfd").expect("a check");
    // Only root can become another user and try.
    assert_eq!(
        !userfaultfd.values["unprivileged_access"].is_null(),
        geteuid().is_root()
    );
}

#[test]
fn this_machine_is_described_as_the_procfs_crate_sees_it() {
    use procfs::Current;
    let host = plimsoll_sample::host::host();
    let meminfo = procfs::Meminfo::current().expect("procfs reads meminfo");
    assert_eq!(host.mem_total, meminfo.mem_total);
    assert_eq!(
        host.cpus as usize,
        procfs::CpuInfo::current()
            .expect("procfs reads cpuinfo")
            .num_cores()
    );
    assert!(host.kernel.starts_with(
        &procfs::sys::kernel::Version::current().map_or(String::new(), |version| {
            format!("{}.{}.{}", version.major, version.minor, version.patch)
        })
    ));
    let swappiness = fs::read_to_string("/proc/sys/vm/swappiness").expect("there is swappiness");
    assert_eq!(host.settings["/proc/sys/vm/swappiness"], swappiness.trim());
    assert!(host.settings.contains_key("/proc/cmdline"));
}

#[test]
fn settings_include_damon_schemes_without_counters() {
    let machine = paging_out()
        .with(&format!("{SCHEME}/stats/nr_tried"), "77\n")
        .with(&format!("{SCHEME}/quotas/effective_bytes"), "4096\n")
        .with("sys/kernel/mm/transparent_hugepage/khugepaged/full_scans", "9\n")
        .with(
            "sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan",
            "4096\n",
        )
        .with(&format!("{SCHEME}/ops_filters/0/type"), "anon\n");
    let host = host_of(&machine.tree());
    assert_eq!(host.settings[&format!("/{SCHEME}/action")], "pageout");
    assert_eq!(host.settings[&format!("/{SCHEME}/ops_filters/0/type")], "anon");
    assert_eq!(host.settings["/sys/module/zswap/parameters/compressor"], "zstd");
    assert_eq!(
        host.settings["/sys/kernel/mm/transparent_hugepage/enabled"],
        "always [madvise] never"
    );
    for counter in ["stats", "effective_bytes", "full_scans"] {
        assert!(
            !host.settings.keys().any(|path| path.contains(counter)),
            "{counter}"
        );
    }
    assert!(host.settings.keys().any(|path| path.ends_with("pages_to_scan")));
    assert_eq!(
        (host.cpus, host.cpu.as_str(), host.hostname.as_str()),
        (5, "A CPU", "ship")
    );
    assert_eq!(
        (host.cgroup.as_str(), host.virtualization.as_str()),
        ("v2", "none")
    );
}

/// The kernel writes white space and backslashes in paths as octal (`seq_path` with "\t\n\\ ").
fn escaped(path: &str) -> String {
    let escape = |c: char| match c {
        ' ' | '\t' | '\n' | '\\' => format!("\\{:03o}", c as u32),
        c => c.to_string(),
    };
    path.chars().map(escape).collect()
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(32))]

    #[test]
    fn any_swap_path_reads_back(path in "/[a-z \\\\\t01é(]{1,20}", size in 1_u64..1 << 40, priority in -5_i32..100) {
        let kib = size / 1024;
        let line = format!("{}\tfile\t\t{kib}\t\t0\t\t{priority}\n", escaped(&path));
        let machine = Machine::empty().with("proc/swaps", &format!("Filename\tType\tSize\tUsed\tPriority\n{line}"));
        proptest::prop_assert_eq!(host_of(&machine.tree()).swap_before, vec![(path, kib * 1024)]);
    }

    #[test]
    fn any_text_in_the_files_is_survived(text in "\\PC{0,60}|[0-9 :./,\\[\\]\n-]{0,60}") {
        let machine = modern_host();
        let files = [
            "proc/swaps", "proc/self/mountinfo", "proc/self/cgroup", "proc/self/status", "proc/self/limits", "proc/stat",
            "proc/loadavg", "proc/meminfo", "proc/cgroups", "proc/sys/vm/page-cluster", "proc/pressure/memory",
            "sys/devices/system/cpu/online", "sys/block/zram0/initstate", "sys/kernel/mm/lru_gen/enabled",
            "sys/kernel/mm/transparent_hugepage/enabled",
        ];
        let machine = files.iter().fold(machine, |machine, file| machine.with(file, &text));
        let examination = machine.examine();
        proptest::prop_assert!(!render(&examination, 80, true).is_empty());
    }
}
