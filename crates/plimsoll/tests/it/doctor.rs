//! Tests of the `doctor` room, on machines made up of files, and on this one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use plimsoll::doctor::{
    Check, Disk, EXAMINATION_SCHEMA, Examination, Outcome, Probes, State, UffdAccess, examine,
    examine_machine, render,
};
use plimsoll::recording::host::{Tree, host_of};
use plimsoll_os::UffdApi;
use rustix::process::{Gid, Uid, geteuid};
use tempfile::TempDir;

/// A machine of files below a temporary folder.
struct Machine {
    folder: TempDir,
}

impl Machine {
    /// Nothing at all: no `/proc`, no `/sys`.
    fn empty() -> Machine {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("the folder is ours");
        Machine { folder }
    }

    fn with(self, path: &str, text: &str) -> Machine {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().expect("a file has a folder")).expect("folders can be made");
        fs::write(path, text).expect("files can be written");
        self
    }

    fn without(self, path: &str) -> Machine {
        let path = self.folder.path().join(path);
        if path.is_dir() {
            fs::remove_dir_all(path)
        } else {
            fs::remove_file(path)
        }
        .expect("it was there");
        self
    }

    fn mode(self, path: &str, mode: u32) -> Machine {
        let path = self.folder.path().join(path);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the file is ours");
        self
    }

    fn tree(&self) -> Tree {
        Tree::below(self.folder.path())
    }

    fn examine(&self) -> Examination {
        examine_machine(&self.tree(), &all_work())
    }

    fn check(&self, id: &str) -> Check {
        check(&self.examine(), id)
    }
}

fn check(examination: &Examination, id: &str) -> Check {
    examination
        .check(id)
        .unwrap_or_else(|| panic!("there is a check {id}"))
        .clone()
}

/// Every system call works, and the disk is fine.
fn all_work() -> Probes {
    Probes {
        page_out: Ok(()),
        process_madvise: Ok(()),
        userfaultfd: uffd(Ok(()), Ok(()), Some(0x1ffff)),
        userfaultfd_unprivileged: None,
        perf_user: Ok(()),
        perf_software: Ok(()),
        perf_hardware: Ok(()),
        disk: Some(Disk {
            folder: "/srv/swap".to_owned(),
            free: 50 << 30,
            size: 100 << 30,
        }),
    }
}

fn refused() -> Outcome {
    Err("Operation not permitted (errno 1)".to_owned())
}

fn uffd(full: Outcome, user_mode_only: Outcome, features: Option<u64>) -> UffdAccess {
    let api = features.map(|features| UffdApi { features, ioctls: 0 });
    UffdAccess {
        full,
        user_mode_only,
        device: refused(),
        api,
    }
}

const STATUS_ROOT: &str =
    "Name:\tx\nUid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\nNoNewPrivs:\t0\nSeccomp:\t0\n";
/// The capabilities that Docker gives, its filter, and a user who is root inside.
const STATUS_DOCKER: &str =
    "Name:\tx\nUid:\t0\t0\t0\t0\nCapEff:\t00000000a80425fb\nNoNewPrivs:\t0\nSeccomp:\t2\n";
const STATUS_USER: &str =
    "Name:\tx\nUid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t0\n";
const MEMINFO: &str =
    "MemTotal:       16384000 kB\nMemFree:         8000000 kB\nMemAvailable:   12000000 kB\n";
const LIMITS: &str = "Limit                     Soft Limit           Hard Limit           Units\n\
    Max locked memory         8388608              8388608              bytes\n";

