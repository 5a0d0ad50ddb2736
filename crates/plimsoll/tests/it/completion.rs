//! Completion in real shells.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Output};

use plimsoll_testkit::capability;

use crate::recordings::{Desk, PLIMSOLL};
use crate::watch::terminal::pseudo_terminal::{OWNED, Terminal};

/// Calls the function of the script as bash does for the tab key: with the line, its words and the word to replace.
const BASH: &str = r#"
source <(plimsoll completions bash)
while IFS= read -r line; do
    COMP_LINE=$line COMP_POINT=${#line}
    _plimsoll plimsoll "${line##*[ =@:]}"
    echo "${#COMPREPLY[@]} ${COMPREPLY[*]}"
done
"#;

/// The folder of the program first in PATH.
fn path() -> String {
    let bin = Path::new(PLIMSOLL)
        .parent()
        .expect("a folder")
        .display()
        .to_string();
    format!("{bin}:{}", std::env::var("PATH").expect("tests have a PATH"))
}

fn bash(desk: &Desk, lines: &[&str]) -> Vec<String> {
    let input = desk.path().join("lines");
    fs::write(&input, lines.join("\n") + "\n").expect("written");
    let output = plimsoll_testkit::command("bash")
        .args(["--norc", "-c", BASH])
        .env("PATH", path())
        .current_dir(desk.path())
        .stdin(fs::File::open(&input).expect("the lines"))
        .output()
        .expect("bash");
    fs::remove_file(input).expect("removed");
    let replies: Vec<String> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(str::to_owned)
        .collect();
    assert_eq!(
        replies.len(),
        lines.len(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    replies
}

/// A child with a PID that no other PID begins with: the reply to it is its PID alone.
fn unmistakable() -> (Sleeper, String) {
    loop {
        let child = Sleeper(
            plimsoll_testkit::command("sleep")
                .arg("600")
                .spawn()
                .expect("sleep starts"),
        );
        let pid = child.0.id().to_string();
        // With a further digit, a later process has the PID.
        let is_longer = |other: &str| other.len() > pid.len() && other.starts_with(&pid);
        let mut all = fs::read_dir("/proc").expect("processes").flatten();
        if !all.any(|entry| is_longer(&entry.file_name().to_string_lossy())) {
            return (child, pid);
        }
    }
}

struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn bash_completes_scenarios_recordings_keys_and_processes() {
    let desk = Desk::used();
    let (_child, pid) = unmistakable();
    let own = format!("plimsoll trim {pid}");
    let lines = [
        ("plimsoll rep", "1 report"),
        ("plimsoll run tou", "1 tour"),
        ("plimsoll report @l", "1 latest"),
        ("plimsoll report tour", "1 tour-1"),
        (
            "plimsoll export --format csv comp",
            "2 compression-b compression-a",
        ),
        ("plimsoll compare compression-a @-", "1 -1"),
        ("plimsoll run thrash writ", "1 writes="),
        ("plimsoll run thrash --set order=f", "1 fixed"),
        ("plimsoll ps --sort=sw", "1 swap"),
        ("plimsoll size --engine swap", "1 swapfile"),
        ("plimsoll size --engine none,zram:z", "1 zstd"),
        ("plimsoll size --engine=none,swap", "1 none,swapfile"),
        ("plimsoll size --engine none,no", "0 "),
        (&own, &format!("1 {pid}")),
        ("plimsoll report no-such-name", "0 "),
    ];
    let asked: Vec<&str> = lines.iter().map(|(line, _)| *line).collect();
    for ((line, expected), reply) in lines.iter().zip(bash(&desk, &asked)) {
        assert_eq!(reply, *expected, "{line}");
    }
}

/// Every file below the folder, with its content.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).expect("a folder") {
            let path = entry.expect("an entry").path();
            let content = if path.is_file() {
                fs::read(&path).expect("a file")
            } else {
                Vec::new()
            };
            if path.is_dir() {
                folders.push(path.clone());
            }
            found.insert(path.display().to_string(), content);
        }
    }
    found
}

#[test]
fn completion_has_no_side_effect() {
    let desk = Desk::used()
        .with("x'$(touch owned)`touch owned`", "2026-01-04T00:00:00Z")
        .with("y\x1b]0;owned\x07", "2026-01-05T00:00:00Z");
    // A program of the same name elsewhere, as on a line that begins with its path.
    let evil = desk.path().join("evil");
    fs::create_dir(&evil).expect("a folder");
    fs::write(evil.join("plimsoll"), "#!/bin/sh\ntouch owned\n").expect("written");
    fs::set_permissions(evil.join("plimsoll"), fs::Permissions::from_mode(0o755)).expect("permissions");
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        desk.path().join("pipe.toml"),
        rustix::fs::Mode::RWXU,
    )
    .expect("a pipe");
    let before = files(desk.path());
    let replies = bash(
        &desk,
        &[
            "plimsoll report $(touch owned) ",
            "plimsoll run `touch owned` ",
            "plimsoll run pipe.toml ",
            "plimsoll run tour; touch owned ",
            "evil/plimsoll report @l",
            "plimsoll report x",
            "plimsoll report \"x",
            "plimsoll report y",
            "plimsoll run --output owned tour --set x=1 ",
            "plimsoll cleanup --",
            "plimsoll heap run -- touch owned ",
        ],
    );
    assert_eq!(files(desk.path()), before);
    // Quoted for the line, and left out where a quote is open or the name acts on a terminal.
    assert_eq!(replies[5], "1 x\\'\\$\\(touch\\ owned\\)\\`touch\\ owned\\`");
    assert_eq!((replies[6].as_str(), replies[7].as_str()), ("0 ", "0 "));
    assert!(replies.iter().all(|reply| !reply.contains('\x1b')));
}

