//! A memory cgroup that kills a program without `plimsoll exec`.

use std::ffi::OsStr;
use std::os::unix::process::{CommandExt, ExitStatusExt};

use plimsoll_testkit::capability;

use super::super::budget::Group;
use super::super::document;
use super::{Ended, MIB, PATH, Place, installed, is_root};
use crate::heap::NOBODY;

/// The limit of the cgroup, without swap.
const LIMIT: u64 = 110 * MIB;

/// The budget of the program.
const RAM: u64 = 80 * MIB;
pub(crate) const RAM_OPTION: &str = "80M";

/// 200 MB, of which the program reads every byte back. It is the example of README.md.
pub(crate) const SCRIPT: &str = "rows = [bytes([n % 251]) * 100_000 for n in range(2_000)]; \
                      print(sum(row.count(n % 251) for n, row in enumerate(rows)))";

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
    let plimsoll = place.plimsoll();
    let exec: [&OsStr; 6] = [
        plimsoll.as_os_str(),
        "exec".as_ref(),
        "--ram".as_ref(),
        RAM_OPTION.as_ref(),
        "--json".as_ref(),
        "--".as_ref(),
    ];
    let inside = |prefix: &[&OsStr]| -> Ended {
        // The shell enters the cgroup as root, and becomes the program as nobody.
        let script = format!(
            "echo $$ >{} && exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups -- \"$@\"",
            group.entrance().display()
        );
        let mut command = plimsoll_testkit::command("sh");
        command
            .args(["-c", &script, "sh"])
            .args(prefix)
            .args(["python3", "-c", SCRIPT])
            .current_dir(place.work())
            .env("PATH", PATH)
            .env("XDG_CACHE_HOME", place.cache())
            .process_group(0);
        place.run(&mut command)
    };
    let native = inside(&[]);
    assert_eq!(
        native.status.signal(),
        Some(libc::SIGKILL),
        "{}{}",
        native.output,
        native.errors
    );
    let managed = inside(&exec);
    eprintln!("killed: {} in {:.1} s", managed.peak, managed.time.as_secs_f64());
    assert_eq!(
        (managed.output.as_str(), managed.status.code()),
        ("200000000\n", Some(0)),
        "{}",
        managed.errors
    );
    let chosen = document(&managed.errors, "engine");
    assert_eq!(
        (&chosen["engine"], chosen["ram_bytes"].as_u64()),
        (&"pager".into(), Some(RAM)),
        "{chosen:#}"
    );
    assert_eq!(managed.errors.lines().count(), 1, "{}", managed.errors);
    managed.peak.assert_tree_within("killed", RAM);
}
