//! The procfs crate as the oracle: of the same text, and of this process.

use std::fs;

use plimsoll_proc::cgroup::controllers;
use plimsoll_proc::resource_limits::{Limit, Limits};
use plimsoll_proc::{
    PidStat, PidStatus, Security, Statm, Tree, cpu_times, cpus, loadavg, maps, meminfo, mounts, psi,
    schedstat, vmstat,
};
use procfs::process::{LimitValue, Process};
use procfs::{Current, CurrentSI, FromBufRead, FromBufReadSI, FromRead};

use plimsoll_testkit::capability;

#[test]
fn meminfo_and_vmstat() {
    let text = fs::read(meminfo::PATH).unwrap();
    let oracle = procfs::Meminfo::from_read(&*text).unwrap();
    assert_eq!(meminfo::bytes(&text, "MemTotal"), Some(oracle.mem_total));
    assert_eq!(meminfo::bytes(&text, "MemAvailable"), oracle.mem_available);
    assert_eq!(meminfo::bytes(&text, "Active(anon)"), oracle.active_anon);
    assert_eq!(meminfo::bytes(&text, "Zswapped"), oracle.z_swapped);
    assert_eq!(meminfo::read(&Tree::live(), "MemTotal"), Some(oracle.mem_total));

    let text = fs::read(vmstat::PATH).unwrap();
    let procfs::VmStat(oracle) = procfs::VmStat::from_read(&*text).unwrap();
    for (key, value) in oracle {
        assert_eq!(
            vmstat::value(&text, &key).map(|value| value as i64),
            Some(value),
            "{key}"
        );
    }
}

#[test]
fn stat_of_the_machine() {
    let text = fs::read(cpu_times::PATH).unwrap();
    let oracle = procfs::KernelStats::from_buf_read(&*text, procfs::current_system_info())
        .unwrap()
        .total;
    let us = |ticks: u64| Some((ticks * 1_000_000 / procfs::ticks_per_second()) as i64);
    let times = cpu_times::parse(&text);
    for (at, ticks) in [
        (cpu_times::at::USER, Some(oracle.user)),
        (cpu_times::at::NICE, Some(oracle.nice)),
        (cpu_times::at::SYSTEM, Some(oracle.system)),
        (cpu_times::at::IDLE, Some(oracle.idle)),
        (cpu_times::at::IOWAIT, oracle.iowait),
        (cpu_times::at::IRQ, oracle.irq),
        (cpu_times::at::SOFTIRQ, oracle.softirq),
        (cpu_times::at::STEAL, oracle.steal),
        (cpu_times::at::GUEST, oracle.guest),
        (cpu_times::at::GUEST_NICE, oracle.guest_nice),
    ] {
        assert_eq!(times[at], ticks.and_then(us), "{at}");
    }
    let cores = procfs::KernelStats::current().unwrap().cpu_time.len();
    assert_eq!(cpus::online(&Tree::live()) as usize, cores);
    let load = procfs::LoadAverage::current().unwrap();
    assert!((loadavg::last_minute(&Tree::live()).unwrap() - f64::from(load.one)).abs() < 2.0);
}

#[test]
fn pressure() {
    let text = fs::read(psi::MEMORY);
    let reason = "/proc/pressure/memory cannot be read (CONFIG_PSI, or psi=1 on the kernel's command line)";
    if !capability("psi", text.is_ok(), reason) {
        return;
    }
    let text = text.unwrap();
    let oracle = procfs::MemoryPressure::from_buf_read(&*text).unwrap();
    let found = psi::parse(&text);
    assert_eq!(found.some.total_us, Some(oracle.some.total as i64));
    assert_eq!(found.full.total_us, Some(oracle.full.total as i64));
    let share: f32 = found.some.last_10_s.unwrap().parse().unwrap();
    assert_eq!(share, oracle.some.avg10);
}

