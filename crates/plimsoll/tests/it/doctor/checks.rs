//! What the checks of capabilities say of machines made up of files.

use plimsoll::doctor::{EXAMINATION_SCHEMA, Probes, State, examine_machine};
use plimsoll_os::Errno;
use plimsoll_sample::host::host_of;

use super::{Machine, STATUS_USER, all_work, as_nobody, check, modern_host, plain_container, refused, uffd};

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
fn delegation_follows_from_permissions() {
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
            .contains("delegated: this user can create groups below /sys/fs/cgroup/user.slice/mine")
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
fn zram_state_follows_from_its_files() {
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
            .contains("a user without privilege: faults of user code only (Operation not permitted")
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
fn process_madvise_is_missing_where_the_kernel_lacks_it_and_limited_where_it_refuses() {
    let examine = |process_madvise| {
        let probes = Probes {
            process_madvise,
            ..all_work()
        };
        check(
            &examine_machine(&modern_host().tree(), &probes),
            "process-madvise",
        )
        .state
    };
    assert_eq!(examine(Ok(())), State::Available);
    assert_eq!(examine(Err(Errno::NOSYS)), State::Missing);
    assert_eq!(examine(refused()), State::Limited);
}

#[test]
fn performance_event_states_follow_from_probes() {
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
        paranoid.found.contains("usable for user code only"),
        "{}",
        paranoid.found
    );
    assert_eq!(examine(refused(), refused(), refused()).state, State::Missing);
}