/// A current distribution on bare metal, as root: cgroup v2, everything there, nothing disturbing.
fn modern_host() -> Machine {
    Machine::empty()
        .with("proc/sys/kernel/osrelease", "6.12.1-amd64\n")
        .with("proc/sys/kernel/version", "#1 SMP Debian\n")
        .with("proc/sys/kernel/hostname", "ship\n")
        .with("proc/sys/vm/swappiness", "60\n")
        .with("proc/sys/vm/page-cluster", "3\n")
        .with("proc/sys/vm/min_free_kbytes", "67584\n")
        .with("proc/sys/vm/unprivileged_userfaultfd", "0\n")
        .with("proc/sys/kernel/perf_event_paranoid", "1\n")
        .with("proc/cmdline", "quiet\n")
        .with("proc/meminfo", MEMINFO)
        .with("proc/loadavg", "0.10 0.20 0.30 1/100 1234\n")
        .with("proc/stat", "cpu  1000 0 500 98000 10 0 5 0 0 0\ncpu0 1 1 1 1\n")
        .with("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n")
        .with(
            "proc/pressure/memory",
            "some avg10=0.12 avg60=0.00 avg300=0.00 total=5\nfull avg10=0.00 avg60=0 avg300=0 total=0\n",
        )
        .with("proc/self/status", STATUS_ROOT)
        .with("proc/self/limits", LIMITS)
        .with("proc/self/cgroup", "0::/user.slice/session.scope\n")
        .with(
            "proc/self/mountinfo",
            "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n\
             30 22 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n\
             40 22 8:2 / /srv rw,relatime shared:5 - xfs /dev/sda2 rw\n",
        )
        .with(
            "proc/cgroups",
            "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t0\t90\t1\nmemory\t0\t90\t1\n",
        )
        .with(
            "proc/cpuinfo",
            "processor\t: 0\nmodel name\t: A CPU\nflags\t\t: fpu sse\n",
        )
        .with("sys/devices/system/cpu/online", "0-3,6\n")
        .with(
            "sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
            "performance\n",
        )
        .with(
            "sys/devices/system/clocksource/clocksource0/available_clocksource",
            "tsc hpet\n",
        )
        .with("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n")
        .with("sys/fs/cgroup/cgroup.subtree_control", "memory\n")
        .with(
            "sys/fs/cgroup/user.slice/session.scope/cgroup.controllers",
            "memory pids\n",
        )
        .with(
            "sys/fs/cgroup/user.slice/session.scope/cgroup.subtree_control",
            "\n",
        )
        .with("sys/fs/cgroup/user.slice/session.scope/memory.reclaim", "")
        .with("sys/fs/cgroup/user.slice/session.scope/memory.max", "max\n")
        .with("sys/class/zram-control/hot_add", "")
        .with("sys/block/zram0/initstate", "0\n")
        .with("sys/block/zram0/disksize", "0\n")
        .with("sys/block/zram0/comp_algorithm", "lzo-rle [zstd] lz4\n")
        .with("dev/zram0", "")
        .with("sys/module/zswap/parameters/enabled", "N\n")
        .with("sys/module/zswap/parameters/compressor", "zstd\n")
        .with("sys/module/zswap/parameters/max_pool_percent", "20\n")
        .with("sys/module/zswap/parameters/shrinker_enabled", "Y\n")
        .with("sys/kernel/mm/lru_gen/enabled", "0x0007\n")
        .with("sys/kernel/mm/lru_gen/min_ttl_ms", "0\n")
        .with(
            "sys/kernel/mm/transparent_hugepage/enabled",
            "always [madvise] never\n",
        )
        .with(
            "sys/kernel/mm/transparent_hugepage/defrag",
            "always defer [madvise] never\n",
        )
        .with(
            "sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled",
            "always [inherit] never\n",
        )
        .with(
            "sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled",
            "always inherit [never]\n",
        )
        .with("sys/bus/event_source/devices/cpu/type", "4\n")
}

/// Docker without any flag on a modern host: cgroup and sysfs read-only, half of `/proc` masked.
fn plain_container() -> Machine {
    modern_host()
        .with(".dockerenv", "")
        .with("proc/self/status", STATUS_DOCKER)
        .with("proc/self/cgroup", "0::/\n")
        .with(
            "proc/self/mountinfo",
            "22 1 0:50 / / rw,relatime - overlay overlay rw\n\
             30 22 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup ro\n",
        )
        .with("sys/fs/cgroup/memory.max", "536870912\n")
        .without("sys/fs/cgroup/user.slice")
        .without("proc/pressure")
        .without("dev")
}

