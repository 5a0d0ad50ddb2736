//! No parser panics, for any content of a file.

use std::fs;

use plimsoll_proc::capabilities::Capabilities;
use plimsoll_proc::cgroup::{
    CgroupVersion, Hierarchy, MemoryCgroup, MemoryStat, controllers, members, paths,
};
use plimsoll_proc::fields::{self, unescape};
use plimsoll_proc::kallsyms::Symbols;
use plimsoll_proc::lru_gen::{self, LruGen};
use plimsoll_proc::resource_limits::Limits;
use plimsoll_proc::schedstat::Schedstat;
use plimsoll_proc::swap_header::SwapHeader;
use plimsoll_proc::zram::{MmStat, Zram, devices_of};
use plimsoll_proc::zswap::Zswap;
use plimsoll_proc::{
    PidStat, PidStatus, Security, Statm, Tree, boot, chosen, command_line, cpu_times, cpus, crypto, damon,
    iomem, loadavg, maps, meminfo, mounts, oom, page_reporting, psi, read_ahead, smaps_rollup, swapped,
    swaps, sysctl, vmstat,
};
use proptest::prelude::*;

/// Bytes with the separators of every format among them, so that they reach deep into the parsers.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let marks = prop::sample::select(b" \n\t:()-,\\=[]/.0123456789abcdefx\0\xff".to_vec());
    let words = prop::sample::select(vec![
        "some",
        "full",
        "total=",
        "avg10=",
        "cpu ",
        "Pss:",
        "VmSwap:",
        "\nVmSwap:",
        "Uid:",
        "CapEff:",
        " - ",
        "cgroup2",
        "memory",
        "0::/",
        "99999999999999999999",
        "18446744073709551615",
        "9223372036854775807",
        "\\777",
        "MemTotal:",
        "zswap",
        "oom_kill ",
        "max",
        "name : a\ntype : scomp\n",
        " : System RAM",
    ]);
    let piece = prop_oneof![
        4 => marks.prop_map(|byte| vec![byte]),
        3 => words.prop_map(|word| word.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..8),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

fn parse_all(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = (
        fields::number(bytes),
        fields::first_number(bytes),
        fields::kib(bytes),
        unescape(bytes),
    );
    let _ = (
        fields::words(bytes).count(),
        fields::value_of(bytes, "MemTotal"),
        chosen(&text).len(),
    );
    let _ = (
        PidStat::parse(bytes),
        PidStatus::parse(bytes).wss(),
        Security::parse(bytes),
        swapped(bytes),
    );
    let _ = (
        Statm::parse(bytes).map(Statm::anonymous),
        Schedstat::parse(bytes),
        smaps_rollup::pss(bytes),
    );
    let _ = (
        Limits::parse(bytes),
        command_line::parse(bytes),
        oom::score(bytes),
        oom::adjustment(bytes),
    );
    let _ = (
        maps::parse(bytes)
            .filter(|mapping| mapping.is_private_anonymous())
            .count(),
        Capabilities::parse(bytes),
    );
    let _ = (
        cpu_times::parse(bytes),
        psi::parse(bytes),
        meminfo::bytes(bytes, "MemTotal"),
        vmstat::value(bytes, "x"),
    );
    let _ = (
        swaps::parse(bytes),
        swaps::lines(bytes).count(),
        MmStat::parse(bytes),
        SwapHeader::decode(bytes),
    );
    let _ = (lru_gen::bits(&text), boot::switch_in(&text, "psi"));
    let _ = Symbols::parse(&text).map(|symbols| (symbols.name(1).is_some(), symbols.range("x")));
    let mounts = mounts::parse(&text);
    let _ = (mounts::hide_processes(&mounts), Hierarchy::parse(&text, &text));
    for version in [CgroupVersion::V1, CgroupVersion::V2] {
        let _ = MemoryStat::parse(bytes, version);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_a_parser_panic(bytes in bytes()) {
        parse_all(&bytes);
    }

    #[test]
    fn no_random_bytes_make_a_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        parse_all(&bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_files_make_a_reader_of_a_tree_panic(bytes in bytes()) {
        let folder = tempfile::tempdir().unwrap();
        for file in [
            "proc/self/cgroup", "proc/self/mountinfo", "proc/cgroups", "proc/crypto", "proc/iomem", "proc/cpuinfo",
            "proc/loadavg", "proc/meminfo", "proc/vmstat", "proc/swaps", "proc/sys/kernel/osrelease",
            "sys/devices/system/cpu/online", "sys/module/zswap/parameters/enabled",
            "sys/module/zswap/parameters/max_pool_percent", "sys/block/zram0/disksize", "sys/block/zram0/mm_stat",
            "sys/block/zram0/comp_algorithm", "sys/block/zram0/initstate",
            "sys/kernel/mm/damon/admin/kdamonds/0/refresh_ms", "sys/kernel/mm/damon/admin/kdamonds/0/state",
            "scheme/action", "scheme/access_pattern/age/min", "scheme/quotas/bytes", "scheme/quotas/reset_interval_ms",
            "scheme/filters/0/type", "context/monitoring_attrs/intervals/aggr_us", "proc/1/cgroup", "proc/1/comm",
            "proc/cmdline", "sys/kernel/mm/lru_gen/enabled", "sys/kernel/mm/lru_gen/min_ttl_ms",
            "sys/module/page_reporting/parameters/reported_kib", "sys/bus/virtio/devices/virtio0/device",
            "sys/bus/virtio/devices/virtio0/features", "sys/class/bdi/0:0/read_ahead_kb", "group/memory.max", "group/memory.limit_in_bytes",
            "group/memory.high", "group/memory.stat", "group/memory.current", "group/memory.usage_in_bytes",
            "group/memory.swap.current", "group/memory.pressure", "group/memory.events", "group/memory.oom_control",
            "group/cgroup.procs", "group/cgroup.controllers",
        ] {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, &bytes).unwrap();
        }
        let tree = Tree::below(folder.path());
        let _ = (Hierarchy::of(&tree), mounts::of(&tree), swaps::of(&tree), controllers::memory(&tree));
        let _ = (cpus::online(&tree), cpus::model(&tree), loadavg::last_minute(&tree), crypto::compressors(&tree));
        let _ = (iomem::memory_frames(&tree), vmstat::refaults(&tree), sysctl::kernel(&tree), Zswap::read(&tree));
        prop_assert_eq!(devices_of(&tree), [0]);
        prop_assert_eq!(damon::kdamonds(&tree).len(), 1);
        let _ = damon::refreshes_statistics(&tree, &damon::kdamonds(&tree)[0]);
        let _ = (damon::is_on(&tree, &damon::kdamonds(&tree)[0]), damon::has_thread(&tree));
        prop_assert!(damon::Scheme::read(&tree, "context", "scheme").is_some());
        prop_assert!(LruGen::of(&tree).is_some());
        let _ = (boot::switch(&tree, "psi"), boot::is_built_without(&tree, "CONFIG_PSI"), paths(&tree, 1));
        let _ = (page_reporting::reported_bytes(&tree), page_reporting::balloon(&tree), read_ahead::bytes(&tree, 0));
        let zram = Zram::of_tree(&tree, 0);
        let _ = (zram.size(), zram.algorithm(), zram.algorithm_names(), zram.is_configured(), zram.memory(), zram.is_free());
        for version in [CgroupVersion::V1, CgroupVersion::V2] {
            let group = MemoryCgroup::new(folder.path().join("group"), version);
            let _ = (group.usage(), group.swap(), group.limit(), group.high(), group.caps().count());
            let _ = (group.oom_kills(), group.stat(), group.stalled_us(), group.forbids_swap());
            let _ = (group.processes(), group.has_controller(), members(group.path()));
        }
    }
}
