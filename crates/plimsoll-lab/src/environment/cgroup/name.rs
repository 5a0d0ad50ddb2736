//! Names of cgroups: those of runs, and the processes in them.

use std::ffi::OsStr;
use std::path::Path;

/// A cgroup is named `plimsoll-<run>-<number>`.
pub(super) const PREFIX: &str = "plimsoll-";

/// Whether the cgroup has a name that a run gives.
pub(in super::super) fn is_our_name(path: &Path) -> bool {
    path.file_name()
        .and_then(OsStr::to_str)
        .is_some_and(|name| name.starts_with(PREFIX))
}

/// Whether a process with these paths in the hierarchies is in a cgroup of the run.
pub(in super::super) fn holds_process_of(run: &str, paths: &[String]) -> bool {
    let of_run = |name: &str| {
        let number = name.strip_prefix(PREFIX).and_then(|name| name.strip_prefix(run));
        let number = number.and_then(|rest| rest.strip_prefix('-'));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    cgroups_of(paths).any(of_run)
}

/// The names of all cgroups on the way to a process with these paths.
pub(super) fn cgroups_of(paths: &[String]) -> impl Iterator<Item = &str> {
    paths.iter().flat_map(|path| path.split('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_cgroup_of_the_run_proves_a_process_to_be_its_own() {
        let holds = |run: &str, path: &str| holds_process_of(run, &[path.to_owned(), "/".to_owned()]);
        let inside = "/user/plimsoll-killed-12/inner";
        assert!(holds("killed", inside) && holds("killed", "/a:b/plimsoll-killed-1"));
        assert!(!holds("kill", inside) && !holds("killed-1", inside) && !holds("", inside));
        assert!(!holds("killed", "/plimsoll-killed-") && !holds("killed", "/plimsoll-killed-1x"));
    }
}