fn complete(desk: &Desk, shell: &str, line: &str) -> Output {
    plimsoll_testkit::command(PLIMSOLL)
        .args(["complete", shell, "--", line])
        .current_dir(desk.path())
        .output()
        .expect("plimsoll starts")
}

#[test]
fn zsh_and_fish_get_values_with_meanings() {
    let desk = Desk::used();
    for shell in ["zsh", "fish"] {
        for (line, kind, values) in [
            ("plimsoll report @", "files", &["@latest", "@-1"][..]),
            ("plimsoll size --engine none,swap", "words", &["none,swapfile"]),
        ] {
            let output = complete(&desk, shell, line);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let mut lines = text.lines();
            assert_eq!(lines.next(), Some(kind), "{shell} {line}");
            let found: Vec<&str> = lines
                .filter_map(|line| line.split_once('\t'))
                .filter(|(_, meaning)| !meaning.is_empty())
                .map(|(value, _)| value)
                .collect();
            assert_eq!(found, values, "{shell} {line}: {text}");
        }
    }
}

/// A shell that waits for keys in the folder.
fn interactive(desk: &Desk, shell: &[&str]) -> Terminal {
    let folder = desk.path().display().to_string();
    let starter = [&["env", "-C", &folder], OWNED].concat();
    let path = path();
    let home = [
        ("PATH", path.as_str()),
        ("PS1", "ready> "),
        ("HOME", folder.as_str()),
    ];
    Terminal::start(&starter, shell, &home)
}

/// Types `line` and the tab key, and waits for the completed line.
fn tab(terminal: &mut Terminal, line: &str, completed: &str) {
    terminal.press(&format!("{line}\t"));
    terminal.until(completed, |screen| screen.contents().contains(completed));
    // Ctrl-U empties the line.
    terminal.press("\x15");
}

fn typed_into(terminal: &mut Terminal) {
    tab(terminal, "plimsoll report @lat", "plimsoll report @latest");
    tab(terminal, "plimsoll show wscap-s", "plimsoll show wscap-sweep");
    tab(
        terminal,
        "plimsoll run thrash writ",
        "plimsoll run thrash writes=",
    );
    tab(
        terminal,
        "plimsoll export --format=parq",
        "plimsoll export --format=parquet",
    );
    tab(
        terminal,
        "plimsoll size --engine none,zram:z",
        "plimsoll size --engine none,zram:zstd",
    );
    // A file where no recording has the name.
    tab(terminal, "plimsoll report note", "plimsoll report notes.txt");
    terminal.press("exit\n");
    assert_eq!(terminal.end(), Some(0), "{}", terminal.contents());
}

fn desk_with_notes() -> Desk {
    let desk = Desk::used();
    fs::write(desk.path().join("notes.txt"), "").expect("written");
    desk
}

#[test]
fn the_tab_key_of_an_interactive_bash_completes() {
    let desk = desk_with_notes();
    let mut terminal = interactive(&desk, &["bash", "--norc", "--noprofile", "-i"]);
    terminal.until_text("ready>");
    terminal.press("source <(plimsoll completions bash)\n");
    typed_into(&mut terminal);
}

fn installed(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).exists())
}

#[test]
fn the_tab_key_of_an_interactive_zsh_completes() {
    if !capability("zsh", installed("zsh"), "zsh is not installed") {
        return;
    }
    let desk = desk_with_notes();
    let mut terminal = interactive(&desk, &["zsh", "-f", "-i"]);
    terminal.until_text("ready>");
    terminal
        .press("autoload -U compinit; compinit -D -u; source <(plimsoll completions zsh); echo lo''aded\n");
    terminal.until_text("loaded");
    typed_into(&mut terminal);
}

#[test]
fn fish_completes() {
    if !capability("fish", installed("fish"), "fish is not installed") {
        return;
    }
    let desk = desk_with_notes();
    for (line, expected) in [
        ("plimsoll report @lat", "@latest"),
        ("plimsoll run thrash writ", "writes="),
        ("plimsoll ps --sort=sw", "--sort=swap"),
        ("plimsoll rep", "report"),
        ("plimsoll size --engine none,zram:z", "none,zram:zstd"),
        ("plimsoll size --engine=none,swap", "--engine=none,swapfile"),
        ("plimsoll report note", "notes.txt"),
    ] {
        let script = format!("plimsoll completions fish | source; complete -C '{line}'");
        let output = plimsoll_testkit::command("fish")
            .args(["--no-config", "-c", &script])
            .env("PATH", path())
            .env("HOME", desk.path())
            .current_dir(desk.path())
            .output()
            .expect("fish");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let values: Vec<&str> = text.lines().filter_map(|line| line.split('\t').next()).collect();
        assert_eq!(
            values,
            [expected],
            "{line}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
