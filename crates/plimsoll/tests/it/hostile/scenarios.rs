//! Scenario files with damaged and hostile parts.

use std::ffi::OsStr;
use std::fs;

use plimsoll_model::scenario::builtin;

use super::{Seed, hostile_texts, plimsoll, rounds};

/// Values out of range, of another type, and of other keys.
const VALUES: [&str; 14] = [
    "99T",
    "\"99T\"",
    "\"16E\"",
    "-1",
    "1e308",
    "0",
    "[]",
    "[1, 2]",
    "{}",
    "true",
    "\"100000%\"",
    "\"ramdom\"",
    "1979-05-27",
    "\"15E\"",
];

/// A scenario with some lines changed.
fn mutated(seed: &mut Seed) -> Vec<u8> {
    let mut lines: Vec<String> = seed.of_list(builtin()).text.lines().map(str::to_owned).collect();
    for _ in 0..=seed.below(3) {
        let at = seed.below(lines.len());
        let texts = hostile_texts();
        let text = seed.of_list(&texts).clone();
        match seed.below(6) {
            0 => {
                let key = lines[at].split('=').next().unwrap_or_default().to_owned();
                lines[at] = format!("{key}= {}", seed.of_list(&VALUES));
            }
            1 => lines[at] = format!("\"{text}\" = 1"),
            2 => lines[at] = format!("[{text}]"),
            3 => lines[at].push_str(&text),
            4 => {
                let line = lines[at].clone();
                lines.insert(at, line);
            }
            _ => {
                lines.remove(at);
            }
        }
        if lines.is_empty() {
            break;
        }
    }
    let mut bytes = lines.join("\n").into_bytes();
    if seed.below(4) == 0 && !bytes.is_empty() {
        let at = seed.below(bytes.len());
        bytes[at] ^= 1 << seed.below(8);
    }
    bytes
}

#[test]
fn a_mutated_scenario_is_resolved_or_its_mistake_is_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("hostile.toml");
    for number in rounds(40) {
        fs::write(&path, mutated(&mut Seed::of(number))).expect("written");
        let run = |option: &str| plimsoll(&[OsStr::new("run"), path.as_os_str(), OsStr::new(option)]);
        run("--check").assert_sound().assert_readable();
        if number % 8 == 0 {
            run("--dry-run").assert_sound().assert_readable();
            run("--show").assert_sound();
        }
    }
    eprintln!("{} mutated scenarios", rounds(40).count());
}

#[test]
fn a_key_of_200_kilobytes_is_shortened_wherever_it_stands() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("long.toml");
    let long = "k".repeat(200_000);
    for text in [
        format!("[scenario]\nname = \"x\"\n[global]\n{long} = 1\n"),
        format!("[scenario]\nname = \"{long}\"\n"),
        format!("[scenario]\nname = \"x\"\n{long} = 1\n"),
        format!("[scenario]\nname = \"x\"\n[{long}]\n"),
        format!("{long} = 1\n"),
        format!("[scenario]\nname = \"x\"\n[global]\n{long} = 1\n{long} = 1\n"),
        format!("[scenario]\nname = \"x\"\n[global]\nsize = \"{long}\"\n"),
        format!("[scenario]\nname = \"x\"\n[global]\nclass = [\"random\", \"{long}\"]\n"),
    ] {
        fs::write(&path, &text).expect("written");
        let ended = plimsoll(&[OsStr::new("run"), path.as_os_str(), OsStr::new("--check")]);
        assert_eq!(ended.assert_sound().code, Some(1), "{}", ended.stderr);
        assert!(
            ended.stderr.len() < 8000,
            "{} bytes for {text:.60}",
            ended.stderr.len()
        );
    }
    // The kernel allows arguments of 128 KiB.
    let set = format!("{}=1", &long[..100_000]);
    let ended = plimsoll(&["run", "compression", "--check", "--set", &set].map(OsStr::new));
    assert_eq!(ended.assert_sound().code, Some(1));
    assert!(ended.stderr.len() < 8000, "{} bytes", ended.stderr.len());
}
