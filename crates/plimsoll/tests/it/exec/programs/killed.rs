//! A memory cgroup that kills a program without `plimsoll exec`.

use std::os::unix::process::{CommandExt, ExitStatusExt};

use plimsoll_testkit::capability;

use super::super::budget::Group;
use super::{Ended, MIB, PATH, Place, installed, is_root};
use crate::heap::NOBODY;

/// The limit of the cgroup, without swap.
const LIMIT: u64 = 110 * MIB;

/// The budget of the program.
const RAM: u64 = 80 * MIB;

/// 200 MB.
const SCRIPT: &str = "rows = [bytes([n % 251]) * 100000 for n in range(2000)]\n\
                      print(sum(row[n % 100000] for n, row in enumerate(rows)), len(rows))\n";

#[test]
fn a_program_that_its_cgroup_kills_completes() {
    let group = Group::make("killed", LIMIT).filter(|group| group.forbid_swap(LIMIT).is_ok());
    if !installed(&["python3"])
        || !capability(
            "cgroup",
            is_root() && group.is_some(),
            "needs root and a memory cgroup hierarchy",
        )
    {
        return;
    }
    let group = group.expect("a cgroup");
    let place = Place::new();
    let inside = |ram: Option<u64>| -> Ended {
        let managed = ram.map(|ram| place.managed(ram, false));
        let words: Vec<String> = managed.iter().flat_map(words).collect();
        // The shell enters the cgroup as root, and becomes the program as nobody.
        let script = format!(
            "echo $$ >{} && exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups -- \"$@\"",
            group.entrance().display()
        );
        let mut command = plimsoll_testkit::command("sh");
        command
            .args(["-c", &script, "sh"])
            .args(words)
            .args(["python3", "-c", SCRIPT])
            .current_dir(place.work())
            .env("PATH", PATH)
            .env("XDG_CACHE_HOME", place.cache())
            .process_group(0);
        place.run(&mut command)
    };
    let native = inside(None);
    assert_eq!(
        native.status.signal(),
        Some(libc::SIGKILL),
        "{}{}",
        native.output,
        native.errors
    );
    let managed = inside(Some(RAM));
    eprintln!("killed: {} in {:.1} s", managed.peak, managed.time.as_secs_f64());
    assert_eq!(
        (
            managed.output.as_str(),
            managed.errors.as_str(),
            managed.status.code()
        ),
        ("249028 2000\n", "", Some(0))
    );
    managed.peak.assert_tree_within("killed", RAM);
}

/// The program and the arguments of a command.
fn words(command: &std::process::Command) -> impl Iterator<Item = String> {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_str().expect("text").to_owned())
}
