//! Whether processes are frozen. A look reads the state of a cgroup once, for all of its processes.

use std::collections::HashMap;

use plimsoll_proc::cgroup::Freezer;
use plimsoll_proc::{Folder, Tree};

#[derive(Debug)]
pub(super) struct Frozen {
    freezer: Freezer,
    /// The states that this look has read, by the texts of the `cgroup` files of processes.
    states: HashMap<Vec<u8>, bool>,
}

impl Frozen {
    pub(super) fn find(tree: &Tree) -> Frozen {
        Frozen {
            freezer: Freezer::find(tree),
            states: HashMap::new(),
        }
    }

    /// Begins a look.
    pub(super) fn begin(&mut self) {
        self.states.clear();
    }

    /// As [`Freezer::holds`], with the state that this look has read.
    pub(super) fn holds(&mut self, process: &Folder, buffer: &mut Vec<u8>) -> bool {
        let text = process.read("cgroup", buffer);
        text.is_ok_and(|text| self.holds_cgroups(text))
    }

    /// As [`Freezer::holds`], with the state of now.
    pub(super) fn holds_now(&self, process: &Folder, buffer: &mut Vec<u8>) -> bool {
        self.freezer.holds(process, buffer)
    }

    fn holds_cgroups(&mut self, cgroups: &[u8]) -> bool {
        if let Some(state) = self.states.get(cgroups) {
            return *state;
        }
        let state = self.freezer.holds_cgroups(&String::from_utf8_lossy(cgroups));
        self.states.insert(cgroups.to_vec(), state);
        state
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_look_reads_the_state_of_a_cgroup_once() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::below(root.path());
        for folder in ["proc/self", "v2/job"] {
            fs::create_dir_all(tree.path(folder)).unwrap();
        }
        let write = |file: &str, text: &str| fs::write(tree.path(file), text).unwrap();
        write(
            "proc/self/mountinfo",
            "31 25 0:27 / /v2 rw - cgroup2 cgroup2 rw\n",
        );
        write("v2/job/cgroup.events", "populated 1\nfrozen 1\n");
        let mut frozen = Frozen::find(&tree);
        assert!(frozen.holds_cgroups(b"0::/job\n"));
        assert!(!frozen.holds_cgroups(b"0::/\n"), "another cgroup");
        write("v2/job/cgroup.events", "populated 1\nfrozen 0\n");
        assert!(frozen.holds_cgroups(b"0::/job\n"), "the same look");
        frozen.begin();
        assert!(!frozen.holds_cgroups(b"0::/job\n"), "the next look");
    }
}
