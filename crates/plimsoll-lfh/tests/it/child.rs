//! Tests that take a process of their own: the same test again, in a child of the test program.

use plimsoll_testkit::{again, role};

/// Runs `body` in a process of its own, which runs the test `name` alone, with `environment` added. Fails where it
/// fails.
pub(crate) fn in_child(name: &str, environment: &[(&str, &str)], body: impl FnOnce()) {
    if role().is_some() {
        return body();
    }
    let output = again(name, "body")
        .envs(environment.iter().copied())
        .output()
        .expect("the test program starts");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}\n{text}", output.status);
    assert!(text.contains("1 passed"), "{name} is no test:\n{text}");
    print!("{}", measured(&text));
}

/// The lines that a child wrote for people to read.
fn measured(text: &str) -> String {
    text.lines()
        .filter_map(|line| line.find("measured:").map(|at| format!("{}\n", &line[at..])))
        .collect()
}
