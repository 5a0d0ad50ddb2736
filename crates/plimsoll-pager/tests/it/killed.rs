//! A process with a pager that is killed leaves nothing behind.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use plimsoll_pager::{Pager, TrimTo};
use plimsoll_testkit::{again, role};

use crate::children::Started;
use crate::pages::fill;

const MIB: usize = 1 << 20;

/// The program: uses its pager until it is killed.
fn use_a_pager() {
    let pager = Pager::builder().ram(8 * MIB as u64).build();
    let pager = pager.expect("userfaultfd is allowed");
    let mut region = pager.map(32 * MIB).expect("addresses are free");
    for round in 1.. {
        fill(region.bytes_mut(), 0, round);
        region.trim(..MIB, TrimTo::Standby).expect("a part of the region");
        if round == 2 {
            println!("\nworking");
        }
    }
}

/// Mappings of a process that may outlive it: shared ones, and those of files that it could have written.
fn shared_mappings(program: &Child) -> Vec<String> {
    let maps = fs::read_to_string(format!("/proc/{}/maps", program.id())).expect("a child's maps");
    assert!(maps.lines().count() > 10);
    maps.lines()
        .filter(|line| line.split(' ').nth(1).is_some_and(|rights| rights.ends_with('s')))
        .map(str::to_owned)
        .collect()
}

/// The files of a file system that a process has opened, except those of `/dev` and `/proc`. The first three are those of
/// its parent.
fn open_files(program: &Child) -> Vec<String> {
    let folder = fs::read_dir(format!("/proc/{}/fd", program.id())).expect("a child's files");
    folder
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| !["0", "1", "2"].iter().any(|inherited| path.ends_with(inherited)))
        .filter_map(|path| fs::read_link(path).ok())
        .map(|target| target.to_string_lossy().into_owned())
        .filter(|target| target.starts_with('/'))
        .filter(|target| !target.starts_with("/dev/") && !target.starts_with("/proc/"))
        .collect()
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder)
        .expect("the folder of the test")
        .next()
        .is_none()
}

#[test]
fn a_killed_process_leaves_no_process_no_file_and_no_memory() {
    if role().is_some() {
        return use_a_pager();
    }
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let program = again(
        "killed::a_killed_process_leaves_no_process_no_file_and_no_memory",
        "program",
    )
    .current_dir(folder.path())
    .env("TMPDIR", folder.path())
    .stdout(Stdio::piped())
    .spawn()
    .expect("the test program starts");
    let mut program = Started(program);
    let program = &mut program.0;
    let mut lines = BufReader::new(program.stdout.take().expect("a pipe")).lines();
    let mut texts = lines.by_ref().map_while(Result::ok);
    assert!(texts.any(|line| line == "working"));
    // All of its memory is private: it ends with the process. No file of it has a name, before or after.
    assert_eq!(shared_mappings(program), [""; 0]);
    assert_eq!(open_files(program), [""; 0]);
    let threads = fs::read_dir(format!("/proc/{}/task", program.id())).expect("a child's threads");
    assert!(
        threads.count() >= 3,
        "the test program's, the test's and the pager's"
    );
    let pid = program.id();
    let children = format!("/proc/{pid}/task/{pid}/children");
    assert_eq!(fs::read_to_string(children).expect("a child's children"), "");
    program.kill().expect("it is a child");
    let status = program.wait().expect("it is a child");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert!(is_empty(folder.path()));
}
