//! Tests of the `doctor` room, on machines made up of files, and on this one.

mod checks;
mod confounders;
mod here;
mod shown;
mod verdicts;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use plimsoll::doctor::{Check, Disk, Examination, Outcome, Probes, UffdAccess, examine_machine};
use plimsoll_proc::Tree;

use plimsoll_os::{Errno, UffdApi};
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
        let folder = path.parent().expect("a file has a folder");
        let made: Vec<_> = folder.ancestors().filter(|folder| !folder.exists()).collect();
        fs::create_dir_all(folder).expect("folders can be made");
        // As the kernel has them, whatever this program's umask.
        for folder in made {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("the folder is ours");
        }
        let is_new = !path.exists();
        fs::write(&path, text).expect("files can be written");
        if is_new {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("the file is ours");
        }
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
    Err(Errno::PERM)
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
/// Docker's capabilities and filter, and a user that is root inside.
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
        .with("usr/lib/libjemalloc.so.2", "")
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

/// Has `work` done as a user without files. Users are kept by thread on Linux, so this test alone is one.
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

const SCHEME: &str = "sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/0";

/// A DAMON scheme that pages out pages idle for a minute.
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
