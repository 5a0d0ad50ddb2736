//! Time and memory of a collection by the number of hosts: `collect_bench FOLDER ROWS [HOSTS...]`.
//!
//! Makes one result of ROWS samples (36,000 are an hour at 10 Hz) a host below FOLDER, of eight different recordings. For each number
//! of hosts (100, 300 and 1000), a process of its own collects that many results into a new data set, then once more into the same
//! one. FOLDER must have space for twice the results of the largest number.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use plimsoll_fleet::collect::collect;
use plimsoll_fleet::plan::Plan;
use plimsoll_testkit::fleets::{busy_recording, finished_task, plan_json};

const RECORDINGS: usize = 8;
const TRIALS: u32 = 12;
const MIB: f64 = (1 << 20) as f64;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = "collect_bench FOLDER ROWS [HOSTS...]";
    match &arguments[..] {
        [child, folder, hosts] if child == "--child" => {
            measure(Path::new(folder), hosts.parse().expect(usage))
        }
        [folder, rows, hosts @ ..] => {
            let hosts: Vec<usize> = match hosts {
                [] => vec![100, 300, 1000],
                hosts => hosts.iter().map(|hosts| hosts.parse().expect(usage)).collect(),
            };
            bench(Path::new(folder), rows.parse().expect(usage), &hosts);
        }
        _ => panic!("{usage}"),
    }
}

fn id(index: usize) -> String {
    format!("t{index:04}")
}

fn bench(folder: &Path, rows: usize, hosts: &[usize]) {
    let mut out = std::io::stdout();
    let recordings: Vec<PathBuf> = (0..RECORDINGS)
        .map(|index| {
            busy_recording(
                &folder.join(format!("source-{index}")),
                rows,
                TRIALS,
                7 + index as u64,
            )
        })
        .collect();
    let most = hosts.iter().copied().max().unwrap_or(0);
    for index in 0..most {
        let host = format!("node-{index:04}");
        finished_task(
            &folder.join("tasks"),
            &id(index),
            &host,
            &recordings[index % RECORDINGS],
        );
    }
    let _ = writeln!(out, "{rows} rows a host");
    let _ = writeln!(
        out,
        "hosts  MB read  s first  hosts/s  MB/s  peak MiB  s again  peak MiB again"
    );
    for hosts in hosts {
        let child = Command::new(std::env::current_exe().expect("this program has a path"))
            .arg("--child")
            .arg(folder)
            .arg(hosts.to_string())
            .status();
        assert!(child.is_ok_and(|status| status.success()));
    }
}

/// Measures in a process that made no recording.
fn measure(folder: &Path, hosts: usize) {
    let ids: Vec<String> = (0..hosts).map(id).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let plan: Plan = serde_json::from_str(&plan_json(&ids)).expect("the plan is one");
    let data = folder.join("data");
    let first = timed(folder, &plan, &data, hosts);
    let peak = peak_bytes();
    let again = timed(folder, &plan, &data, hosts);
    let bytes = bytes_below(&folder.join("tasks/t0000")) * hosts as f64;
    fs::remove_dir_all(&data).expect("the data set can be removed");
    let seconds = first.as_secs_f64();
    let _ = writeln!(
        std::io::stdout(),
        "{hosts:5}  {:7.0}  {seconds:7.2}  {:7.1}  {:4.0}  {:8.1}  {:7.2}  {:8.1}",
        bytes / 1e6,
        hosts as f64 / seconds,
        bytes / 1e6 / seconds,
        peak / MIB,
        again.as_secs_f64(),
        peak_bytes() / MIB
    );
}

fn timed(folder: &Path, plan: &Plan, data: &Path, hosts: usize) -> Duration {
    let start = Instant::now();
    let collected = collect(folder, plan, data).expect("the results are whole");
    assert_eq!((collected.tasks.len(), collected.incomplete()), (hosts, 0));
    start.elapsed()
}

/// Most resident memory of this process so far.
fn peak_bytes() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) * 1024.0
}

fn bytes_below(folder: &Path) -> f64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
            Ok(metadata) => metadata.len() as f64,
            Err(_) => 0.0,
        })
        .sum()
}
