//! Programs whose heap is damaged, looked at from outside by `plimsoll heap stat`, and from inside by
//! `plimsoll_heap_validate`.

use std::io::Read;
use std::mem::offset_of;
use std::path::Path;
use std::process::{Child, Output, Stdio};

use plimsoll_lfh::Directory;
use serde_json::Value;

use crate::heap::{compiled, has, heap_run};

/// A program that damaged its heap and waits; it ends when this is dropped.
struct Damaged {
    child: Child,
    /// Damages that its heap found by itself.
    found: u64,
}

impl Damaged {
    fn start(program: &Path, options: &[&str], words: &[&str]) -> Damaged {
        let mut child = heap_run()
            .args(options)
            .arg("--")
            .arg(program)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("plimsoll starts");
        let found = plimsoll_testkit::next_line(&mut child).parse();
        let mut damaged = Damaged { child, found: 0 };
        damaged.found = found.unwrap_or_else(|_| panic!("{words:?}: {:?}", damaged.end()));
        damaged
    }

    /// `plimsoll heap stat` of it.
    fn stat(&self, options: &[&str]) -> Output {
        plimsoll_testkit::command(env!("CARGO_BIN_EXE_plimsoll"))
            .args(["heap", "stat", &self.child.id().to_string()])
            .args(options)
            .output()
            .expect("plimsoll starts")
    }

    /// Ends it, and returns its standard error.
    fn end(&mut self) -> String {
        drop(self.child.stdin.take());
        let mut said = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut said).expect("it prints text");
        }
        let _ = self.child.wait();
        said
    }
}

impl Drop for Damaged {
    fn drop(&mut self) {
        self.end();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn damage_is_found_from_outside_and_from_inside() {
    if !has("gcc") {
        return;
    }
    let program = compiled("gcc", "damaged.c", "c", &["-ldl"]);
    for (options, how, code) in [
        (&[][..], "after-free", "slot-pointer"),
        (&["--hardened"], "after-free", "quarantined-block"),
        (&["--hardened"], "overrun", "canary"),
    ] {
        let mut damaged = Damaged::start(&program, options, &[how]);
        assert_eq!(damaged.found, 1, "{how} {options:?}");
        let stat = damaged.stat(&["--validate", "--json"]);
        assert_eq!(stat.status.code(), Some(2));
        let json: Value = serde_json::from_slice(&stat.stdout).expect("it is JSON");
        let validation = &json["processes"][0]["validation"];
        assert_eq!(validation["damaged"], 1, "{validation}");
        let damage = &validation["damage"][0];
        assert_eq!(
            (&damage["code"], &damage["heap"]),
            (&code.into(), &1.into()),
            "{validation}"
        );
        // The text has the same description, from outside and from inside.
        let what = damage["what"].as_str().expect("a description");
        let stat = damaged.stat(&["--validate"]);
        let said = text(&stat.stdout);
        assert_eq!(stat.status.code(), Some(2), "{how} {options:?}: {said}");
        let line = said.lines().find(|line| line.starts_with("! heap 1 at 0x"));
        assert!(
            line.is_some_and(|line| line.ends_with(what)),
            "{how} {options:?}: {said}"
        );
        // Without --validate there is no walk.
        assert_eq!(damaged.stat(&[]).status.code(), Some(0));
        let said = damaged.end();
        assert!(
            said.starts_with("plimsoll: ") && said.contains("heap 1 at 0x"),
            "{said}"
        );
        assert!(said.contains(what), "{said}");
    }
}

#[test]
fn a_sound_heap_has_no_damage_from_outside_or_inside() {
    if !has("gcc") {
        return;
    }
    let program = compiled("gcc", "damaged.c", "c", &["-ldl"]);
    for options in [&[][..], &["--hardened"], &["--front-end", "standard"]] {
        let mut sound = Damaged::start(&program, options, &["none"]);
        assert_eq!(sound.found, 0, "{options:?}");
        let stat = sound.stat(&["--validate"]);
        let said = text(&stat.stdout);
        assert_eq!(stat.status.code(), Some(0), "{options:?}: {said}");
        assert!(!said.contains('!'), "{said}");
        let stat = sound.stat(&["--validate", "--json"]);
        let json: Value = serde_json::from_slice(&stat.stdout).expect("it is JSON");
        let validation = &json["processes"][0]["validation"];
        assert_eq!(validation["damaged"], 0, "{validation}");
        assert_eq!(sound.end(), "");
    }
}

/// The library said that such heaps are sound: the walk that it could not make had found nothing.
#[test]
fn a_damaged_control_block_is_found_from_outside_and_inside() {
    if !has("gcc") {
        return;
    }
    let program = compiled("gcc", "damaged.c", "c", &["-ldl"]);
    let offset = offset_of!(Directory, units).to_string();
    let mut damaged = Damaged::start(&program, &[], &["control", &offset]);
    assert_eq!(damaged.found, 1);
    for options in [&[][..], &["--validate"]] {
        let stat = damaged.stat(options);
        let said = text(&stat.stderr);
        assert_eq!(stat.status.code(), Some(2), "{said}");
        assert!(said.contains("`units` holds 0x4141414141414141"), "{said}");
    }
    let said = damaged.end();
    assert!(said.contains("`units` holds 0x4141414141414141"), "{said}");
}
