//! The program's input, output, environment, process group and end are its own.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use super::super::{ran, scratch, text};
use super::{Running, Swapped, cgroups};

#[test]
fn it_ends_with_the_programs_code_and_nothing_stays() {
    let Some(machine) = Swapped::new() else { return };
    let script =
        "grep -c plimsoll-exec- /proc/self/cgroup; pwd; cat; echo error >&2; echo \"$0 $1\"; exit 41";
    let mut command = machine.exec("64M");
    let mut child = command
        .args(["--", "sh", "-c", script, "-x", "a b"])
        .current_dir("/usr")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("plimsoll starts");
    let mut input = child.stdin.take().expect("its input");
    input.write_all(b"from input\n").expect("written");
    drop(input);
    let output = child.wait_with_output().expect("its end");
    assert_eq!(
        (
            text(&output.stdout).as_str(),
            text(&output.stderr).as_str(),
            output.status.code()
        ),
        ("1\n/usr\nfrom input\n-x a b\n", "error\n", Some(41))
    );
    machine.assert_nothing_left();
}

#[test]
fn a_signal_that_ends_the_program_ends_the_command() {
    let Some(machine) = Swapped::new() else { return };
    for signal in [libc::SIGKILL, libc::SIGTERM, libc::SIGSEGV, libc::SIGUSR2] {
        let script = format!("kill -{signal} $$");
        let output = ran(machine.exec("64M").args(["--", "sh", "-c", &script]));
        assert_eq!(
            (output.status.signal(), text(&output.stderr).as_str()),
            (Some(signal), "")
        );
    }
    machine.assert_nothing_left();
}

#[test]
fn a_program_that_cannot_be_started_leaves_nothing() {
    let Some(machine) = Swapped::new() else { return };
    let program = scratch("no-interpreter").join("script");
    plimsoll_testkit::write_script(&program, "#!/no/such/interpreter\n");
    // The second fails in the cgroup, at its execution.
    for program in ["/no/such/program", program.to_str().expect("text")] {
        let output = ran(machine.exec("64M").args(["--", program]));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(127), "{said}");
        assert!(said.contains(program), "{said}");
    }
    machine.assert_nothing_left();
}

/// A run may hold the machine for an hour: the test holds its lock, in the default state folder.
#[test]
fn it_waits_for_no_run_and_for_no_other_program() {
    let Some(machine) = Swapped::new() else { return };
    let start = || {
        let mut command = machine.exec("64M");
        command
            .env_remove("PLIMSOLL_STATE_DIR")
            .args(["--", "sh", "-c", "echo ready; read line; exit 5"])
            .stdin(Stdio::piped());
        let mut running = Running::start(&mut command);
        assert_eq!(running.line(), "ready");
        running
    };
    let mut both = [start(), start()];
    assert_eq!(cgroups().len(), 2);
    for running in &mut both {
        drop(running.child.stdin.take());
        assert_eq!(running.child.wait().expect("its end").code(), Some(5));
    }
    assert!(cgroups().is_empty());
}

#[test]
fn processes_that_the_program_leaves_behind_end_with_it() {
    let Some(machine) = Swapped::new() else { return };
    let script = "sleep 600 >/dev/null 2>&1 & echo $!";
    let output = ran(machine.exec("64M").args(["--", "sh", "-c", script]));
    assert!(output.status.success());
    assert!(!super::is_alive(text(&output.stdout).trim()));
    machine.assert_nothing_left();
}
