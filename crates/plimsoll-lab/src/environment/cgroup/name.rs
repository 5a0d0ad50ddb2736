//! Names of cgroups: those of runs, and the processes in them.

use std::ffi::OsStr;
use std::path::Path;

use plimsoll_proc::cgroup::paths_in;

/// A cgroup is named `plimsoll-<run>-<number>`.
pub(super) const PREFIX: &str = "plimsoll-";

/// Whether the cgroup has a name that a run gives.
pub(in super::super) fn is_our_name(path: &Path) -> bool {
    path.file_name()
        .and_then(OsStr::to_str)
        .is_some_and(|name| name.starts_with(PREFIX))
}

/// Whether the text of `/proc/<pid>/cgroup` shows the process in a cgroup of the run.
pub(in super::super) fn holds_process_of(run: &str, text: &str) -> bool {
    let of_run = |name: &str| {
        let number = name.strip_prefix(PREFIX).and_then(|name| name.strip_prefix(run));
        let number = number.and_then(|rest| rest.strip_prefix('-'));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    cgroups_of(text).any(of_run)
}

/// The names of all cgroups on the way to a process, from the text of `/proc/<pid>/cgroup`.
pub(super) fn cgroups_of(text: &str) -> impl Iterator<Item = &str> {
    paths_in(text).flat_map(|path| path.split('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_cgroup_of_the_run_proves_a_process_to_be_its_own() {
        let inside = "5:memory:/user/plimsoll-killed-12/inner\n0::/\n";
        assert!(holds_process_of("killed", inside));
        assert!(!holds_process_of("kill", inside) && !holds_process_of("killed-1", inside));
        assert!(!holds_process_of("", inside) && !holds_process_of("killed", "0::/plimsoll-killed-\n"));
        assert!(!holds_process_of(
            "killed",
            "0::/plimsoll-killed-1x\n9:name=plimsoll-killed-1:/\n"
        ));
        assert!(holds_process_of("killed", "0::/a:b/plimsoll-killed-1\n"));
    }
}
