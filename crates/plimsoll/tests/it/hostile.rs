//! Hostile input: damaged and invented recordings, scenarios, journals and names through every command.
//!
//! Every command ends in bounded time with one of its exit codes: no panic, no signal, no control character on a terminal,
//! no markup in a report. The inputs follow from seeds. Tests run a short form; `just hostile` sets
//! `PLIMSOLL_HOSTILE_ROUNDS`, which multiplies the rounds, or selects a part of them.

mod files;
mod growth;
mod recordings;
mod scenarios;
mod texts;

use std::ffi::OsStr;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Longest that a command may take; a command that waits for a pipe never ends.
const PATIENCE: Duration = Duration::from_secs(120);

/// The numbers of the rounds of a test that has `short` ones in its short form.
pub(crate) fn rounds(short: u64) -> Range<u64> {
    let factors = std::env::var("PLIMSOLL_HOSTILE_ROUNDS").map_or(0..1, |text| factors(&text));
    short * factors.start..short * factors.end
}

/// Multiples of the rounds of the short form: so many (`30`), or a part of so many (`10..20`).
fn factors(text: &str) -> Range<u64> {
    let number = |text: &str| {
        text.parse::<u64>()
            .expect("PLIMSOLL_HOSTILE_ROUNDS is a number or a range")
    };
    match text.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => 0..number(text),
    }
}

#[test]
fn parts_of_the_rounds_are_all_of_them() {
    assert_eq!(factors("30"), 0..30);
    assert_eq!((factors("0..10"), factors("10..30")), (0..10, 10..30));
}

/// Random numbers that are the same in every run of the tests.
pub(crate) struct Seed(u64);

impl Seed {
    pub(crate) fn of(number: u64) -> Seed {
        let mut seed = Seed(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d);
        seed.below(1);
        seed
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % end.max(1)
    }

    fn of_list<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// Texts that act on a terminal, a page, a spreadsheet or a format.
fn hostile_texts() -> Vec<String> {
    let long = "k".repeat(200_000);
    [
        "\u{1b}[2J\u{1b}]0;title\u{7}\u{1b}[8mhidden",
        "</script><img src=x onerror=alert(1)>",
        "\"'><svg onload=alert(1)>",
        "\u{9b}31m\u{202e}gpj.exe\u{2028}\u{feff}",
        "=cmd|'/c calc'!A1",
        "../../../../etc/passwd",
        "%s%n{}{{}}\r\n\r\n\u{0}",
        "",
        &long,
    ]
    .map(str::to_owned)
    .into()
}

/// How a command ended.
struct Ended {
    what: String,
    code: Option<i32>,
    stdout: Vec<u8>,
    stderr: String,
}

/// Runs `plimsoll` to its end, at most [`PATIENCE`].
fn plimsoll(arguments: &[&OsStr]) -> Ended {
    ended(plimsoll_testkit::command(env!("CARGO_BIN_EXE_plimsoll")).args(arguments))
}

fn ended(command: &mut std::process::Command) -> Ended {
    let what = format!("{command:?}");
    let what = what.chars().take(400).collect();
    // Files, as a pipe that is not read would stop the command.
    let (stdout, stderr) = (
        tempfile::tempfile().expect("a file"),
        tempfile::tempfile().expect("a file"),
    );
    let mut child = command
        .stdin(std::process::Stdio::null())
        .stdout(stdout.try_clone().expect("a descriptor"))
        .stderr(stderr.try_clone().expect("a descriptor"))
        .spawn()
        .expect("plimsoll starts");
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        if began.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{what} hangs");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let content = |mut file: fs::File| {
        use std::io::{Read, Seek};
        let mut content = Vec::new();
        file.rewind()
            .and_then(|()| file.read_to_end(&mut content))
            .expect("its output");
        content
    };
    Ended {
        what,
        code: status.code(),
        stdout: content(stdout),
        stderr: String::from_utf8_lossy(&content(stderr)).into_owned(),
    }
}

/// Whether a character acts on a terminal.
fn acts(letter: char) -> bool {
    letter != '\n'
        && letter != '\t'
        && plimsoll_model::sanitize::sanitize(letter.encode_utf8(&mut [0; 4])) == "\u{fffd}"
        && letter != '\u{fffd}'
}

impl Ended {
    /// One of the exit codes, no panic, and errors that act on no terminal and are short.
    fn assert_sound(&self) -> &Self {
        assert!(
            matches!(self.code, Some(0..=7)),
            "{} ended with {:?}: {}",
            self.what,
            self.code,
            self.stderr
        );
        assert!(
            !self.stderr.contains("panicked"),
            "{}: {}",
            self.what,
            self.stderr
        );
        assert!(!self.stderr.chars().any(acts), "{}: {:?}", self.what, self.stderr);
        let most = self.stderr.lines().map(str::len).max().unwrap_or(0);
        assert!(most < 20_000, "{}: an error of {most} bytes", self.what);
        self
    }

