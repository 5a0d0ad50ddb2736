//! A program on the engine pager: the keys of a terminal, a shell that stops and continues it, and `pager stat` of it.

use std::process::Stdio;

use plimsoll_testkit::next_line;

use super::{PLIMSOLL, exec, ran, text};
use crate::heap::has;
use crate::watch::terminal::pseudo_terminal::{OWNED, Terminal};

/// The program has four times its RAM, and reads a line into it.
const LISTENER: &str = "\
rows = [bytes([number % 251]) * 4096 for number in range(16384)]\n\
print('has', sum(row[4095] for row in rows), flush=True)\n\
print('got', input(), sum(row[0] for row in rows), flush=True)\n";

/// Sleeps again and again: Python looks for signals between two sleeps, and misses one in the moment before a sleep. That
/// sleep lasted 600 s once, and the test waited in vain.
const SLEEPER: &str = "import time\nwhile True:\n    time.sleep(0.01)\n";

#[test]
fn the_keys_of_a_terminal_reach_a_managed_program_and_the_shell_sees_its_end() {
    if !has("python3") || !has("bash") {
        return;
    }
    let script = super::scratch("terminal").join("listener.py");
    std::fs::write(&script, format!("{LISTENER}{SLEEPER}")).expect("written");
    let cache = crate::heap::cache();
    let mut terminal = Terminal::start(
        OWNED,
        &["bash", "--norc", "--noprofile", "-i"],
        &[
            ("PS1", "ready> "),
            ("XDG_CACHE_HOME", cache.to_str().expect("text")),
        ],
    );
    terminal.until_text("ready>");
    terminal.press(&format!(
        "{PLIMSOLL} exec --engine pager --ram 16M -- python3 {}\n",
        script.display()
    ));
    terminal.until_text("has ");
    terminal.press("\x1a");
    terminal.until_text("Stopped");
    terminal.press("clear; fg\n");
    terminal.press("a line\n");
    terminal.until_text("got a line");
    terminal.press("\x03");
    terminal.until_text("KeyboardInterrupt");
    terminal.press("echo code=$?\n");
    terminal.until_text("code=130");
    terminal.press("exit\n");
    assert!(terminal.end().is_some());
}

#[test]
fn the_pagers_of_a_managed_program_can_be_read_while_it_runs_and_while_it_is_stopped() {
    if !has("python3") {
        return;
    }
    let mut program = exec()
        .args([
            "--engine", "pager", "--ram", "16M", "--", "python3", "-c", LISTENER,
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("plimsoll starts");
    let line = next_line(&mut program);
    assert!(line.starts_with("has "), "{line}");
    // It has become the program: the PID is that of the command.
    let pid = program.id().to_string();
    let process = rustix::process::Pid::from_child(&program);
    let signal = |signal| rustix::process::kill_process(process, signal).expect("a child of this process");
    for stop in [false, true] {
        if stop {
            signal(rustix::process::Signal::STOP);
        }
        let mut command = plimsoll_testkit::command(PLIMSOLL);
        let read = ran(command.args(["pager", "stat", "--json", "--validate", &pid]));
        let shown = text(&read.stdout);
        let survey: serde_json::Value =
            serde_json::from_str(&shown).unwrap_or_else(|error| panic!("{error}: {}", text(&read.stderr)));
        let pager = &survey["pagers"][0];
        let number = |key: &str| pager[key].as_u64().unwrap_or_else(|| panic!("{key}: {shown}"));
        assert_eq!(read.status.code(), Some(0), "{shown}");
        assert!(number("budget_bytes") <= 16 << 20, "{shown}");
        assert!(
            number("compressed_pages") + number("page_file_pages") > 8192,
            "{shown}"
        );
        assert_eq!(pager["validation"]["violations"], serde_json::json!([]));
    }
    signal(rustix::process::Signal::CONT);
    std::io::Write::write_all(&mut program.stdin.take().expect("it is piped"), b"more\n").expect("it reads");
    let line = next_line(&mut program);
    assert!(line.starts_with("got more "), "{line}");
    assert!(program.wait().expect("a child of this process").success());
}