/// Has `work` done as a user who owns nothing. Users are kept by thread on Linux, so this test alone is one.
fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if geteuid().is_root() {
                let (user, group) = (Uid::from_raw(65534), Gid::from_raw(65534));
                rustix::thread::set_thread_groups(&[]).expect("root may drop groups");
                rustix::thread::set_thread_res_gid(group, group, group).expect("root may change its group");
                rustix::thread::set_thread_res_uid(user, user, user).expect("root may become nobody");
            }
            work()
        });
        thread.join().expect("the work does not panic")
    })
}

#[test]
fn a_modern_host_lacks_nothing() {
    let examination = modern_host().examine();
    for check in &examination.checks {
        assert_eq!(check.state, State::Available, "{}: {}", check.id, check.found);
    }
    assert_eq!(examination.schema, EXAMINATION_SCHEMA);
    let found = |id| check(&examination, id).found;
    assert!(
        found("cgroup").starts_with("v2, controllers memory pids"),
        "{}",
        found("cgroup")
    );
    assert!(found("zram").contains("lzo-rle [zstd] lz4"), "{}", found("zram"));
    assert!(
        found("mglru").contains("core, leaf page-table walks, non-leaf"),
        "{}",
        found("mglru")
    );
    assert!(found("reclaim-settings").contains("page-cluster 3 (reads up to 8 pages a fault)"));
    assert!(found("reclaim-settings").contains("min_free 66.0 MiB"));
    assert!(
        found("disk").contains("/srv/swap is on xfs, 50.0 GiB of 100 GiB free"),
        "{}",
        found("disk")
    );
    assert!(
        found("thp").contains("2 sizes, on: 2048kB inherit"),
        "{}",
        found("thp")
    );
    assert!(found("psi").contains("some 0.12%"), "{}", found("psi"));
}

/// Nothing may be invented where nothing can be seen, and nothing may panic.
#[test]
fn a_machine_without_proc_and_sys_is_unknown() {
    let none = Probes {
        page_out: refused(),
        process_madvise: refused(),
        userfaultfd: uffd(refused(), refused(), None),
        userfaultfd_unprivileged: None,
        perf_user: refused(),
        perf_software: refused(),
        perf_hardware: refused(),
        disk: None,
    };
    let examination = examine_machine(&Machine::empty().tree(), &none);
    for check in &examination.checks {
        let said = format!("{} is {:?}: {}", check.id, check.state, check.found);
        // That nothing is seen of a hypervisor and a container is all there is to say about them.
        assert!(
            check.state != State::Available || check.id == "surroundings",
            "{said}"
        );
        assert!(!check.lost.is_empty() && !check.enable.is_empty(), "{said}");
    }
    assert!(examination.machine.contains("unknown of RAM"));
}

#[test]
fn a_container_without_flags_says_which_flags_it_needs() {
    let machine = plain_container();
    let examination = as_nobody(|| examine_machine(&machine.tree(), &all_work()));
    let state = |id| check(&examination, id).state;
    assert_eq!(state("cgroup"), State::Limited);
    assert_eq!(state("psi"), State::Missing);
    assert_eq!(state("privileges"), State::Missing);
    assert_eq!(state("zram"), State::Limited);
    assert_eq!(state("swap"), State::Missing);
    assert_eq!(state("locked-memory"), State::Limited);
    for id in ["cgroup", "privileges", "zram", "swap", "locked-memory"] {
        let enable = check(&examination, id).enable;
        assert!(enable.contains("docker run --"), "{id}: {enable}");
    }
    assert!(
        check(&examination, "memory")
            .found
            .contains("limits it to 512 MiB")
    );
    assert_eq!(state("memory"), State::Limited, "512 MiB is little");
    assert!(
        check(&examination, "surroundings")
            .found
            .contains("docker (/.dockerenv)")
    );
}

