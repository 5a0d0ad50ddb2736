//! Results of the checks of capabilities for machines made up of files.

use plimsoll::doctor::{Cause, EXAMINATION_SCHEMA, Probes, State, examine_machine};
use plimsoll_os::Errno;
use plimsoll_sample::host::host_of;
use serde_json::{Value, json};

use super::{Machine, STATUS_USER, all_work, as_nobody, check, modern_host, plain_container, refused, uffd};

#[test]
fn a_modern_host_lacks_nothing() {
    let examination = modern_host().examine();
    for check in &examination.checks {
        let found = (check.state, check.code);
        assert_eq!(
            found,
            (State::Available, Cause::Usable),
            "{}: {}",
            check.id,
            check.found
        );
    }
    assert_eq!(examination.schema, EXAMINATION_SCHEMA);
    let values = |id, expected: Value| {
        let found = check(&examination, id).values;
        for (name, value) in expected.as_object().expect("values") {
            assert_eq!(found.get(name), Some(value), "{id}.{name}");
        }
    };
    values("cgroup", json!({"version": "v2", "controllers": "memory pids"}));
    values(
        "zram",
        json!({"algorithms": "lzo-rle [zstd] lz4", "free_count": 1}),
    );
    values("mglru", json!({"enabled_bits": 7}));
    values(
        "reclaim-settings",
        json!({"swappiness": 60, "page_cluster": 3, "pages_per_fault": 8, "min_free_bytes": 66 << 20}),
    );
    let disk = json!({"folder": "/srv/swap", "file_system": "xfs", "free_bytes": 50_u64 << 30});
    values("disk", disk);
    values(
        "thp",
        json!({"mode": "madvise", "sizes_kib": {"64": "never", "2048": "inherit"}}),
    );
    values("psi", json!({"some_10_s_percent": 0.12}));
    // The sentences have them too.
    for (id, words) in [("zram", "lzo-rle [zstd] lz4"), ("disk", "xfs"), ("psi", "0.12%")] {
        assert!(check(&examination, id).found.contains(words), "{id}");
    }
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
    let memory = check(&examination, "memory");
    assert_eq!(memory.values["limit_bytes"], 512 << 20);
    assert_eq!((memory.state, memory.code), (State::Limited, Cause::TooSmall));
    let surroundings = check(&examination, "surroundings");
    assert_eq!(surroundings.values["container"], "docker");
    assert!(
        surroundings.found.contains("/.dockerenv"),
        "{}",
        surroundings.found
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
    assert_eq!((found.state, found.code), (State::Limited, Cause::NotPermitted));
    assert!(found.enable.contains("Delegate=yes"), "{}", found.enable);
    let mine = not_mine
        .mode(own, 0o777)
        .mode("sys/fs/cgroup/user.slice/mine/cgroup.subtree_control", 0o666);
    let found = as_nobody(|| mine.check("cgroup"));
    assert_eq!(found.state, State::Available, "{}", found.found);
    assert_eq!(found.values["folder"], "/sys/fs/cgroup/user.slice/mine");
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
    assert_eq!(found.values["version"], "v1");
    assert_eq!(found.values["swap_accounting"], true);
    // The mount shows the container's own group as its root.
    assert_eq!(machine.check("memory").values["limit_bytes"], 1 << 30);
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
    for (machine, code) in [
        (boot, Cause::DisabledAtBoot),
        (kernel, Cause::NotBuilt),
        (mount, Cause::NotMounted),
    ] {
        let found = |id| {
            let check = machine.check(id);
            (check.state, check.code)
        };
        assert_eq!(found("cgroup"), (State::Missing, code));
        assert_eq!(found("cgroup-reclaim"), (State::Missing, Cause::Depends));
    }
}

#[test]
fn missing_pressure_information_names_the_option_that_helps() {
    let off = modern_host()
        .without("proc/pressure")
        .with("proc/cmdline", "quiet psi=0\n");
    assert_eq!(off.check("psi").code, Cause::DisabledAtBoot);
    let not_built = modern_host().without("proc/pressure").with(
        "boot/config-6.12.1-amd64",
        "CONFIG_SWAP=y\n# CONFIG_PSI is not set\n",
    );
    assert_eq!(not_built.check("psi").code, Cause::NotBuilt);
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
    let zram = gone().check("zram");
    assert_eq!((zram.state, zram.code), (State::Missing, Cause::NotBuilt));
    let on_disk = gone().with(
        "lib/modules/6.12.1-amd64/modules.dep",
        "kernel/drivers/block/zram/zram.ko.xz: kernel/mm/zsmalloc.ko.xz\n",
    );
    let found = on_disk.check("zram");
    assert_eq!(
        (found.state, found.code, found.enable.as_str()),
        (State::Limited, Cause::NotLoaded, "sudo modprobe zram")
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
        (found.state, found.code),
        (State::Limited, Cause::Absent),
        "no free device, and none can be added"
    );
    assert_eq!(
        found.values["in_use"],
        json!(["zram0 (4.00 GiB, holds 2.00 GiB in 1.00 GiB)"])
    );
    let user = modern_host().with("proc/self/status", STATUS_USER).check("zram");
    assert_eq!((user.state, user.code), (State::Limited, Cause::NotPermitted));
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
    let features = full.values["features"].as_array().expect("names");
    assert_eq!(features[..2], ["WP", "EVENT_FORK"]);
    assert_eq!(features[14..], ["POISON", "WP_ASYNC", "MOVE", "bit20"]);
    assert_eq!(
        (&full.values["access"], &full.values["unprivileged_access"]),
        (&json!("all"), &json!("user-mode-only"))
    );
    assert_eq!(examine(unprivileged, None).code, Cause::NotPermitted);
    let old = examine(uffd(Ok(()), Ok(()), Some(0x1fff)), None);
    assert_eq!((old.state, old.code), (State::Limited, Cause::Incomplete));
    assert_eq!(old.values["lacks"], json!(["POISON", "WP_ASYNC", "MOVE"]));
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
    assert_eq!(
        (paranoid.state, paranoid.code),
        (State::Limited, Cause::NotPermitted)
    );
    assert_eq!(
        (&paranoid.values["user_code"], &paranoid.values["software"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(examine(refused(), refused(), refused()).state, State::Missing);
}
