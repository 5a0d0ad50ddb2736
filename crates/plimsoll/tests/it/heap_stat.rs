//! `plimsoll heap stat` of a program that allocates in threads while it is looked at.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");
/// Set for the program that is looked at: this test again.
const CHURN: &str = "PLIMSOLL_TEST_CHURN";

/// Not a test by itself: what the program does that the others look at. Threads allocate and free blocks of all sizes,
/// and hand some of them to each other, until standard input ends.
#[test]
fn churn() {
    if std::env::var_os(CHURN).is_none() {
        return;
    }
    let stop = AtomicBool::new(false);
    let (send, receive) = std::sync::mpsc::sync_channel::<Vec<u8>>(64);
    std::thread::scope(|scope| {
        let stop = &stop;
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
                while !stop.load(Ordering::Relaxed) {
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
                }
            });
        }
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                drop(receive.recv_timeout(std::time::Duration::from_millis(10)));
            }
        });
        println!("churning");
        let mut line = String::new();
        while std::io::stdin().read_line(&mut line).is_ok_and(|read| read > 0) {}
        stop.store(true, Ordering::Relaxed);
    });
}

/// A program that runs on the heap; it ends when this is dropped.
struct Churn {
    child: Child,
    /// What it prints; it must have somebody to print to.
    output: BufReader<ChildStdout>,
}

impl Churn {
    fn start(options: &[&str]) -> Churn {
        let test = std::env::current_exe().expect("a test knows its file");
        let mut child = Command::new(PLIMSOLL)
            .args(["heap", "run"])
            .args(options)
            .arg("--")
            .arg(test)
            .args(["--exact", "heap_stat::churn", "--nocapture"])
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
    Command::new(PLIMSOLL)
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
        walked += number(&validation["free_blocks"]) + number(&validation["cached_blocks"]);
        moved += number(&validation["moved"]);
    }
    assert!(walked > 100_000, "{walked} blocks were walked");
    eprintln!("{walked} free blocks walked, {moved} things moved meanwhile");
    program.end();
}