#[test]
fn files_of_this_process() {
    let oracle = Process::myself().unwrap();
    let read = |name: &str| fs::read(format!("/proc/self/{name}")).unwrap();

    let text = read("stat");
    let (stat, expected) = (
        PidStat::parse(&text).unwrap(),
        procfs::process::Stat::from_read(&*text).unwrap(),
    );
    assert_eq!(stat.name_text(), expected.comm);
    assert_eq!((stat.state, stat.parent as i32), (expected.state, expected.ppid));
    assert_eq!(stat.session as i32, expected.session);
    assert_eq!(
        stat.in_foreground,
        expected.tty_nr != 0 && expected.tpgid == expected.pgrp
    );
    assert_eq!(
        (stat.minor_faults, stat.major_faults),
        (expected.minflt, expected.majflt)
    );
    assert_eq!(
        (stat.user_us, stat.system_us),
        (expected.utime * 10_000, expected.stime * 10_000)
    );
    assert_eq!(
        (stat.start_ticks, stat.resident_pages),
        (expected.starttime, expected.rss)
    );
    assert!(!stat.kernel_thread && stat.is_alive());
    let kthreadd = PidStat::read(2, &mut Vec::new()).map(|stat| (stat.kernel_thread, stat.name.to_vec()));
    // A container does not see it.
    if let Ok((kernel_thread, name)) = kthreadd
        && name == b"kthreadd"
    {
        assert!(kernel_thread);
    }

    let text = read("status");
    let (status, expected) = (
        PidStatus::parse(&text),
        procfs::process::Status::from_buf_read(&*text).unwrap(),
    );
    let bytes = |kib: Option<u64>| kib.map(|kib| kib * 1024);
    assert_eq!(status.process, Some(expected.tgid as u32));
    assert_eq!(status.uid, Some(expected.euid));
    assert_eq!(status.is_traced, expected.tracerpid != 0);
    assert_eq!(status.anon, bytes(expected.rssanon));
    assert_eq!(status.file, bytes(expected.rssfile));
    assert_eq!(status.shmem, bytes(expected.rssshmem));
    assert_eq!(status.swap, bytes(expected.vmswap));
    assert_eq!(status.locked, bytes(expected.vmlck));
    assert_eq!(status.data, bytes(expected.vmdata));
    assert_eq!(status.address_space, bytes(expected.vmsize));
    assert_eq!(status.peak_resident, bytes(expected.vmhwm));
    assert_eq!(status.huge, bytes(expected.hugetlbpages));
    let security = Security::parse(&text);
    assert_eq!(security.uid, status.uid);
    let mask = format!("{:x}", expected.capeff);
    assert_eq!(
        security.capabilities,
        plimsoll_proc::capabilities::Capabilities::parse(mask.as_bytes())
    );
    assert_eq!(security.no_new_privileges, expected.nonewprivs == Some(1));

    let text = read("statm");
    let (statm, expected) = (
        Statm::parse(&text).unwrap(),
        procfs::process::StatM::from_read(&*text).unwrap(),
    );
    let page = rustix::param::page_size() as u64;
    assert_eq!(
        (statm.resident, statm.shared),
        (expected.resident * page, expected.shared * page)
    );

    let soft = |value: LimitValue| match value {
        LimitValue::Unlimited => Limit::Unlimited,
        LimitValue::Value(bytes) => Limit::Bytes(bytes),
    };
    let (limits, expected) = (Limits::parse(&read("limits")), oracle.limits().unwrap());
    assert_eq!(
        limits.address_space,
        Some(soft(expected.max_address_space.soft_limit))
    );
    assert_eq!(limits.data, Some(soft(expected.max_data_size.soft_limit)));
    assert_eq!(limits.locked, Some(soft(expected.max_locked_memory.soft_limit)));
    assert_eq!(limits.resident, Some(soft(expected.max_resident_set.soft_limit)));

    let text = read("maps");
    let expected = procfs::process::MemoryMaps::from_buf_read(&*text).unwrap();
    let found: Vec<_> = maps::parse(&text).collect();
    assert_eq!(found.len(), expected.iter().count());
    for (found, expected) in found.iter().zip(expected.iter()) {
        assert_eq!((found.start, found.start + found.length), expected.address);
        assert_eq!(found.inode, expected.inode);
    }

    let text = fs::read("/proc/1/schedstat")
        .or_else(|_| fs::read("/proc/self/schedstat"))
        .unwrap();
    let spent = schedstat::Schedstat::parse(&text).unwrap();
    assert!(spent.on_cpu_ns >= 0 && spent.waited_ns >= 0);
}

#[test]
fn mounts_and_controllers() {
    let text = fs::read_to_string(mounts::PATH).unwrap();
    let expected = procfs::process::MountInfos::from_buf_read(text.as_bytes()).unwrap();
    let found = mounts::parse(&text);
    assert_eq!(found.len(), expected.0.len());
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.kind, expected.fs_type);
        let read_only =
            expected.mount_options.contains_key("ro") || expected.super_options.contains_key("ro");
        assert_eq!(found.read_only, read_only, "{}", found.point);
    }
    let Ok(expected) = procfs::CGroupControllers::current() else {
        return;
    };
    let expected = expected
        .0
        .into_iter()
        .find(|controller| controller.name == "memory");
    let found = controllers::memory(&Tree::live());
    assert_eq!(
        found.map(|controller| (controller.hierarchy, controller.disabled)),
        expected.map(|controller| (Some(u64::from(controller.hierarchy)), !controller.enabled))
    );
}
