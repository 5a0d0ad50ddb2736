//! `plimsoll heap stat` of a program that allocates in threads during the read.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Output, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll::heap::HeapStatError;
use serde_json::Value;

const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");
/// The environment variable of the inspected program: this test program, which then only allocates.
const CHURN: &str = "PLIMSOLL_TEST_CHURN";

/// The inspected program: threads allocate and free blocks of all sizes, and pass some to each other, until standard
/// input ends.
fn churn() {
    let stop = AtomicBool::new(false);
    // Until every thread has allocated its long-lived blocks.
    let filled = Barrier::new(5);
    let (send, receive) = std::sync::mpsc::sync_channel::<Vec<u8>>(64);
    std::thread::scope(|scope| {
        let (stop, filled) = (&stop, &filled);
        for thread in 0..4_u64 {
            let send = send.clone();
            scope.spawn(move || {
                let mut seed = thread + 1;
                let mut random = move || {
                    seed ^= seed << 13;
                    seed ^= seed >> 7;
                    seed ^= seed << 17;
                    seed
                };
                let mut kept: Vec<Vec<u8>> = (0..2000).map(|_| Vec::new()).collect();
                let mut step = || {
                    let size = match random() % 100 {
                        0 => random() % 300_000,
                        1..=9 => random() % 20_000,
                        _ => random() % 1024,
                    };
                    let at = (random() % 2000) as usize;
                    let old = std::mem::replace(&mut kept[at], vec![at as u8; size as usize]);
                    if random() % 16 == 0 {
                        let _ = send.try_send(old);
                    }
                };
                (0..20_000).for_each(|_| step());
                filled.wait();
                while !stop.load(Ordering::Relaxed) {
                    step();
                }
            });
        }
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                drop(receive.recv_timeout(std::time::Duration::from_millis(10)));
            }
        });
        filled.wait();
        println!("churning");
        let mut line = String::new();
        while std::io::stdin().read_line(&mut line).is_ok_and(|read| read > 0) {}
        stop.store(true, Ordering::Relaxed);
    });
}

/// The test that is the program where [`CHURN`] is set.
const CHURNING: &str = "heap_stat::a_program_under_way_is_validated_a_hundred_times";

/// A program that runs on the heap; it ends when this is dropped.
struct Churn {
    child: Child,
    /// Its output; the pipe must have a reader.
    output: BufReader<ChildStdout>,
}