#[test]
fn delegation_is_told_from_permissions() {
    let machine = modern_host()
        .with("proc/self/status", STATUS_USER)
        .with("proc/self/cgroup", "0::/user.slice/mine\n")
        .with("sys/fs/cgroup/user.slice/mine/cgroup.controllers", "memory\n")
        .with("sys/fs/cgroup/user.slice/mine/cgroup.subtree_control", "\n")
        .mode("sys/fs/cgroup", 0o555);
    let own = "sys/fs/cgroup/user.slice/mine";
    let not_mine = machine
        .mode(own, 0o555)
        .mode("sys/fs/cgroup/user.slice/mine/cgroup.subtree_control", 0o444);
    let found = as_nobody(|| not_mine.check("cgroup"));
    assert_eq!(found.state, State::Limited);
    assert!(found.enable.contains("Delegate=yes"), "{}", found.enable);
    let mine = not_mine
        .mode(own, 0o777)
        .mode("sys/fs/cgroup/user.slice/mine/cgroup.subtree_control", 0o666);
    let found = as_nobody(|| mine.check("cgroup"));
    assert_eq!(found.state, State::Available, "{}", found.found);
    assert!(
        found
            .found
            .contains("delegated: groups can be made below /sys/fs/cgroup/user.slice/mine")
    );
    // A temporary folder that may not be written could not be removed.
    drop(mine.mode("sys/fs/cgroup", 0o755));
}

