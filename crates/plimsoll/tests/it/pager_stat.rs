//! `plimsoll pager stat` of a program whose pager works during the read.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::process::{Child, ChildStdout, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll::pager::PagerStatError;
use plimsoll_os::{
    Fd, RegisterMode, UffdFeatures, UffdMode, address_space, api_handshake_with, open_userfaultfd,
    uffd_register,
};
use plimsoll_pager::{Pager, TrimTo};
use serde_json::Value;

const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");
/// The environment variable of the inspected program: this test program, which then only uses a pager. `busy` or `idle`.
const PAGER: &str = "PLIMSOLL_TEST_PAGER";
const MIB: usize = 1 << 20;

/// Addresses whose faults no one resolves, also those of the kernel, while the descriptor is open; none without privilege.
fn unanswered() -> Option<(usize, Fd)> {
    let faults = open_userfaultfd(UffdMode::Full).ok()?;
    api_handshake_with(&faults, UffdFeatures::NONE).ok()?;
    let start = address_space::map(MIB).expect("addresses are free");
    uffd_register(&faults, start, MIB, RegisterMode::Missing).expect("a new mapping");
    Some((start, faults))
}

/// The inspected program: threads write more than the budget until standard input ends, or one writes once.
fn program(kind: &OsStr) {
    let busy = kind == "busy";
    let unanswered = if kind == "hostile" { unanswered() } else { None };
    let pager = Pager::builder().ram(8 * MIB as u64).build().expect("userfaultfd");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3_usize {
            let (stop, pager) = (&stop, &pager);
            let mut region = pager.map(4 * MIB).expect("addresses");
            fill(region.bytes_mut(), thread);
            scope.spawn(move || {
                let mut round = thread;
                while !stop.load(Ordering::Relaxed) {
                    if !busy {
                        std::thread::sleep(std::time::Duration::from_millis(1));
                        continue;
                    }
                    round += 1;
                    fill(region.bytes_mut(), round);
                    region.trim(..MIB, TrimTo::Store).expect("the range is inside");
                    region.discard(2 * MIB..3 * MIB).expect("nothing is locked");
                }
            });
        }
        println!("paging {:#x}", unanswered.as_ref().map_or(0, |(start, _)| *start));
        let mut line = String::new();
        while std::io::stdin().read_line(&mut line).is_ok_and(|read| read > 0) {}
        stop.store(true, Ordering::Relaxed);
    });
}

fn fill(bytes: &mut [u8], seed: usize) {
    for (number, page) in bytes.chunks_mut(4096).enumerate() {
        let noise = &mut page[..1024];
        for (at, byte) in noise.iter_mut().enumerate() {
            *byte = ((number + seed) * 31 + at * at) as u8;
        }
    }
}

/// The test that is the program where [`PAGER`] is set.
const PAGING: &str = "pager_stat::a_pager_under_way_is_validated_again_and_again";

/// A program with a pager; it ends when this is dropped.
struct Program {
    child: Child,
    output: BufReader<ChildStdout>,
    /// Of [`unanswered`]; 0 for none.
    unanswered: u64,
}