    /// Standard output is for people, and acts on no terminal either.
    fn assert_readable(&self) {
        let text = String::from_utf8_lossy(&self.stdout);
        assert!(!text.chars().any(acts), "{}: {text:?}", self.what);
    }
}

/// A page without markup of others: as many scripts as every page has, and none of the hostile texts.
fn assert_page_is_own(page: &str, what: &str) {
    for markup in ["<img src=x", "<svg onload", "alert(1)>"] {
        assert!(!page.contains(markup), "{what}: {markup} in the page");
    }
    assert!(page.contains("</html>"), "{what}: the page is cut off");
}

/// A copy of a recording that came with the tests.
fn copy_of(format: &str, name: &str) -> (TempDir, PathBuf) {
    let golden = plimsoll_testkit::recordings::stored().join(format).join(name);
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("run");
    fs::create_dir(&folder).expect("a folder");
    for entry in fs::read_dir(golden).expect("a recording") {
        let entry = entry.expect("a file");
        fs::copy(entry.path(), folder.join(entry.file_name())).expect("a copy");
    }
    (parent, folder)
}

/// Every reading command on a recording. Returns how many ran.
fn all_commands(folder: &Path) -> u64 {
    let path = folder.as_os_str();
    let dash = OsStr::new("-");
    let page = folder.join("hostile.html");
    let report = |format: &str| {
        let arguments = ["report", "--format", format].map(OsStr::new);
        plimsoll(&[&arguments[..], &[OsStr::new("--output"), dash, path]].concat())
    };
    for format in ["text", "json"] {
        report(format).assert_sound().assert_readable();
    }
    for format in ["csv", "markdown", "svg"] {
        report(format).assert_sound();
    }
    let html = report("html");
    if html.assert_sound().code == Some(0) {
        assert_page_is_own(&String::from_utf8_lossy(&html.stdout), &html.what);
    }
    for format in ["csv", "json", "prometheus", "parquet"] {
        let output = folder.join("export");
        let arguments = ["export", "--format", format, "--output"].map(OsStr::new);
        plimsoll(&[&arguments[..], &[output.as_os_str(), path]].concat()).assert_sound();
    }
    let (_parent, other) = copy_of("recording-3", "finished");
    let compare = plimsoll(&[OsStr::new("compare"), path, other.as_os_str()]);
    compare.assert_sound().assert_readable();
    let arguments = ["compare", "--format", "html", "--output"].map(OsStr::new);
    let compared = plimsoll(&[&arguments[..], &[page.as_os_str(), other.as_os_str(), path]].concat());
    if matches!(compared.assert_sound().code, Some(0 | 6 | 7)) {
        assert_page_is_own(&fs::read_to_string(&page).expect("a page"), &compared.what);
    }
    12
}

/// Replaces the value at place `number` of a document, counted in order.
fn replace_nth(value: &mut Value, number: &mut usize, with: &mut dyn FnMut(&mut Value)) -> bool {
    if *number == 0 {
        with(value);
        return true;
    }
    *number -= 1;
    match value {
        Value::Array(list) => list.iter_mut().any(|item| replace_nth(item, number, with)),
        Value::Object(fields) => fields.values_mut().any(|item| replace_nth(item, number, with)),
        _ => false,
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// Puts a hostile value, of the same type if `same_type`, into a random place of a document.
fn mutate(value: &mut Value, seed: &mut Seed, same_type: bool) {
    let texts = hostile_texts();
    let numbers = [0.0, -1.0, 1e308, 9.3e18, 0.5].map(Value::from);
    let text = Value::from(seed.of_list(&texts).clone());
    let number = seed.of_list(&numbers).clone();
    let any = [
        Value::Null,
        Value::Array(Vec::new()),
        text.clone(),
        number.clone(),
        Value::Bool(true),
    ];
    let any = seed.of_list(&any).clone();
    let mut place = seed.below(count(value));
    let key = seed.of_list(&texts).clone();
    replace_nth(value, &mut place, &mut |found| match found {
        Value::String(_) if same_type => *found = text.clone(),
        Value::Number(_) if same_type => *found = number.clone(),
        Value::Object(fields) if same_type => {
            fields.insert(key.clone(), text.clone());
        }
        Value::Array(list) if same_type => {
            let copies: Vec<Value> = list.iter().cycle().take(list.len() * 3).cloned().collect();
            *list = copies;
        }
        other => *other = any.clone(),
    });
}
