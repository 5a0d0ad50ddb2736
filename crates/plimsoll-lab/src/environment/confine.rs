//! The changes that a run can make: an undo of any other change would be an order of another author.
//!
//! A journal is obeyed only from a folder that no other user can write to. This is the second line: even a journal with
//! other content cannot write to, remove or turn off anything but the objects of runs. The modules of the changes check
//! the rest on the objects themselves: the header of a swap area, the file system of a cgroup, the cgroup of a process.

use std::path::{Component, Path};

use plimsoll_proc::cgroup::{CPU_MAX, CgroupVersion};
use plimsoll_proc::sysctl::{PAGE_CLUSTER, SWAPPINESS};
use plimsoll_proc::zram;
use plimsoll_proc::zswap::Parameter;

use super::cap::Cap;
use super::change::Change;
use super::undo::UndoError;
use super::{cap, cgroup, oom_killer, swap_file, throttle};

/// Checks that a run can have made the change.
pub(super) fn check(change: &Change) -> Result<(), UndoError> {
    let refused = match change {
        Change::Module { name } => (name != "zram").then_some("a run loads no other module than zram"),
        Change::ZramAlgorithm { before, .. } => {
            (!is_algorithm(before)).then_some("this is no name of an algorithm")
        }
        Change::SwapOn { path, .. } => {
            let ours = is_plain(path) && (is_zram(path) || swap_file::is_our_name(path));
            (!ours).then_some("a run swaps only to zram devices and its own swap files")
        }
        Change::File { path, .. } => {
            let ours = is_plain(path) && swap_file::is_our_name(path);
            (!ours).then_some("a run makes no other files than its swap files")
        }
        Change::Value { path, .. } => (!is_setting(path)).then_some("a run changes no such value"),
        Change::Cap {
            path, before, wrote, ..
        } => (!is_lowered_cap(path, before, wrote))
            .then_some("a run lowers only caps of cgroups, and nothing else"),
        Change::OomKiller { path, .. } => {
            let ours = is_plain(path) && oom_killer::is_file(path);
            (!ours).then_some("a run turns only the OOM killer of a cgroup off")
        }
        Change::Cgroup { path, .. } => {
            let ours = is_plain(path) && cgroup::is_our_name(path);
            (!ours).then_some("a run makes no cgroup of this name")
        }
        Change::MemoryController { cgroup } => {
            (!is_plain(cgroup)).then_some("this is no absolute path without `..`")
        }
        Change::ZramAdd { .. } | Change::Zram { .. } | Change::Process { .. } | Change::Stopped { .. } => {
            None
        }
    };
    refused.map_or(Ok(()), |why| Err(UndoError::Outside(why)))
}

/// Whether runs change the value of this file.
fn is_setting(path: &Path) -> bool {
    let zswap = [
        Parameter::Enabled,
        Parameter::Compressor,
        Parameter::MaxPoolPercent,
    ];
    // Compared as text: `Path` would ignore a `.` and a doubled slash.
    let text = path.as_os_str();
    text == SWAPPINESS
        || text == PAGE_CLUSTER
        || zswap.iter().any(|parameter| text == parameter.file().as_os_str())
}

/// Whether the file holds the cap of a cgroup, which `wrote` lowers: an undo then only raises it.
fn is_lowered_cap(path: &Path, before: &str, wrote: &[String; 2]) -> bool {
    let files = [CgroupVersion::V1, CgroupVersion::V2].map(Cap::file);
    let bytes = |text: &str| cap::bytes_in(text).unwrap_or(u64::MAX);
    let is_memory = || {
        cap::is_cap(before)
            && wrote
                .iter()
                .all(|text| cap::is_cap(text) && bytes(text) <= bytes(before))
    };
    let is_cpu = || {
        let before = throttle::quota_and_period(before);
        let lowers = |text: &String| {
            let found = throttle::quota_and_period(text).zip(before);
            found.is_some_and(|((quota, period), before)| quota <= before.0 && period == before.1)
        };
        wrote.iter().all(lowers)
    };
    let named = path.file_name().and_then(|name| name.to_str());
    is_plain(path)
        && match named {
            Some(CPU_MAX) => is_cpu(),
            Some(name) => files.contains(&name) && is_memory(),
            None => false,
        }
}

/// Whether a path is absolute and has no `..`.
fn is_plain(path: &Path) -> bool {
    let mut components = path.components();
    components.next() == Some(Component::RootDir)
        && components.all(|part| matches!(part, Component::Normal(_)))
}

fn is_zram(path: &Path) -> bool {
    let name = path.strip_prefix("/dev").ok().and_then(Path::to_str);
    name.and_then(zram::number_in).is_some()
}

