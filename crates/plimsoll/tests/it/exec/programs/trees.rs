//! Trees of processes that share one budget: forked workers, subprocesses, shells, and what is left of them after a kill.

use std::fs;
use std::time::{Duration, Instant};

use super::{Ended, Group, MIB, PATH, Place, installed, is_root, source};

/// The budget of a tree.
const RAM: u64 = 80 * MIB;

/// A tree as nobody, and as root if the caller is root: system calls on absent pages are served in other ways.
fn as_each_user(name: &str, check: impl Fn(&Place)) {
    let users: &[bool] = if is_root() { &[false, true] } else { &[false] };
    for &keeps_user in users {
        eprintln!("{name} as {}", if keeps_user { "root" } else { "nobody" });
        let place = if keeps_user {
            Place::of_caller()
        } else {
            Place::new()
        };
        for program in ["workers.py", "jobs.mk"] {
            fs::copy(source(program), place.work().join(program)).expect("copied");
        }
        check(&place);
    }
}

/// Checks that a program has the same output with the budget as without, and that all of its processes stay within.
fn shares_one_budget(place: &Place, name: &str, arguments: &[&str], ram: u64) -> Ended {
    let (program, rest) = arguments.split_first().expect("a program");
    let native = place.run(place.native(program).args(rest));
    let managed = place.run(place.managed(ram).args(arguments));
    eprintln!(
        "{name}: {} in {:.1} s; without a limit {} in {:.1} s",
        managed.peak,
        managed.time.as_secs_f64(),
        native.peak,
        native.time.as_secs_f64()
    );
    assert_eq!(
        (managed.output.as_str(), managed.status.code()),
        (native.output.as_str(), Some(0)),
        "{name}: {}",
        managed.errors
    );
    managed.peak.assert_tree_within(name, ram);
    managed
}

#[test]
fn forked_workers_share_one_budget() {
    if !installed(&["python3"]) {
        return;
    }
    as_each_user("forked workers", |place| {
        let arguments = ["python3", "workers.py", "fork", "4", "64", "4"];
        shares_one_budget(place, "forked workers", &arguments, RAM);
    });
}

#[test]
fn subprocesses_share_one_budget() {
    if !installed(&["python3"]) {
        return;
    }
    as_each_user("subprocesses", |place| {
        let arguments = ["python3", "workers.py", "spawn", "3", "64", "4"];
        shares_one_budget(place, "subprocesses", &arguments, RAM);
    });
}

/// Each job is a shell with a pipeline: make, shells and tools, dozens of them one after another.
#[test]
fn jobs_of_make_share_a_small_budget() {
    if !installed(&["make", "sort", "awk"]) {
        return;
    }
    as_each_user("make", |place| {
        shares_one_budget(
            place,
            "make -j4",
            &["make", "-s", "-j4", "-f", "jobs.mk"],
            32 * MIB,
        );
        // Dozens of processes, each with data of its libraries beside the budget.
        let arguments = ["make", "-s", "-j8", "-f", "jobs.mk"];
        shares_one_budget(place, "make -j8", &arguments, 48 * MIB);
    });
}

/// The statistics of `/bin/true` after a script of Python that executes it.
fn share_of_true(script: &str) -> serde_json::Value {
    let script = format!(
        "import ctypes, os, re\n\
         text = os.environ['PLIMSOLL_EXEC']\n\
         pool = int(re.search('pool=(\\d+)', text).group(1))\n\
         def close(): ctypes.CDLL(None).syscall(3, pool)\n\
         def run(): os.execve('/bin/true', ['true'], dict(os.environ, PLIMSOLL_EXEC=text))\n\
         {script}\n"
    );
    let output = super::super::ran(
        super::super::exec()
            .args([
                "--engine", "pager", "--ram", "64M", "--stats", "--", "python3", "-c",
            ])
            .arg(script)
            .env("PATH", PATH),
    );
    let said = super::super::text(&output.stderr);
    assert!(output.status.success(), "{said}");
    let line = said.lines().next().expect("a line");
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {said}"))
}

