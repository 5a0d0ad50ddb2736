//! Tests of the `trim` module, and of the page flags that show its effect: on processes and cgroups of their own.

mod command;
mod page_flags;
mod real;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};

use plimsoll_testkit::capability;

use plimsoll_lab::environment::{Environment, Session};
use plimsoll_proc::cgroup::{Hierarchy, PROCESSES};
use plimsoll_proc::swaps;

const MIB: u64 = 1 << 20;
/// The memory of a holder.
const HELD: u64 = 128 * MIB;

const HOLDER: &str = "PLIMSOLL_TEST_HOLDER";
const HOLDER_GROUP: &str = "PLIMSOLL_TEST_HOLDER_GROUP";
const HOLDER_LOCKS: &str = "PLIMSOLL_TEST_HOLDER_LOCKS";

fn root_with_cgroup() -> bool {
    let found = Hierarchy::of_this_process();
    capability(
        "cgroup",
        rustix::process::geteuid().is_root() && found.is_ok(),
        "needs root and a memory cgroup hierarchy",
    )
}

fn root_with_zram() -> bool {
    let there = Path::new("/sys/class/zram-control/hot_add").exists();
    root_with_cgroup() && capability("zram", there, "needs the zram module")
}

/// Without swap means without anybody's.
fn no_swap_at_all() -> bool {
    let none = swaps::active().is_ok_and(|areas| areas.is_empty());
    capability("no-swap", none, "this machine has swap of its own")
}

/// A cgroup with room for the holder, and `subject` to swap to.
fn environment(session: &mut Session, subject: &str) -> Environment {
    let settings = crate::machine::settings(subject, HELD, 256 * MIB, 256 * MIB);
    Environment::prepare(session, &settings).expect("an environment")
}

/// A process that holds [`HELD`] bytes of anonymous memory, all touched, and touches them again when it is told to.
struct Holder {
    child: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Holder {
    fn start(environment: &Environment, locked: u64) -> Holder {
        let procs = environment.cgroup().expect("a cgroup").group().file(PROCESSES);
        let mut child = plimsoll_testkit::command(std::env::current_exe().expect("this program"))
            .args(["trim::holder", "--exact", "--nocapture"])
            .env(HOLDER, "1")
            .env(HOLDER_GROUP, procs)
            .env(HOLDER_LOCKS, locked.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a holder");
        let said = BufReader::new(child.stdout.take().expect("its output"));
        let mut holder = Holder { child, said };
        holder.wait_for("held");
        holder
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Has it touch all of its memory; [`Holder::touched`] waits for the end of that.
    fn touch(&mut self) {
        let mut input = self.child.stdin.as_ref().expect("its input");
        input.write_all(b"touch\n").expect("it listens");
    }

    fn touched(&mut self) {
        self.wait_for("touched");
    }

    fn wait_for(&mut self, word: &str) {
        let mut line = String::new();
        while !line.contains(word) {
            line.clear();
            let length = self.said.read_line(&mut line).expect("its output");
            assert!(length > 0, "the holder ended before it said `{word}`");
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The holder itself: nothing to test where it is not started by one.
#[test]
fn holder() {
    if std::env::var_os(HOLDER).is_none() {
        return;
    }
    let group = std::env::var_os(HOLDER_GROUP).expect("a cgroup");
    std::fs::write(group, std::process::id().to_string()).expect("moves into the cgroup");
    let locked: u64 = std::env::var(HOLDER_LOCKS)
        .expect("a number")
        .parse()
        .expect("a number");
    let mut memory = plimsoll_os::Mapping::anonymous(HELD as usize).expect("memory");
    if locked > 0 {
        plimsoll_os::lock_range_on_fault(memory.address(), locked as usize).expect("memory can be locked");
    }
    fill(memory.bytes_mut());
    say("held");
    for line in std::io::stdin().lines() {
        assert_eq!(line.expect("a line"), "touch");
        let sum: u64 = memory
            .bytes()
            .iter()
            .step_by(4096)
            .map(|byte| u64::from(*byte))
            .sum();
        say(&format!("touched {sum}"));
    }
}

/// Half of each page is a stream that does not compress.
fn fill(memory: &mut [u8]) {
    let mut state = 1u64;
    for page in memory.chunks_exact_mut(4096) {
        for word in page[..2048].chunks_exact_mut(8) {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            word.copy_from_slice(&state.to_le_bytes());
        }
    }
}

fn say(words: &str) {
    let mut output = std::io::stdout();
    writeln!(output, "\n{words}")
        .and_then(|()| output.flush())
        .expect("somebody listens");
}
