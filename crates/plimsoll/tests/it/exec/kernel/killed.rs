//! A command that is killed, and the cleanup after it.

use plimsoll_lab::environment::{RunState, cleanup_in};
use serde_json::Value;

use super::{Running, Swapped, cgroups, is_alive};
use crate::exec::{PLIMSOLL, text};

#[test]
fn an_enclosure_beside_a_run_is_removed_and_a_killed_one_is_cleaned_up() {
    let Some(machine) = Swapped::new() else { return };
    let mut command = machine.exec("64M");
    // The second one is no child of the command, whose death ends its child alone.
    command.args(["--", "sh", "-c", "sleep 600 >/dev/null & echo $!; wait"]);
    let mut running = Running::start(&mut command);
    let left = running.line();
    let alive = cleanup_in(machine.state.path(), None).expect("a cleanup");
    assert_eq!(alive.runs.len(), 1);
    assert_eq!(alive.runs[0].state, RunState::Live);
    assert!(is_alive(&left) && cgroups().len() == 1);

    running.child.kill().expect("it is killed");
    running.child.wait().expect("its end");
    assert!(is_alive(&left) && cgroups().len() == 1);
    let output = plimsoll_testkit::command(PLIMSOLL)
        .args(["cleanup", "--json"])
        .env("PLIMSOLL_STATE_DIR", machine.state.path())
        .output()
        .expect("plimsoll starts");
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}");
    let document: Value = serde_json::from_str(&said).expect("a document");
    let run = &document["runs"][0];
    assert_eq!(
        (&document["clean"], &run["state"]),
        (&true.into(), &"undone".into()),
        "{said}"
    );
    let undone = run["undone"].as_array().expect("a list");
    let has_cgroup = |text: &str| text.contains("/plimsoll-exec-");
    assert!(
        undone
            .iter()
            .any(|change| change.as_str().is_some_and(has_cgroup)),
        "{said}"
    );
    assert!(!is_alive(&left));
    machine.assert_nothing_left();
}
