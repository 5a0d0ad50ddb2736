//! Exact samples of the resident bytes of another process: it is stopped while the kernel walks its page tables.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};

use plimsoll_testkit::again;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::children::Started;

/// Observations of a program.
pub(super) struct Samples {
    /// Resident bytes of mappings that are newer than the first look.
    pub(super) highest: u64,
    pub(super) median: u64,
    /// The number of samples.
    pub(super) counted: u64,
    /// The numbers that the program states at its end.
    pub(super) facts: Vec<u64>,
}

/// Starts `test` again as the program, and takes `wanted` samples of it while it works.
pub(super) fn sample(test: &str, wanted: usize) -> Samples {
    let program = again(test, "program")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the test program starts");
    let mut program = Started(program);
    let program = &mut program.0;
    let mut orders = program.stdin.take().expect("a pipe");
    let mut lines = BufReader::new(program.stdout.take().expect("a pipe")).lines();
    let mut wait_for = |word: &str| {
        let mut texts = lines.by_ref().map_while(Result::ok);
        texts.find(|line| line.starts_with(word))
    };
    wait_for("idle").expect("the program starts its threads");
    let before = mappings(program);
    go_on(&mut orders);
    wait_for("working").expect("the program builds its pager");
    let mut samples: Vec<u64> = (0..wanted)
        .map(|number| {
            // The program gets time of any length between two looks.
            std::thread::sleep(std::time::Duration::from_micros(number as u64 * 7919 % 5000));
            stopped(program, || new_bytes(&before, &mappings(program)))
        })
        .collect();
    go_on(&mut orders);
    let facts = wait_for("facts").expect("the program verifies every byte");
    let status = program.wait().expect("it was not waited for");
    assert!(status.success(), "{status}");
    samples.sort_unstable();
    let facts = facts.split_whitespace().skip(1);
    Samples {
        highest: samples[wanted - 1],
        median: samples[wanted / 2],
        counted: wanted as u64,
        facts: facts.map(|fact| fact.parse().expect("a number")).collect(),
    }
}

fn go_on(orders: &mut ChildStdin) {
    // A program that has failed says so by its status.
    let _ = writeln!(orders);
}

/// Calls `look` while all threads of the program are stopped.
fn stopped<T>(program: &Child, look: impl FnOnce() -> T) -> T {
    let pid = Pid::from_raw(program.id() as i32).expect("a process");
    kill_process(pid, Signal::STOP).expect("it is a child");
    let status = waitpid(Some(pid), WaitOptions::UNTRACED).expect("it is a child");
    let is_stopped = status.is_some_and(|(_, status)| status.stopped());
    assert!(is_stopped, "the program ended: {status:?}");
    let seen = look();
    kill_process(pid, Signal::CONT).expect("it is a child");
    seen
}

/// The mappings of a process: the end of each, and the bytes of it that are resident or swapped out, by start.
fn mappings(program: &Child) -> BTreeMap<u64, (u64, u64)> {
    let smaps = std::fs::read_to_string(format!("/proc/{}/smaps", program.id())).expect("a child's smaps");
    let mut mappings = BTreeMap::new();
    let mut last = 0;
    for line in smaps.lines() {
        let (name, rest) = line.split_once([':', ' ']).unwrap_or_default();
        if let Some((start, end)) = name.split_once('-') {
            let number = |text| u64::from_str_radix(text, 16).expect("an address");
            last = number(start);
            mappings.insert(last, (number(end), 0));
        } else if matches!(name, "Rss" | "Swap") {
            let kib = rest.trim().strip_suffix(" kB").expect("kB");
            let mapping = mappings.get_mut(&last).expect("its first line came before");
            mapping.1 += kib.trim().parse::<u64>().expect("a number") << 10;
        }
    }
    mappings
}

/// Bytes of the mappings that overlap none of `before`.
fn new_bytes(before: &BTreeMap<u64, (u64, u64)>, now: &BTreeMap<u64, (u64, u64)>) -> u64 {
    let is_old = |start: u64, end: u64| {
        let last = before.range(..end).next_back();
        last.is_some_and(|(_, (old_end, _))| *old_end > start)
    };
    now.iter()
        .filter(|(start, (end, _))| !is_old(**start, *end))
        .map(|(_, (_, bytes))| *bytes)
        .sum()
}