#[test]
fn a_process_without_the_pool_says_so_and_completes() {
    if !installed(&["python3"]) {
        return;
    }
    for (what, script) in [
        ("executed", "run()"),
        (
            "closed by the C library",
            "os.closerange(3, 1 << 16); os.close(0); run()",
        ),
        (
            "closed by the program, open in its parent",
            "if os.fork() == 0: close(); run()\nelse: os.wait()",
        ),
    ] {
        assert_eq!(share_of_true(script)["pool"], "member", "{what}");
    }
    for (what, script) in [
        ("closed", "close(); run()"),
        ("another file", "ctypes.CDLL(None).syscall(33, 0, pool); run()"),
        (
            "another pool",
            "text = re.sub('(pool=.*),.*', '\\g<1>,1', text); run()",
        ),
    ] {
        let share = share_of_true(script);
        assert_eq!(
            (&share["pool"], &share["granted_bytes"]),
            (&"closed".into(), &(4 << 20).into()),
            "{what}"
        );
    }
}

/// The share of a killed child is the others' again, and a killed tree leaves nothing behind: no process and no file.
#[test]
fn a_killed_child_returns_its_share_and_a_killed_tree_leaves_nothing() {
    if !installed(&["python3"]) {
        return;
    }
    as_each_user("killed", |place| {
        let mut command = place.managed(RAM);
        command.args(["python3", "workers.py", "spawn", "3", "64", "600"]);
        let mut tree = Group::start(&mut command);
        let root = tree.0.id();
        let children = wait_for_children(root, 3);
        // They fill the pool.
        std::thread::sleep(Duration::from_secs(8));
        let before = resident(children[1]);
        assert_eq!(signal(children[0], libc::SIGKILL), 0);
        let start = Instant::now();
        while resident(children[1]) <= before + 4 * MIB && resident(children[2]) <= before + 4 * MIB {
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "the share does not return"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(signal(-root.cast_signed(), libc::SIGKILL), 0);
        tree.0.wait().expect("a child of this process");
        let start = Instant::now();
        while children.iter().any(|child| is_alive(*child)) {
            assert!(start.elapsed() < Duration::from_secs(10), "a process is left");
            std::thread::sleep(Duration::from_millis(20));
        }
        let left = |folder| fs::read_dir(folder).expect("it is there").count();
        assert_eq!(left(place.temporary()), 0);
        // A second tree starts as the first did.
        shares_one_budget(place, "after a kill", &["python3", "-c", "print(1)"], RAM);
    });
}

/// Sends a signal to a process, or to a group by its negative number.
fn signal(process: i32, signal: i32) -> i32 {
    let status = plimsoll_testkit::command("kill")
        .args([format!("-{signal}"), "--".to_owned(), process.to_string()])
        .status();
    status.expect("kill starts").code().unwrap_or(-1)
}

fn stat(process: i32) -> Option<procfs::process::Stat> {
    procfs::process::Process::new(process)
        .and_then(|process| process.stat())
        .ok()
}

fn is_alive(process: i32) -> bool {
    stat(process).is_some_and(|stat| stat.state != 'Z')
}

fn resident(process: i32) -> u64 {
    let status = procfs::process::Process::new(process).and_then(|process| process.status());
    status.ok().and_then(|status| status.rssanon).unwrap_or(0) * 1024
}

fn wait_for_children(parent: u32, count: usize) -> Vec<i32> {
    let start = Instant::now();
    loop {
        let all = procfs::process::all_processes().expect("procfs").flatten();
        let stats = all.filter_map(|process| process.stat().ok());
        let children: Vec<i32> = stats
            .filter(|stat| stat.ppid == parent.cast_signed() && stat.state != 'Z')
            .map(|stat| stat.pid)
            .collect();
        if children.len() == count {
            return children;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{children:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