fn is_algorithm(name: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    !name.is_empty() && name.chars().all(letters)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(change: &Change) -> bool {
        check(change).is_ok()
    }

    #[test]
    fn only_the_settings_of_runs_are_written_back() {
        let value = |path: &str| {
            passes(&Change::Value {
                path: path.into(),
                before: "1".to_owned(),
                wrote: "2".to_owned(),
            })
        };
        for ours in [
            "/proc/sys/vm/swappiness",
            "/proc/sys/vm/page-cluster",
            "/sys/module/zswap/parameters/enabled",
        ] {
            assert!(value(ours), "{ours}");
        }
        for other in [
            "/etc/passwd",
            "/proc/sys/kernel/core_pattern",
            "/proc/sys/vm/../kernel/core_pattern",
            "/proc/self/root/proc/sys/vm/swappiness",
            "/sys/module/zswap/parameters/../../kernel",
            "/tmp/proc/sys/vm/swappiness",
            "proc/sys/vm/swappiness",
            "/sys/kernel/uevent_helper",
        ] {
            assert!(!value(other), "{other}");
        }
    }

    #[test]
    fn only_caps_of_cgroups_are_raised() {
        let cap = |path: &str, before: &str, wrote: &str| {
            passes(&Change::Cap {
                path: path.into(),
                before: before.to_owned(),
                wrote: ["4096".to_owned(), wrote.to_owned()],
                inode: None,
            })
        };
        let high = "/sys/fs/cgroup/system.slice/memory.high";
        assert!(cap(high, "max", "8192") && cap(high, "8192", "8192"));
        assert!(cap(
            "/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
            "9223372036854771712",
            "1"
        ));
        let cpu = |before: &str, wrote: &str| {
            passes(&Change::Cap {
                path: "/sys/fs/cgroup/batch/cpu.max".into(),
                before: before.to_owned(),
                wrote: [before.to_owned(), wrote.to_owned()],
                inode: None,
            })
        };
        assert!(cpu("max 100000", "5000 100000") && cpu("9000 100000", "5000 100000"));
        assert!(!cpu("4000 100000", "5000 100000"), "the undo would lower it");
        assert!(!cpu("max 100000", "5000 50000") && !cpu("8192", "4096") && !cpu("max 100000", "5000"));
        assert!(!cap(high, "max 100000", "5000 100000"));
        assert!(!cap(high, "8192", "16384"), "the undo would lower the cap");
        assert!(!cap(high, "8192", "max") && !cap(high, "1\n", "1") && !cap(high, "-1", "1"));
        for other in [
            "/sys/fs/cgroup/a/memory.max",
            "/sys/fs/cgroup/a/cgroup.procs",
            "/sys/fs/cgroup/../../etc/memory.high",
            "memory.high",
            "/sys/fs/cgroup/a/memory.high/x",
        ] {
            assert!(!cap(other, "max", "8192"), "{other}");
        }
    }

    #[test]
    fn only_oom_killers_of_cgroups_are_turned_on() {
        let killer = |path: &str| {
            passes(&Change::OomKiller {
                path: path.into(),
                inode: None,
            })
        };
        assert!(killer("/sys/fs/cgroup/memory/a/memory.oom_control"));
        for other in [
            "/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/../../etc/memory.oom_control",
            "memory.oom_control",
        ] {
            assert!(!killer(other), "{other}");
        }
    }

    #[test]
    fn only_names_of_runs_are_removed_or_turned_off() {
        let uuid = || "u".to_owned();
        let file = |path: &str| {
            passes(&Change::File {
                path: path.into(),
                uuid: uuid(),
            })
        };
        let area = |path: &str| {
            passes(&Change::SwapOn {
                path: path.into(),
                uuid: uuid(),
            })
        };
        let cgroup = |path: &str| {
            passes(&Change::Cgroup {
                path: path.into(),
                kill: true,
            })
        };
        assert!(file("/var/tmp/.plimsoll-run-3.swap") && area("/var/tmp/.plimsoll-run-3.swap"));
        assert!(area("/dev/zram0") && !file("/dev/zram0"));
        for other in [
            "/swapfile",
            "/var/tmp/../.plimsoll-a-1.swap",
            ".plimsoll-a-1.swap",
            "/dev/zram0/x",
            "/dev/sda",
        ] {
            assert!(!file(other) && !area(other), "{other}");
        }
        assert!(cgroup("/sys/fs/cgroup/memory/a/plimsoll-run-1"));
        for other in [
            "/sys/fs/cgroup/system.slice",
            "/sys/fs/cgroup/plimsoll-a-1/..",
            "plimsoll-a-1",
            "/",
            "/a/plimsoll-a-1/b",
        ] {
            assert!(!cgroup(other), "{other}");
        }
        assert!(!passes(&Change::MemoryController {
            cgroup: "/sys/fs/cgroup/../../home".into()
        }));
        assert!(!passes(&Change::Module {
            name: "ext4".to_owned()
        }));
        assert!(!passes(&Change::ZramAlgorithm {
            id: 0,
            before: "lzo\n".to_owned()
        }));
    }
}