impl Churn {
    fn start(options: &[&str]) -> Churn {
        let test = std::env::current_exe().expect("a test knows its file");
        let mut child = crate::heap::heap_run()
            .args(options)
            .arg("--")
            .arg(test)
            .args(["--exact", CHURNING, "--nocapture"])
            .env(CHURN, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("plimsoll starts");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        while !line.contains("churning") {
            line.clear();
            let read = output.read_line(&mut line).expect("it prints text");
            assert!(read > 0, "the program ended before it began");
        }
        Churn { child, output }
    }

    fn pid(&self) -> String {
        // `heap run` becomes the program.
        self.child.id().to_string()
    }

    /// Ends it, and says whether it ended well.
    fn end(mut self) {
        drop(self.child.stdin.take());
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("it prints text");
        let status = self.child.wait().expect("it is a child");
        assert!(
            status.success(),
            "{status:?}, signal {:?}: {rest}",
            status.signal()
        );
    }
}

impl Drop for Churn {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn stat(arguments: &[&str]) -> Output {
    plimsoll_testkit::command(PLIMSOLL)
        .args(["heap", "stat"])
        .args(arguments)
        .output()
        .expect("plimsoll starts")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_program_under_way_is_validated_a_hundred_times() {
    if std::env::var_os(CHURN).is_some() {
        return churn();
    }
    let program = Churn::start(&[]);
    let (mut walked, mut moved) = (0, 0);
    for round in 0..100 {
        let output = stat(&[&program.pid(), "--validate", "--json"]);
        assert_eq!(
            output.status.code(),
            Some(0),
            "round {round}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        let survey = json(&output);
        let validation = &survey["processes"][0]["validation"];
        assert_eq!(validation["damage"], Value::Array(Vec::new()), "round {round}");
        assert_eq!(
            (&validation["partial"], &validation["units"]),
            (&Value::Bool(false), &validation["all_units"]),
            "round {round}"
        );
        walked += number(&validation["free_blocks"]) + number(&validation["cached_blocks"]);
        moved += number(&validation["moved"]);
    }
    assert!(walked > 100_000, "{walked} blocks were walked");
    eprintln!("{walked} free blocks walked, {moved} things moved meanwhile");
    program.end();
}

/// The text of a command that succeeded.
fn text(output: &Output) -> String {
    let (said, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert_eq!(output.status.code(), Some(0), "{said}{errors}");
    assert_eq!(errors, "");
    said.into_owned()
}

/// The standard error of a command that fails and prints no document.
fn refusal(output: &Output, code: i32) -> String {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{errors}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    errors
}

#[test]
fn the_text_tells_the_heap_of_the_process_and_the_page_shows_it() {
    let program = Churn::start(&[]);
    let folder = tempfile::tempdir().expect("a folder for the page");
    let page = folder.path().join("heap.html");
    let path = page.to_str().expect("the path is text");
    let said = text(&stat(&[&program.pid(), "--validate", "--html", path]));
    let heading = format!("pid {} it-", program.pid());
    assert!(said.starts_with(&heading), "{said}");
    for words in [
        ": 1 heap, slots by ",
        "\n00000001 00000002 ",
        "  LFH\n",
        "\nHeap 1 at 0x",
        "\n  Front end                      low-fragmentation\n",
        "\n  Low-fragmentation front end\n",
        "\n  Blocks distribution ",
        ": no damage\n",
    ] {
        assert!(said.contains(words), "no `{words}` in:\n{said}");
    }
    // The program keeps 2000 lists a thread, most of them of buckets.
    let row = said.lines().find(|line| line.starts_with("  Total "));
    let counts: Vec<u64> = row
        .into_iter()
        .flat_map(|row| row.split_whitespace().skip(1))
        .map(|count| count.parse().expect("a count"))
        .collect();
    assert!(
        counts.len() == 4 && counts[0] > 0 && counts[2] > 7000,
        "{counts:?}"
    );
    let page = std::fs::read_to_string(&page).expect("the page was written");
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    assert!(page.contains(&format!("({})", program.pid())) && page.contains("<svg"));
    assert!(
        !page.contains("<script") && !page.contains("://"),
        "it needs nothing else"
    );
    program.end();
}

#[test]
fn the_standard_front_end_has_no_other() {
    let program = Churn::start(&["--front-end", "standard"]);
    let said = text(&stat(&[&program.pid()]));
    assert!(!said.contains("LFH"), "{said}");
    let survey = json(&stat(&[&program.pid(), "--json"]));
    let heap = &survey["processes"][0]["heaps"][0];
    assert_eq!(heap["front_end"], "standard");
    assert!(heap.get("front").is_none_or(Value::is_null), "{heap}");
    program.end();
}

#[test]
fn all_processes_on_the_heap_are_found() {
    let programs = [Churn::start(&[]), Churn::start(&["--front-end", "standard"])];
    let said = text(&stat(&["--all-heaps"]));
    for program in &programs {
        assert!(said.contains(&format!("pid {} it-", program.pid())), "{said}");
    }
    assert!(
        !said.contains("\nHeap 1 at 0x"),
        "a table is enough of each:\n{said}"
    );
    let said = text(&stat(&[&programs[0].pid(), "--all-heaps"]));
    assert!(said.contains("\nHeap 1 at 0x"), "{said}");
    assert!(!said.contains(&format!("pid {} ", programs[1].pid())), "{said}");
    programs.into_iter().for_each(Churn::end);
}

#[test]
fn a_process_that_cannot_be_read_hides_no_other() {
    if !crate::heap::has("gcc") {
        return;
    }
    let program = Churn::start(&[]);
    let mut other = plimsoll_testkit::command(crate::heap::compiled("gcc", "other_layout.c", "c", &[]))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let line = plimsoll_testkit::next_line(&mut other);
    let pid = other.id();
    let (alone, all) = (stat(&[&pid.to_string()]), stat(&["--all-heaps"]));
    let unread = json(&stat(&["--all-heaps", "--json"]))["unread"].clone();
    let layout = plimsoll::heap::stat(pid, false);
    drop(other.stdin.take());
    assert!(other.wait().expect("it is a child").success(), "{line}");
    refusal(&alone, 4);
    assert!(
        matches!(&layout, Err(HeapStatError::OtherLayout { found: 99, .. })),
        "{layout:?}"
    );
    let said = text(&all);
    let named = format!("pid {pid} (program)");
    assert!(
        said.lines()
            .any(|line| line.starts_with("! ") && line.contains(&named)),
        "{said}"
    );
    assert!(said.contains(&format!("pid {} it-", program.pid())), "{said}");
    let listed = unread.as_array().expect("a list").iter();
    assert!(
        listed
            .clone()
            .any(|entry| entry["pid"] == pid && entry["damaged"] == false),
        "{unread}"
    );
    program.end();
}

/// `heap stat --watch` of a program, after its second output.
fn watching(program: &Churn) -> (Child, BufReader<ChildStdout>) {
    let mut watch = plimsoll_testkit::command(PLIMSOLL)
        .args(["heap", "stat", &program.pid(), "--watch"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("plimsoll starts");
    let mut output = BufReader::new(watch.stdout.take().expect("it is piped"));
    let heading = format!("pid {} it-", program.pid());
    let mut times = 0;
    while times < 2 {
        let mut line = String::new();
        assert!(
            output.read_line(&mut line).expect("text") > 0,
            "it ended by itself"
        );
        times += u32::from(line.contains(&heading));
    }
    (watch, output)
}

/// Reads the output to its end, so that the process can write, and waits.
fn watched_to_the_end((mut watch, mut output): (Child, BufReader<ChildStdout>)) -> Option<i32> {
    std::io::copy(&mut output, &mut std::io::sink()).expect("text");
    watch.wait().expect("it is a child").code()
}

#[test]
fn watching_repeats_until_a_signal() {
    use rustix::process::{Pid, Signal, kill_process};

    let program = Churn::start(&[]);
    for signal in [Signal::INT, Signal::TERM] {
        let watch = watching(&program);
        kill_process(Pid::from_child(&watch.0), signal).expect("it is there");
        assert_eq!(watched_to_the_end(watch), Some(0), "{signal:?}");
    }
    program.end();
}

/// It once ended with 1 (usage), and with 3 before the parent waited for the program.
#[test]
fn watching_ends_well_with_the_program() {
    let program = Churn::start(&[]);
    let watch = watching(&program);
    program.end();
    assert_eq!(watched_to_the_end(watch), Some(0));

    let mut program = Churn::start(&[]);
    let watch = watching(&program);
    drop(program.child.stdin.take());
    // The program stays a zombie until the watch has ended.
    assert_eq!(watched_to_the_end(watch), Some(0));
    program.end();
}

/// The exit code of a watch could not report damage.
#[test]
fn watching_does_not_validate() {
    let said = refusal(&stat(&["1", "--watch", "--validate"]), 1);
    assert!(said.contains("--validate") && said.contains("--watch"), "{said}");
}

#[test]
fn missing_processes_and_other_allocators_have_their_exit_codes() {
    // Above the highest process id of the kernel.
    refusal(&stat(&["4194305"]), 1);
    let missing = plimsoll::heap::stat(4_194_305, false);
    assert!(
        matches!(missing, Err(HeapStatError::NoSuchProcess { pid: 4_194_305 })),
        "{missing:?}"
    );

    let mut other = plimsoll_testkit::command("sleep")
        .arg("60")
        .env_remove("LD_PRELOAD")
        .spawn()
        .expect("sleep starts");
    let said = refusal(&stat(&[&other.id().to_string()]), 3);
    let _ = other.kill();
    let _ = other.wait();
    // The remedy of HeapStatError::NotOnThisHeap. The read may precede the exec of `sleep`.
    assert!(said.contains("plimsoll heap run -- PROGRAM"), "{said}");
}

#[test]
fn a_user_without_access_gets_the_missing_capability() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;

    let root = rustix::process::geteuid().is_root();
    if !plimsoll_testkit::capability("root", root, "another user is needed to look from") {
        return;
    }
    let program = Churn::start(&[]);
    // User nobody may lack access to the folder of the program.
    let place = tempfile::tempdir().expect("a temporary folder");
    let all = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(place.path(), all).expect("opened");
    let plimsoll = place.path().join("plimsoll");
    plimsoll_testkit::copy_program(PLIMSOLL, &plimsoll);
    let nobody = 65534;
    let output = plimsoll_testkit::command(plimsoll)
        .args(["heap", "stat", &program.pid()])
        .uid(nobody)
        .gid(nobody)
        .current_dir("/")
        .output();
    let said = refusal(&output.expect("plimsoll starts"), 3);
    assert!(said.contains("CAP_SYS_PTRACE"), "{said}");
    program.end();
}
