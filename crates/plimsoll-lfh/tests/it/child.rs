//! Tests that take a process of their own: the same test again, in a child of the test program.

use crate::this_program::this_program;

const VARIABLE: &str = "PLIMSOLL_LFH_CHILD";

/// Runs `body` in a process of its own, which runs the test `name` alone, with `environment` added. Fails where it
/// fails.
pub(crate) fn in_child(name: &str, environment: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var_os(VARIABLE).is_some() {
        return body();
    }
    let output = this_program()
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(VARIABLE, "1")
        .envs(environment.iter().copied())
        .output()
        .expect("the test program starts");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}\n{text}", output.status);
    assert!(text.contains("1 passed"), "{name} is no test:\n{text}");
    print!("{}", figures(&text));
}

/// The lines that a child wrote for people to read.
fn figures(text: &str) -> String {
    text.lines()
        .filter_map(|line| line.find("figure:").map(|at| format!("{}\n", &line[at..])))
        .collect()
}

/// Bytes of this process that are resident.
pub(crate) fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").expect("there is /proc");
    let pages = status
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok());
    // SAFETY: asks for a number of the system.
    #[allow(unsafe_code)]
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    pages.expect("the second number is the resident pages") * page
}
