//! `--ram` as a share: of the smallest of RAM and the limits of the cgroups on the way to the root.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use plimsoll::exec::available_ram;
use plimsoll_proc::ControlError;
use plimsoll_proc::cgroup::{CgroupVersion, Hierarchy, MemoryCgroup, PROCESSES};
use plimsoll_testkit::capability;
use procfs::Current;

use super::{PLIMSOLL, assert_engine, document, ran, text};

/// A cgroup below that of this process, removed when dropped.
pub(super) struct Group(MemoryCgroup);

impl Group {
    pub(super) fn make(name: &str, limit: u64) -> Option<Group> {
        let hierarchy = Hierarchy::of_this_process().ok()?;
        let path = hierarchy.own.join(format!("{name}-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        let group = Group(MemoryCgroup::new(path, hierarchy.version));
        group.0.set_limit(limit).ok()?;
        Some(group)
    }

    /// The file that takes a process in.
    pub(super) fn entrance(&self) -> PathBuf {
        self.0.file(PROCESSES)
    }

    /// Lets none of its pages go to swap.
    pub(super) fn forbid_swap(&self, limit: u64) -> Result<(), ControlError> {
        self.0.forbid_swap(limit)?;
        match self.0.version() {
            CgroupVersion::V1 => self.0.set_swappiness(0),
            CgroupVersion::V2 => Ok(()),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(self.0.path());
    }
}

#[test]
fn the_ram_is_that_of_the_machine_or_of_a_cgroup() {
    let machine = procfs::Meminfo::current()
        .expect("procfs reads meminfo")
        .mem_total;
    let ram = available_ram().expect("RAM");
    assert!(ram > 0 && ram <= machine);
}

#[test]
fn a_share_is_of_the_limit_of_a_cgroup() {
    let group = Group::make("share", 1 << 30);
    let root = rustix::process::geteuid().is_root();
    if !capability(
        "cgroup",
        root && group.is_some(),
        "needs root and a memory cgroup hierarchy",
    ) {
        return;
    }
    let group = group.expect("a cgroup");
    // An option of the pager chooses the engine, and the command says so.
    let script = format!(
        "echo $$ > {} && exec {PLIMSOLL} exec --ram 25% --page-file none --json -- /bin/true",
        group.entrance().display()
    );
    let shell = |script: &str| {
        let mut command: Command = plimsoll_testkit::command("sh");
        command
            .args(["-c", script])
            .env("XDG_CACHE_HOME", crate::heap::cache());
        ran(&mut command)
    };
    let said = text(&shell(&script).stderr);
    let chosen = document(&said, "engine");
    assert_engine(&chosen, "pager", Some(256 << 20), "pager-option");
    let plain = script.replace("--json ", "");
    let said = text(&shell(&plain).stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    let quiet = plain.replace("exec --ram", "--quiet exec --ram");
    assert_eq!(text(&shell(&quiet).stderr), "");
}