#[test]
fn a_v1_memory_controller_is_found_beside_an_empty_v2() {
    let machine = modern_host()
        .with(
            "proc/self/cgroup",
            "4:memory:/docker/abc\n1:name=systemd:/\n0::/\n",
        )
        .with(
            "proc/self/mountinfo",
            "35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        )
        .with("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n")
        .with("sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", "1\n");
    let found = machine.check("cgroup");
    assert_eq!(found.state, State::Available);
    assert!(
        found
            .found
            .starts_with("v1, memory controller with swap accounting"),
        "{}",
        found.found
    );
    // The mount shows the container's own group as its root.
    assert!(machine.check("memory").found.contains("limits it to 1.00 GiB"));
    assert_eq!(host_of(&machine.tree()).cgroup, "v1");
}

#[test]
fn a_missing_memory_controller_says_why() {
    let nothing = || {
        modern_host()
            .with("sys/fs/cgroup/cgroup.controllers", "cpu\n")
            .without("sys/fs/cgroup/user.slice")
    };
    let boot = nothing().with(
        "proc/cgroups",
        "#subsys_name hierarchy num_cgroups enabled\nmemory 0 1 0\n",
    );
    assert!(boot.check("cgroup").enable.contains("cgroup_enable=memory"));
    let kernel = nothing().with(
        "proc/cgroups",
        "#subsys_name hierarchy num_cgroups enabled\ncpu 0 1 1\n",
    );
    assert!(kernel.check("cgroup").enable.contains("CONFIG_MEMCG=y"));
    let mount = nothing().with("proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
    assert!(mount.check("cgroup").enable.contains("mount -t cgroup2"));
    for machine in [boot, kernel, mount] {
        assert_eq!(machine.check("cgroup").state, State::Missing);
        assert_eq!(machine.check("cgroup-reclaim").state, State::Missing);
    }
}

#[test]
fn missing_pressure_information_names_the_option_that_helps() {
    let off = modern_host()
        .without("proc/pressure")
        .with("proc/cmdline", "quiet psi=0\n");
    assert!(off.check("psi").found.contains("psi=0"));
    let not_built = modern_host().without("proc/pressure").with(
        "boot/config-6.12.1-amd64",
        "CONFIG_SWAP=y\n# CONFIG_PSI is not set\n",
    );
    assert!(not_built.check("psi").enable.contains("CONFIG_PSI=y"));
    let unclear = modern_host().without("proc/pressure").check("psi");
    assert!(unclear.enable.contains("psi=1") && unclear.enable.contains("CONFIG_PSI=y"));
    assert_eq!(unclear.state, State::Missing);
}

#[test]
fn zram_is_told_apart_by_what_is_there() {
    let gone = || {
        modern_host()
            .without("sys/class/zram-control")
            .without("sys/block/zram0")
    };
    assert_eq!(gone().check("zram").state, State::Missing);
    let on_disk = gone().with(
        "lib/modules/6.12.1-amd64/modules.dep",
        "kernel/drivers/block/zram/zram.ko.xz: kernel/mm/zsmalloc.ko.xz\n",
    );
    let found = on_disk.check("zram");
    assert_eq!(
        (found.state, found.enable.as_str()),
        (State::Limited, "sudo modprobe zram")
    );
    let used = modern_host()
        .without("sys/class/zram-control")
        .with("sys/block/zram0/initstate", "1\n")
        .with("sys/block/zram0/disksize", "4294967296\n")
        .with(
            "sys/block/zram0/mm_stat",
            "  2147483648 536870912 1073741824 0 0 0 0 0 0\n",
        );
    let found = used.check("zram");
    assert_eq!(
        found.state,
        State::Limited,
        "no free device, and none can be added"
    );
    assert!(
        found
            .found
            .contains("zram0 (4.00 GiB, holds 2.00 GiB in 1.00 GiB)"),
        "{}",
        found.found
    );
    assert_eq!(
        modern_host()
            .with("proc/self/status", STATUS_USER)
            .check("zram")
            .state,
        State::Limited
    );
}

#[test]
fn userfaultfd_features_have_names() {
    let tree = modern_host();
    let examine = |own, other| {
        let probes = Probes {
            userfaultfd: own,
            userfaultfd_unprivileged: other,
            ..all_work()
        };
        check(&examine_machine(&tree.tree(), &probes), "userfaultfd")
    };
    let unprivileged = uffd(refused(), Ok(()), Some(0x1ffff));
    let full = examine(
        uffd(Ok(()), Ok(()), Some((1 << 20) | 0x1ffff)),
        Some(unprivileged.clone()),
    );
    assert_eq!(full.state, State::Available);
    assert!(full.found.contains("MISSING WP EVENT_FORK"), "{}", full.found);
    assert!(
        full.found.contains(
            "MINOR_SHMEM EXACT_ADDRESS WP_HUGETLBFS_SHMEM WP_UNPOPULATED POISON WP_ASYNC MOVE bit20"
        )
    );
    assert!(
        full.found
            .contains("a user without privilege: faults of user code alone (Operation not permitted")
    );
    assert_eq!(examine(unprivileged, None).state, State::Limited);
    let old = examine(uffd(Ok(()), Ok(()), Some(0x1fff)), None);
    assert_eq!(old.state, State::Limited);
    assert!(old.found.ends_with("lacks POISON WP_ASYNC MOVE"), "{}", old.found);
    assert_eq!(
        examine(uffd(refused(), refused(), None), None).state,
        State::Missing
    );
}

#[test]
fn performance_events_are_told_by_what_they_count() {
    let tree = modern_host();
    let examine = |perf_user, perf_software, perf_hardware| {
        let probes = Probes {
            perf_user,
            perf_software,
            perf_hardware,
            ..all_work()
        };
        check(&examine_machine(&tree.tree(), &probes), "perf-events")
    };
    let guest = examine(Ok(()), Ok(()), refused());
    assert_eq!(guest.state, State::Limited);
    assert!(guest.enable.contains("pmu=on"), "{}", guest.enable);
    let paranoid = examine(Ok(()), refused(), refused());
    assert_eq!(paranoid.state, State::Limited);
    assert!(
        paranoid.found.contains("usable of user code alone"),
        "{}",
        paranoid.found
    );
    assert_eq!(examine(refused(), refused(), refused()).state, State::Missing);
}

const SCHEME: &str = "sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/0";

/// A monitor that pages out what rested for a minute.
fn paging_out() -> Machine {
    let context = "sys/kernel/mm/damon/admin/kdamonds/0/contexts/0";
    modern_host()
        .with("sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", "1\n")
        .with("sys/kernel/mm/damon/admin/kdamonds/0/state", "on\n")
        .with(
            &format!("{context}/monitoring_attrs/intervals/aggr_us"),
            "5000000\n",
        )
        .with(&format!("{SCHEME}/action"), "pageout\n")
        .with(&format!("{SCHEME}/access_pattern/age/min"), "12\n")
        .with(&format!("{SCHEME}/quotas/bytes"), "134217728\n")
        .with(&format!("{SCHEME}/quotas/reset_interval_ms"), "1000\n")
}

#[test]
fn a_damon_scheme_that_pages_out_is_a_confounder() {
    let found = paging_out().check("damon");
    assert_eq!(found.state, State::Limited);
    assert_eq!(
        found.found,
        "kdamond 0: pageout of what rested 60.0 s, at most 128 MiB each 1000 ms"
    );
    assert_eq!(
        found.enable,
        "echo off | sudo tee /sys/kernel/mm/damon/admin/kdamonds/0/state"
    );
    let filter = format!("{SCHEME}/ops_filters/0");
    let sparing = || {
        paging_out()
            .with(&format!("{filter}/type"), "anon\n")
            .with(&format!("{filter}/matching"), "Y\n")
    };
    let spared = |machine: Machine| machine.check("damon").found.ends_with("sparing anonymous memory");
    assert!(spared(sparing().with(&format!("{filter}/allow"), "N\n")));
    assert!(
        spared(sparing()),
        "before `allow` there was, filters kept out what they match"
    );
    assert!(!spared(sparing().with(&format!("{filter}/allow"), "Y\n")));
    assert!(!spared(sparing().with(&format!("{filter}/matching"), "N\n")));
}

#[test]
fn a_damon_monitor_that_takes_nothing_is_quiet() {
    let state = |machine: Machine| machine.check("damon").state;
    assert_eq!(
        state(paging_out().with("sys/kernel/mm/damon/admin/kdamonds/0/state", "off\n")),
        State::Available
    );
    assert_eq!(
        state(paging_out().with(&format!("{SCHEME}/action"), "stat\n")),
        State::Available
    );
    let module = modern_host().with("sys/module/damon_reclaim/parameters/enabled", "Y\n");
    assert_eq!(state(module), State::Limited);
    // Another user sees the thread, but not the scheme.
    let hidden = paging_out().mode("sys/kernel/mm/damon/admin/kdamonds/0/state", 0o600);
    assert_eq!(
        as_nobody(|| hidden.check("damon")).state,
        if geteuid().is_root() {
            State::Unknown
        } else {
            State::Limited
        }
    );
}

#[test]
fn confounders_are_seen() {
    let state = |machine: Machine, id| machine.check(id).state;
    let device = "sys/bus/virtio/devices/virtio3";
    let balloon = |features: &str| {
        modern_host()
            .with(&format!("{device}/device"), "0x0005\n")
            .with(&format!("{device}/features"), features)
    };
    assert_eq!(state(balloon("0000010000\n"), "page-reporting"), State::Limited);
    assert_eq!(state(balloon("0000000000\n"), "page-reporting"), State::Available);
    assert_eq!(
        state(modern_host().with("proc/loadavg", "3.00 1 1 1/1 1\n"), "load"),
        State::Limited
    );
    assert_eq!(
        state(
            modern_host().with("proc/stat", "cpu 100 0 100 700 0 0 0 100 0 0\n"),
            "load"
        ),
        State::Limited
    );
    let governor = "sys/devices/system/cpu/cpufreq/policy0/scaling_governor";
    assert_eq!(
        state(modern_host().with(governor, "powersave\n"), "cpu-frequency"),
        State::Limited
    );
    let always = modern_host().with(
        "sys/kernel/mm/transparent_hugepage/enabled",
        "[always] madvise never\n",
    );
    assert_eq!(state(always, "thp"), State::Limited);
    assert_eq!(
        state(
            modern_host().with("proc/sys/vm/swappiness", "0\n"),
            "reclaim-settings"
        ),
        State::Limited
    );
}

#[test]
fn a_disk_that_cannot_hold_swap_is_told() {
    let on = |kind: &str, free: u64| {
        let mounts =
            format!("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n40 22 8:2 / /srv/swap rw - {kind} none rw\n");
        let machine = modern_host().with("proc/self/mountinfo", &mounts);
        let disk = Some(Disk {
            folder: "/srv/swap/deep".to_owned(),
            free,
            size: 1 << 40,
        });
        check(
            &examine_machine(&machine.tree(), &Probes { disk, ..all_work() }),
            "disk",
        )
        .state
    };
    assert_eq!(on("btrfs", 1 << 36), State::Available);
    assert_eq!(on("btrfs", 1 << 30), State::Limited);
    assert_eq!(on("tmpfs", 1 << 36), State::Missing);
    assert_eq!(on("overlay", 1 << 36), State::Missing);
}

#[test]
fn text_keeps_to_its_width_and_shows_state_without_colour() {
    let container = plain_container();
    let examination = as_nobody(|| examine_machine(&container.tree(), &all_work()));
    for width in [40, 60, 80, 120] {
        let text = render(&examination, width, false);
        assert!(!text.contains('\u{1b}'), "no escapes without colour");
        let commands: Vec<&str> = examination
            .checks
            .iter()
            .flat_map(|check| check.enable.lines())
            .collect();
        for line in text.lines() {
            let command = commands.iter().any(|command| line.ends_with(command));
            let one_word = line.split_whitespace().count() == 1;
            assert!(
                line.chars().count() <= width || command || one_word,
                "wider than {width}: {line}"
            );
        }
        for check in &examination.checks {
            let words = format!(
                "{} {:<9}  {}",
                check.state.sign(),
                check.state.word(),
                check.title
            );
            assert!(text.contains(&words), "{words} at {width}");
            let missing = check.enable.lines().find(|command| !text.contains(command));
            assert!(
                check.state == State::Available || missing.is_none(),
                "{}: {missing:?}",
                check.id
            );
        }
    }
    let plain = render(&examination, 80, false);
    let coloured = render(&examination, 80, true);
    assert!(coloured.contains('\u{1b}'));
    assert_eq!(
        anstream_stripped(&coloured),
        plain,
        "colour changes nothing but colour"
    );
}

fn anstream_stripped(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

#[test]
fn an_examination_is_a_document() {
    let examination = modern_host().examine();
    let json = serde_json::to_string(&examination).expect("it is plain data");
    assert_eq!(
        serde_json::from_str::<Examination>(&json).expect("it reads back"),
        examination
    );
    let mut ids: Vec<&str> = examination.checks.iter().map(|check| check.id.as_str()).collect();
    assert!(
        examination.checks.is_sorted_by_key(|check| check.group),
        "groups stand together, in order"
    );
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), examination.checks.len(), "ids are unique");
}

#[test]
fn every_check_is_in_the_book() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/doctor.md");
    let chapter = fs::read_to_string(path).expect("the chapter is there");
    let rows = chapter
        .lines()
        .skip_while(|line| *line != "| id | looks at |")
        .skip(2);
    let documented: Vec<&str> = rows
        .take_while(|line| line.starts_with("| `"))
        .filter_map(|line| line.split('`').nth(1))
        .collect();
    let examination = modern_host().examine();
    let ids: Vec<&str> = examination.checks.iter().map(|check| check.id.as_str()).collect();
    assert_eq!(documented, ids);
}

/// What a look at this machine may not move: swap, zram, every setting, who this process is.
#[test]
fn an_examination_changes_nothing() {
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
    assert!(
        examination
            .check("userfaultfd")
            .is_some_and(|check| { check.found.contains("a user without privilege") == geteuid().is_root() })
    );
}

#[test]
fn this_machine_is_described_as_the_procfs_crate_sees_it() {
    use procfs::Current;
    let host = plimsoll::recording::host();
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
fn settings_hold_what_damon_does_without_its_counters() {
    let machine = paging_out()
        .with(&format!("{SCHEME}/stats/nr_tried"), "77\n")
        .with(&format!("{SCHEME}/ops_filters/0/type"), "anon\n");
    let host = host_of(&machine.tree());
    assert_eq!(host.settings[&format!("/{SCHEME}/action")], "pageout");
    assert_eq!(host.settings[&format!("/{SCHEME}/ops_filters/0/type")], "anon");
    assert_eq!(host.settings["/sys/module/zswap/parameters/compressor"], "zstd");
    assert_eq!(
        host.settings["/sys/kernel/mm/transparent_hugepage/enabled"],
        "always [madvise] never"
    );
    assert!(!host.settings.keys().any(|path| path.contains("stats")));
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