impl Program {
    fn start(kind: &str) -> Program {
        let test = std::env::current_exe().expect("a test knows its file");
        let mut child = plimsoll_testkit::command(test)
            .args(["--exact", PAGING, "--nocapture"])
            .env(PAGER, kind)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        while !line.contains("paging") {
            line.clear();
            let read = output.read_line(&mut line).expect("it prints text");
            assert!(read > 0, "the program ended before it began");
        }
        let address = line.trim_end().rsplit("0x").next().expect("an address");
        let unanswered = u64::from_str_radix(address, 16).expect("an address");
        Program {
            child,
            output,
            unanswered,
        }
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("it prints text");
        assert!(self.child.wait().expect("it is a child").success(), "{rest}");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn stat(arguments: &[&str]) -> Output {
    plimsoll_testkit::command(PLIMSOLL)
        .args(["pager", "stat"])
        .args(arguments)
        .output()
        .expect("plimsoll starts")
}

fn json(output: &Output, code: i32) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        output.status.code(),
        Some(code),
        "{errors}{}",
        String::from_utf8_lossy(&output.stdout)
    );
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_pager_under_way_is_validated_again_and_again() {
    if let Some(kind) = std::env::var_os(PAGER) {
        return program(&kind);
    }
    let program = Program::start("busy");
    let (mut checked, mut faults) = (0, Vec::new());
    for round in 0..20 {
        let survey = json(&stat(&[&program.pid(), "--validate", "--json"]), 0);
        let pager = &survey["pagers"][0];
        let validation = &pager["validation"];
        assert_eq!(
            validation["violations"],
            Value::Array(Vec::new()),
            "round {round}"
        );
        assert_eq!(
            (&validation["partial"], &validation["presence_checked"]),
            (&Value::Bool(false), &Value::Bool(true)),
            "round {round}"
        );
        checked += number(&validation["pages"]);
        faults.push(
            number(&pager["zero_faults"]) + number(&pager["soft_faults"]) + number(&pager["hard_faults"]),
        );
    }
    assert!(checked > 0);
    assert!(faults.is_sorted() && faults.first() < faults.last(), "{faults:?}");
    program.end();
}

#[test]
fn the_text_and_the_document_show_an_idle_pager() {
    let program = Program::start("idle");
    let output = stat(&[&program.pid()]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.starts_with(&format!("pid {} ", program.pid())), "{text}");
    assert!(text.contains(": 1 pager; ") && text.contains("8.0"), "{text}");
    let survey = json(&stat(&[&program.pid(), "--validate", "--json"]), 0);
    let pager = &survey["pagers"][0];
    assert_eq!(number(&pager["budget_bytes"]), 8 << 20);
    assert_eq!(number(&pager["mapped_pages"]), 3072);
    let states = [
        "native",
        "virgin",
        "active",
        "modified",
        "standby",
        "compressed",
        "page_file",
    ];
    let states = states.map(|state| number(&pager[format!("{state}_pages")]));
    assert_eq!(states.iter().sum::<u64>(), 3072, "{states:?}");
    assert!(number(&pager["resident_bytes"]) <= 8 << 20);
    let priorities = pager["standby_pages_by_priority"].as_array().expect("a list");
    assert_eq!(
        priorities.iter().map(number).sum::<u64>(),
        number(&pager["standby_pages"])
    );
    program.end();
}

#[test]
fn a_watched_pager_ends_with_its_process() {
    let program = Program::start("idle");
    let mut watch = plimsoll_testkit::command(PLIMSOLL)
        .args(["pager", "stat", &program.pid(), "--watch"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("plimsoll starts");
    let mut output = BufReader::new(watch.stdout.take().expect("it is piped"));
    let heading = format!("pid {} ", program.pid());
    let mut seen = 0;
    let mut line = String::new();
    while seen < 2 {
        line.clear();
        assert!(output.read_line(&mut line).expect("text") > 0, "{seen} lists");
        seen += usize::from(line.starts_with(&heading));
    }
    program.end();
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("text");
    assert!(watch.wait().expect("it is a child").success());
}

#[test]
fn processes_without_a_pager_are_told_apart() {
    let mut other = plimsoll_testkit::command("sleep")
        .arg("1000")
        .spawn()
        .expect("sleep starts");
    let pid = other.id();
    let codes = [pid.to_string(), "4194305".to_owned()].map(|pid| stat(&[&pid]).status.code());
    let none = plimsoll::pager::stat(pid, false);
    other.kill().expect("it is a child");
    other.wait().expect("it is a child");
    assert_eq!(codes, [Some(3), Some(1)]);
    assert!(matches!(none, Err(PagerStatError::NoPager { .. })), "{none:?}");
}

/// A program overwrites a word of its page table, then the record.
#[test]
fn damage_is_found_from_outside() {
    let program = Program::start("idle");
    let pid = program.pid();
    let record = number(&json(&stat(&[&pid, "--json"]), 0)["pagers"][0]["record"]);
    let memory = std::fs::File::options()
        .read(true)
        .write(true)
        .open(format!("/proc/{pid}/mem"))
        .expect("the child's memory");
    let mut table = [0; 8];
    // Magic, layout and sizes, arena, shadow, pages.
    memory
        .read_exact_at(&mut table, record + 40 + 24)
        .expect("the record");
    let word_at = u64::from_ne_bytes(table) + 8 * 5;
    let mut word = [0; 8];
    memory.read_exact_at(&mut word, word_at).expect("a word");
    memory.write_all_at(&[0xFF; 8], word_at).expect("a word");
    let survey = json(&stat(&[&pid, "--validate", "--json"]), 2);
    let violations = &survey["pagers"][0]["validation"]["violations"];
    assert!(
        violations.as_array().is_some_and(|found| !found.is_empty()),
        "{violations}"
    );
    memory.write_all_at(&word, word_at).expect("a word");
    json(&stat(&[&pid, "--validate", "--json"]), 0);
    let mut pages = [0; 8];
    memory
        .read_exact_at(&mut pages, record + 40 + 16)
        .expect("the record");
    memory
        .write_all_at(&[0xFF; 8], record + 40 + 16)
        .expect("the record");
    let damaged = plimsoll::pager::stat(program.child.id(), false);
    assert!(
        matches!(damaged, Err(PagerStatError::Damaged { .. })),
        "{damaged:?}"
    );
    assert_eq!(stat(&[&pid]).status.code(), Some(2));
    memory.write_all_at(&pages, record + 40 + 16).expect("the record");
    program.end();
}

/// `ps` and `pager stat` of root once waited for ever for a process whose record leads to memory that it never resolves.
#[test]
fn a_record_that_leads_to_unresolved_memory_holds_no_one_up() {
    let program = Program::start("hostile");
    let privileged = program.unanswered != 0;
    if !plimsoll_testkit::capability("root", privileged, "a userfaultfd for faults of the kernel") {
        return;
    }
    let pid = program.pid();
    let record = number(&json(&stat(&[&pid, "--json"]), 0)["pagers"][0]["record"]);
    let memory = std::fs::File::options()
        .read(true)
        .write(true)
        .open(format!("/proc/{pid}/mem"))
        .expect("the child's memory");
    // Behind the tables and the extent: the counters.
    let field = record + 40 + 48;
    let mut counters = [0; 8];
    memory.read_exact_at(&mut counters, field).expect("the record");
    let hostile = program.unanswered.to_ne_bytes();
    memory.write_all_at(&hostile, field).expect("the record");
    assert_eq!(stat(&[&pid]).status.code(), Some(3));
    let listing: Value =
        serde_json::from_str(&run(&["ps", "--interval", "0.1", "--json"])).expect("it is JSON");
    let processes = listing["processes"].as_array().expect("a list");
    let listed = processes
        .iter()
        .find(|process| process["pid"] == program.child.id());
    assert!(listed.expect("it is listed")["pager"].is_null());
    memory.write_all_at(&counters, field).expect("the record");
    json(&stat(&[&pid, "--validate", "--json"]), 0);
    program.end();
}

#[test]
fn ps_has_columns_of_pagers() {
    let program = Program::start("idle");
    let ps = |arguments: &[&str]| {
        let mut command = plimsoll_testkit::command(PLIMSOLL);
        let output = command.args(["ps", "--interval", "0.1"]).args(arguments).output();
        let output = output.expect("plimsoll starts");
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let listing: Value = serde_json::from_str(&ps(&["--json"])).expect("it is JSON");
    let processes = listing["processes"].as_array().expect("a list");
    let of = |pid: u32| {
        processes
            .iter()
            .find(|process| process["pid"] == pid)
            .expect("it is listed")
    };
    let pager = &of(program.child.id())["pager"];
    assert_eq!((number(&pager["pagers"]), number(&pager["budget"])), (1, 8 << 20));
    let states = [
        "native",
        "active",
        "modified",
        "standby",
        "compressed",
        "page_file",
    ];
    assert_eq!(
        states.iter().map(|state| number(&pager[*state])).sum::<u64>(),
        12 << 20,
        "{pager}"
    );
    assert!(of(std::process::id())["pager"].is_null());
    // The output is a pipe. All processes are listed, of which one has a pager.
    let table = ps(&["--limit", "0"]);
    let headings = table
        .lines()
        .find(|line| line.contains("COMMAND"))
        .expect("a heading");
    for heading in [
        "P-ACTIVE",
        "P-MODIFIED",
        "P-STANDBY",
        "P-ZIP",
        "P-STORE",
        "P-FILE",
        "P-META",
    ] {
        assert!(headings.contains(heading), "{heading}: {headings}");
    }
    program.end();
}

/// A process that does not run; it goes on when this is dropped.
struct Stopped(String);

impl Stopped {
    fn new(pid: String) -> Stopped {
        Stopped::send("STOP", &pid);
        let stopped = Stopped(pid);
        let stat = format!("/proc/{}/stat", stopped.0);
        while !std::fs::read_to_string(&stat).expect("it lives").contains(") T ") {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        stopped
    }

    fn send(signal: &str, pid: &str) {
        let mut shell = plimsoll_testkit::command("/bin/sh");
        let status = shell.args(["-c", "kill -$0 $1", signal, pid]).status();
        assert!(status.expect("there is a shell").success());
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        Stopped::send("CONT", &self.0);
    }
}

fn run(arguments: &[&str]) -> String {
    let output = plimsoll_testkit::command(PLIMSOLL).args(arguments).output();
    let output = output.expect("plimsoll starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The last sample that `watch` has of a process in a recording of a second, by column.
fn sampled(pid: &str, recording: &str) -> std::collections::HashMap<String, u64> {
    run(&[
        "watch",
        "--pid",
        pid,
        "--headless",
        "--duration",
        "1",
        "--record",
        recording,
    ]);
    let csv = run(&["export", recording, "--format", "csv"]);
    let mut lines = csv.lines().filter(|line| !line.starts_with('#'));
    let names = lines.next().expect("a header").split(',');
    let last = lines.next_back().expect("samples").split(',');
    names
        .zip(last)
        .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
        .collect()
}

/// A stopped process changes nothing between the readings of `pager stat`, `ps` and `watch`.
#[test]
fn all_commands_agree_on_the_states_of_a_pager() {
    let program = Program::start("busy");
    let stopped = Stopped::new(program.pid());
    let folder = tempfile::tempdir().expect("a folder for the recording");
    let recording = folder.path().join("recording");
    let sample = sampled(&stopped.0, recording.to_str().expect("the path is text"));
    let survey = json(&stat(&[&stopped.0, "--json"]), 0);
    let listing: Value =
        serde_json::from_str(&run(&["ps", "--interval", "0.1", "--json"])).expect("it is JSON");
    let processes = listing["processes"].as_array().expect("a list");
    let listed = processes
        .iter()
        .find(|process| process["pid"] == program.child.id())
        .expect("it is listed");
    let (pager, listed) = (&survey["pagers"][0], &listed["pager"]);
    let mut sum = 0;
    for state in ["active", "modified", "standby", "compressed", "page_file"] {
        let native = u64::from(state == "active");
        let pages = number(&pager[format!("{state}_pages")]) + native * number(&pager["native_pages"]);
        let of_ps = number(&listed[state]) + native * number(&listed["native"]);
        let of_watch = sample[&format!("target_pager_{state}")];
        assert_eq!((of_ps, of_watch), (pages * 4096, pages * 4096), "{state}");
        sum += pages;
    }
    assert!(
        sum > 2048,
        "{sum} pages of 3072 of three regions of which each may have discarded a quarter"
    );
    for name in ["store", "metadata"] {
        assert_eq!(
            sample[&format!("target_pager_{name}")],
            number(&pager[format!("{name}_bytes")]),
            "{name}"
        );
    }
    drop(stopped);
    program.end();
}

/// The states of the target's pager in a recording of `watch`, and in its report.
#[test]
fn a_recording_of_watch_has_the_states_of_the_pager() {
    let program = Program::start("idle");
    let folder = tempfile::tempdir().expect("a folder for the recording");
    let recording = folder.path().join("recording");
    let recording = recording.to_str().expect("the path is text");
    let sample = sampled(&program.pid(), recording);
    assert_eq!(sample["target_pager_budget"], 8 << 20);
    let states = ["active", "modified", "standby", "compressed", "page_file"];
    let states = states.map(|state| sample[&format!("target_pager_{state}")]);
    assert_eq!(states.iter().sum::<u64>(), 12 << 20, "{states:?}");
    let page = folder.path().join("report.html");
    run(&["report", recording, "--output", page.to_str().expect("text")]);
    let page = std::fs::read_to_string(page).expect("the report");
    assert!(page.contains("\"label\":\"modified\"") && page.contains("\"id\":\"pager\""));
    program.end();
}
