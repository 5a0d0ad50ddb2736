//! Checks of the capabilities and confounders of this machine, each with its consequence and a remedy.
//!
//! [`examine`] returns data, [`render`] text. Neither changes the system. Checks read a [`Tree`] and the outcomes of
//! [`Probes`], so that a test can pass them any machine.
//!
//! A check is a function in the file of its group, listed in [`examine_machine`].

mod caller;
mod confinement;
mod confounders;
mod machine;
mod measuring;
mod model;
mod pager;
mod probe;
mod reclaim;
mod render;
mod stores;
mod verdict;

use std::collections::BTreeMap;
use std::path::Path;

use plimsoll_proc::cgroup::{Hierarchy, MemoryCgroup};
use plimsoll_proc::{Tree, cpus, meminfo, sysctl};

use plimsoll_model::quantity;
use plimsoll_sample::host;

use caller::Caller;
use model::USABLE;
pub use model::{Cause, Check, EXAMINATION_SCHEMA, Examination, Group, Readiness, State, Verdict};
pub use probe::{Disk, Outcome, Probes, UffdAccess};
pub use render::render;

/// Examines this machine; `folder` is the folder for swap files.
pub fn examine(folder: &Path) -> Examination {
    examine_machine(&Tree::live(), &Probes::live(folder))
}

/// Examines the machine with the files of `tree` and the outcomes of system calls in `probes`.
pub fn examine_machine(tree: &Tree, probes: &Probes) -> Examination {
    let look = Look {
        tree,
        probes,
        caller: Caller::of(tree),
        cgroup: Hierarchy::of(tree).ok(),
        container: host::container(tree),
    };
    let checks = [
        machine::memory,
        machine::privileges,
        machine::surroundings,
        machine::disk,
        confinement::cgroup,
        confinement::pressure,
        stores::zram,
        stores::zswap,
        stores::swap,
        reclaim::page_out,
        reclaim::process_madvise,
        reclaim::cgroup_reclaim,
        reclaim::settings,
        reclaim::generations,
        reclaim::huge_pages,
        pager::userfaultfd,
        measuring::perf_events,
        measuring::locked_memory,
        measuring::allocators,
        confounders::damon,
        confounders::page_reporting,
        confounders::steal,
        confounders::frequency,
    ];
    let cpus = cpus::online(tree);
    let ram = meminfo::read(tree, "MemTotal").map_or_else(|| "unknown".to_owned(), size);
    let checks: Vec<Check> = checks.iter().map(|check| check(&look)).collect();
    Examination {
        schema: EXAMINATION_SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        machine: format!("Linux {}, {cpus} CPUs, {ram} of RAM", sysctl::kernel(tree)),
        verdict: verdict::verdict(&checks),
        checks,
    }
}

/// The input of every check.
struct Look<'a> {
    tree: &'a Tree,
    probes: &'a Probes,
    caller: Caller,
    /// The hierarchy with the memory controller.
    cgroup: Option<Hierarchy>,
    /// Name of the container, and the file or variable that identified it.
    container: Option<(String, String)>,
}

impl Look<'_> {
    /// The cgroup of the hierarchy with this folder, below the root of the tree.
    fn group(&self, hierarchy: &Hierarchy, folder: &Path) -> MemoryCgroup {
        MemoryCgroup::new(self.tree.path(&folder.to_string_lossy()), hierarchy.version)
    }

    /// The remedy for missing privileges: `sudo` for a user other than root, the flag `--privileged` in a container.
    fn become_root(&self) -> &'static str {
        match (&self.container, self.caller.uid) {
            (None, _) => "sudo plimsoll run compression",
            (Some(_), Some(0)) => "docker run --privileged ...   # or podman, with the same flag, as root",
            (Some(_), _) => {
                "sudo plimsoll run compression\n\
                 docker run --privileged ...   # if root inside the container is not enough"
            }
        }
    }

    /// A check of a kernel without the capability, if `folder` of sysfs is visible; otherwise of an unknown one.
    fn absent_from(&self, folder: &str, about: &About, missing: &str, enable: &str) -> Check {
        if self.tree.exists(folder) {
            about.check((State::Missing, Cause::NotBuilt), missing, enable)
        } else {
            about.check(
                (State::Unknown, Cause::Hidden),
                format!("/{folder} is hidden"),
                enable,
            )
        }
    }

    /// Whether the running kernel has a loadable module `name` on disk.
    fn module_on_disk(&self, name: &str) -> bool {
        let release = self.tree.read(sysctl::RELEASE).unwrap_or_default();
        let modules = self
            .tree
            .read(&format!("lib/modules/{release}/modules.dep"))
            .unwrap_or_default();
        modules.contains(&format!("/{name}.ko"))
    }
}

/// The constant fields of a check.
struct About {
    id: &'static str,
    group: Group,
    title: &'static str,
    lost: &'static str,
}

impl About {
    fn check(
        &self,
        (state, code): (State, Cause),
        found: impl Into<String>,
        enable: impl Into<String>,
    ) -> Check {
        Check {
            id: self.id.to_owned(),
            group: self.group,
            title: self.title.to_owned(),
            state,
            code,
            found: found.into(),
            values: BTreeMap::new(),
            lost: self.lost.to_owned(),
            enable: enable.into(),
        }
    }
}

fn size(bytes: u64) -> String {
    quantity::bytes(bytes as f64)
}
