//! Signals to the command reach the program.

use std::process::Command;

use super::super::text;
use super::{Running, Swapped, is_alive, wait_until};

/// Prints each signal by its number, and ends with 9 at SIGTERM.
const LISTENER: &str = "import os, signal, sys, time
def tell(number, frame):
    os.write(1, b'%d\\n' % number)
    if number == signal.SIGTERM:
        os._exit(9)
for number in sys.argv[1].split(','):
    signal.signal(int(number), tell)
os.write(1, b'ready\\n')
while True:
    time.sleep(0.01)
";

fn listening(machine: &Swapped, signals: &[i32]) -> Running {
    let list: Vec<String> = signals.iter().map(ToString::to_string).collect();
    let mut command = machine.exec("64M");
    command.args(["--", "python3", "-c", LISTENER, &list.join(",")]);
    let mut running = Running::start(&mut command);
    assert_eq!(running.line(), "ready");
    running
}

#[test]
fn signals_are_passed_on() {
    let Some(machine) = Swapped::new() else { return };
    if !crate::heap::has("python3") {
        return;
    }
    let signals = [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGALRM,
        libc::SIGWINCH,
        libc::SIGRTMIN() + 3,
        libc::SIGTERM,
    ];
    let mut running = listening(&machine, &signals);
    for signal in signals {
        running.signal(signal);
        assert_eq!(running.line(), signal.to_string());
    }
    assert_eq!(running.child.wait().expect("its end").code(), Some(9));
    machine.assert_nothing_left();
}

/// A program that is stopped and continued by its own number: the command goes on to wait.
#[test]
fn a_program_that_another_process_stops_is_waited_for() {
    let Some(machine) = Swapped::new() else { return };
    let mut command = machine.exec("64M");
    command.args(["--", "sh", "-c", "echo $$; read line; exit 3"]);
    command.stdin(std::process::Stdio::piped());
    let mut running = Running::start(&mut command);
    let pid = running.line();
    let send = |signal: &str| {
        let sent = plimsoll_testkit::command("kill").args([signal, &pid]).status();
        assert!(sent.expect("kill(1) starts").success());
    };
    send("-STOP");
    let state = |pid: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let rest = stat.rsplit(')').next().unwrap_or_default().trim_start();
        rest.chars().next()
    };
    wait_until("the program stops", || state(&pid) == Some('T'));
    assert_ne!(state(&running.child.id().to_string()), Some('T'));
    send("-CONT");
    wait_until("the program goes on", || state(&pid) != Some('T'));
    drop(running.child.stdin.take());
    assert_eq!(running.child.wait().expect("its end").code(), Some(3));
    machine.assert_nothing_left();
}

/// The disposition of the caller reaches the program, as without the command.
#[test]
fn signals_that_the_caller_ignores_stay_ignored() {
    let Some(machine) = Swapped::new() else { return };
    let exec = machine.exec("64M");
    let mut words: Vec<String> = vec![exec.get_program().to_string_lossy().into_owned()];
    words.extend(exec.get_args().map(|word| word.to_string_lossy().into_owned()));
    let script = format!(
        "trap '' INT HUP; exec {} -- grep -E 'SigIgn|SigBlk' /proc/self/status",
        words.join(" ")
    );
    let plain = "trap '' INT HUP; exec grep -E 'SigIgn|SigBlk' /proc/self/status";
    let shown = |script: &str| {
        let mut command: Command = plimsoll_testkit::command("sh");
        let output = command
            .args(["-c", script])
            .env("PLIMSOLL_STATE_DIR", machine.state.path())
            .output()
            .expect("a shell starts");
        text(&output.stdout)
    };
    let expected = shown(plain);
    assert!(expected.contains("SigIgn"), "{expected}");
    assert_eq!(shown(&script), expected);
    machine.assert_nothing_left();
}

#[test]
fn the_program_ends_with_a_command_that_is_killed() {
    let Some(machine) = Swapped::new() else { return };
    let mut command = machine.exec("64M");
    command.args(["--", "sh", "-c", "echo $$; exec sleep 600"]);
    let mut running = Running::start(&mut command);
    let pid = running.line();
    running.child.kill().expect("it is killed");
    running.child.wait().expect("its end");
    wait_until("the program ends", || !is_alive(&pid));
    let report = plimsoll_lab::environment::cleanup_in(machine.state.path(), None).expect("a cleanup");
    assert!(report.is_clean(), "{report:?}");
    machine.assert_nothing_left();
}
