//! Memory cgroups made of plain files.

use std::fs;
use std::path::Path;

use plimsoll_proc::ControlError;
use plimsoll_proc::cgroup::{CapKind, CgroupVersion, Field, MemoryCgroup, members};

fn group(version: CgroupVersion, files: &[(&str, &str)]) -> (tempfile::TempDir, MemoryCgroup) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let group = MemoryCgroup::new(folder.path(), version);
    (folder, group)
}

#[test]
fn no_limit_is_a_large_number_in_v1_and_a_word_in_v2() {
    for text in ["9223372036854771712\n", "9223372036854775807\n"] {
        let (_folder, v1) = group(CgroupVersion::V1, &[("memory.limit_in_bytes", text)]);
        assert_eq!(v1.limit().unwrap(), None, "{text}");
    }
    let (_folder, v1) = group(CgroupVersion::V1, &[("memory.limit_in_bytes", "4096\n")]);
    assert_eq!(v1.limit().unwrap(), Some(4096));
    let (_folder, v1) = group(CgroupVersion::V1, &[("memory.limit_in_bytes", "max\n")]);
    let error = v1.limit().unwrap_err();
    assert_eq!(error.io().kind(), std::io::ErrorKind::InvalidData, "{error}");
    let (_folder, v1) = group(CgroupVersion::V1, &[]);
    assert!(v1.limit().is_err(), "every cgroup of v1 has the file");

    let (_folder, v2) = group(
        CgroupVersion::V2,
        &[("memory.max", "max\n"), ("memory.high", "8192\n")],
    );
    assert_eq!((v2.limit().unwrap(), v2.high().unwrap()), (None, Some(8192)));
    assert_eq!(
        v2.caps().collect::<Vec<_>>(),
        [(CapKind::High, 8192, "memory.high")]
    );
    let (_folder, root) = group(CgroupVersion::V2, &[]);
    assert_eq!(root.limit().unwrap(), None, "the root of v2 has no such file");
}

#[test]
fn swap_is_in_the_statistics_of_v1_and_in_a_file_of_v2() {
    let stat = ("memory.stat", "swap 1\ntotal_swap 8192\n");
    let (_folder, v1) = group(CgroupVersion::V1, &[stat]);
    assert_eq!(v1.swap().unwrap(), Some(8192));
    let (_folder, v2) = group(CgroupVersion::V2, &[("memory.swap.current", "4096\n")]);
    assert_eq!(v2.swap().unwrap(), Some(4096));
    let (_folder, bare) = group(CgroupVersion::V2, &[]);
    assert_eq!(bare.swap().unwrap(), None);
    assert!(bare.stat().is_err() && bare.usage().is_err());
}

#[test]
fn every_writer_takes_the_file_of_its_version() {
    let v2 = CgroupVersion::V2;
    let (folder, cgroup) = group(
        v2,
        &[("memory.max", ""), ("memory.high", ""), ("memory.reclaim", "")],
    );
    let text = |folder: &Path, name: &str| fs::read_to_string(folder.join(name)).unwrap();
    cgroup.set_limit(4096).unwrap();
    cgroup.set_high(None).unwrap();
    cgroup.reclaim(12).unwrap();
    // Kernels without these files accept it, and no file is made.
    cgroup.forbid_swap(4096).unwrap();
    cgroup.kill_as_one().unwrap();
    let here = folder.path();
    assert_eq!(text(here, "memory.max"), "4096");
    assert_eq!(text(here, "memory.high"), "max");
    assert_eq!(text(here, "memory.reclaim"), "12");
    assert_eq!(fs::read_dir(here).unwrap().count(), 3);

    let files = [("memory.limit_in_bytes", ""), ("memory.memsw.limit_in_bytes", "")];
    let (folder, cgroup) = group(CgroupVersion::V1, &files);
    cgroup.restore_limit(None).unwrap();
    cgroup.forbid_swap(4096).unwrap();
    assert_eq!(text(folder.path(), "memory.limit_in_bytes"), "-1");
    assert_eq!(text(folder.path(), "memory.memsw.limit_in_bytes"), "4096");
    let error = cgroup.set_swappiness(0).unwrap_err();
    assert!(
        matches!(&error, ControlError::Write { path, value, source }
            if *path == folder.path().join("memory.swappiness")
                && value == "0"
                && source.kind() == std::io::ErrorKind::NotFound),
        "{error:?}"
    );
}

#[test]
fn v1_includes_descendants() {
    let stat =
        "workingset_refault_anon 1\ntotal_workingset_refault_anon 7\ntotal_workingset_refault_file 5\n";
    let (_folder, group) = group(CgroupVersion::V1, &[("memory.stat", stat)]);
    let stat = group.stat().unwrap();
    assert_eq!(
        (stat.get(Field::RefaultsAnon), stat.get(Field::RefaultsFile)),
        (Some(7), Some(5))
    );
    assert_eq!(stat.get(Field::Zswapped), None);
}

#[test]
fn members_of_a_tree_of_cgroups() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("a/b");
    fs::create_dir_all(&below).unwrap();
    fs::write(folder.path().join("cgroup.procs"), "9\n0\n").unwrap();
    fs::write(folder.path().join("a/cgroup.procs"), "").unwrap();
    fs::write(below.join("cgroup.procs"), "12\n3\n9\n").unwrap();
    assert_eq!(members(folder.path()).unwrap(), [3, 9, 12]);
    assert!(members(&folder.path().join("gone")).is_err());
}
