//! Debuggers, and the core dumps that they read.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{compiled, does_as_without_the_library, has_compiler, library, modes, text, under};

/// The debugger gets each SIGBUS and SIGSYS before the program does, and passes it on. Where a thread of the pager serves the
/// faults of the kernel, `process_vm_readv` waits for that thread. `PTRACE_PEEKDATA` and `/proc/PID/mem` wait for no fault of
/// userfaultfd.
#[test]
fn a_debugger_traces_a_program_and_reads_its_memory() {
    if !has_compiler() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let [tracer, program] = ["tracer", "traced"].map(|name| compiled(name, folder.path()));
    let traced = |variables: &[String]| {
        let mut command = plimsoll_testkit::command(&tracer);
        command.arg("/usr/bin/env").args(variables).arg(&program);
        text(&command.output().expect("it starts"))
    };
    let native = traced(&[]);
    let sums: Vec<_> = native.lines().filter(|line| line.starts_with("sum ")).collect();
    assert!(sums.len() == 2 && sums[0] == sums[1], "{native}");
    let lines = |outcomes: [&str; 5]| {
        let [process, peek, file, stopped, end] = outcomes;
        format!(
            "{}\nprocess_vm_readv: {process}\nPTRACE_PEEKDATA: {peek}\n/proc/PID/mem: {file}\nall threads stopped: {stopped}\n\
             {}\nstatus 0, {end}\n",
            sums[0], sums[1]
        )
    };
    let no_signals = "SIGBUS never, SIGSYS never";
    let word = "the word";
    assert_eq!(native, lines([word, word, word, word, no_signals]));
    for mode in modes() {
        let settings = format!("PLIMSOLL_EXEC=1;ram={};faults={mode}", 16 << 20);
        let output = traced(&[format!("LD_PRELOAD={}", library().display()), settings]);
        let expected = match mode {
            "signal" => [
                "Bad address",
                "Input/output error",
                "Input/output error",
                "Bad address",
                "SIGBUS seen, SIGSYS seen",
            ],
            _ => [
                "the word",
                "Input/output error",
                "Input/output error",
                "waits, then the word",
                no_signals,
            ],
        };
        assert_eq!(output, lines(expected), "{mode}");
    }
}

/// A value of `PTRACE_POKEDATA` that is an address of the arena was taken for a pointer: the child got the address of a copy.
/// Registers that were read to the end of a page lost those that belong on the next one. A set of registers
/// (`PTRACE_GETREGSET`) was not read at all if its buffer was absent.
#[test]
fn a_program_that_traces_its_child_does_as_without_the_library() {
    does_as_without_the_library("traces");
}

/// gdb starts a program so, and waits in `vfork` for ever: the child that it traces has stopped before the execution.
#[test]
fn a_traced_child_of_vfork_stops_at_the_trap_of_its_execution() {
    if !has_compiler() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let program = compiled("traced_vfork", folder.path());
    let native = plimsoll_testkit::command(&program).output();
    let executed = "stopped: Trace/breakpoint trap\nended: 9\n";
    assert_eq!(text(&native.expect("it starts")), executed);
    for mode in modes() {
        let output = under(mode, &program).output().expect("it starts");
        let expected = match mode {
            "signal" => "stopped: Bad system call\nended: 9\n",
            _ => executed,
        };
        assert_eq!(text(&output), expected, "{mode}");
    }
}

/// Whether a core dump of this system is a file in the working directory.
fn has_core_files() -> bool {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    let is_here = !pattern.trim().is_empty() && !pattern.contains(['|', '/', '@']);
    let mut command = plimsoll_testkit::command("/bin/sh");
    let status = command.args(["-c", "ulimit -c unlimited"]).status();
    let is_unlimited = status.is_ok_and(|status| status.success());
    plimsoll_testkit::capability(
        "core-file",
        is_here && is_unlimited,
        "core dumps are not files here",
    )
}

/// A segment of a core dump: its address, and its bytes in the file, from an offset on.
struct Segment {
    address: u64,
    offset: u64,
    bytes: u64,
}

/// The segments of memory of a core dump.
fn segments(core: &File) -> Vec<Segment> {
    const LOAD: u64 = 1;
    let number = |at: u64, bytes: usize| {
        let mut buffer = [0; 8];
        core.read_exact_at(&mut buffer[..bytes], at).expect("a header");
        u64::from_le_bytes(buffer)
    };
    let (table, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    let headers = (0..count).map(|index| table + index * size);
    headers
        .filter(|header| number(*header, 4) == LOAD)
        .map(|header| Segment {
            offset: number(header + 8, 8),
            address: number(header + 16, 8),
            bytes: number(header + 32, 8),
        })
        .collect()
}

/// Pages of the program that are whole in its core dump, those that are zero, and others.
fn pages_in(core: &Path, start: u64, bytes: u64) -> [u64; 3] {
    const PAGE: u64 = 4096;
    let core = File::open(core).expect("a core dump");
    let segments = segments(&core);
    let mut counts = [0; 3];
    for address in (start..start + bytes).step_by(PAGE as usize) {
        let is_in =
            |segment: &&Segment| (segment.address..segment.address + segment.bytes).contains(&address);
        let segment = segments.iter().find(is_in).expect("a segment of the page");
        let mut page = [0; PAGE as usize];
        // The file may end before the last page that is zero.
        let _ = core
            .read_at(&mut page, segment.offset + address - segment.address)
            .expect("read");
        let (words, _) = page.as_chunks::<8>();
        let is_all = |expected: u64| words.iter().all(|word| u64::from_le_bytes(*word) == expected);
        let kind = match (is_all(address), is_all(0)) {
            (true, _) => 0,
            (_, true) => 1,
            _ => 2,
        };
        counts[kind] += 1;
    }
    counts
}

/// The kernel writes the pages that are in RAM, and leaves holes for the others, also of a forked child. It does not wait for
/// the pager.
#[test]
fn a_core_dump_has_zeros_for_pages_that_are_out_of_ram() {
    const BYTES: u64 = 32 << 20;
    if !has_compiler() || !has_core_files() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let program = compiled("crashed", folder.path());
    // With an argument, a child crashes.
    let crashed = |mut command: std::process::Command, argument: &str| {
        let place = TempDir::new().expect("a folder");
        command
            .args(["-c", "ulimit -c unlimited; exec \"$0\" $1"])
            .arg(&program)
            .arg(argument);
        let output = command.current_dir(place.path()).output().expect("it starts");
        let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
        match argument {
            "" => assert_eq!(signal, Some(libc::SIGABRT), "{output:?}"),
            _ => assert!(output.status.success(), "{output:?}"),
        }
        let start = String::from_utf8_lossy(&output.stdout)
            .trim()
            .parse()
            .expect("an address");
        let files: Vec<PathBuf> = fs::read_dir(place.path())
            .expect("the folder")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        assert_eq!(files.len(), 1, "{files:?}");
        let metadata = files[0].metadata().expect("its size");
        (
            pages_in(&files[0], start, BYTES),
            metadata.len(),
            metadata.blocks() * 512,
        )
    };
    let all = BYTES / 4096;
    for argument in ["", "child"] {
        let (native, _, _) = crashed(plimsoll_testkit::command("/bin/sh"), argument);
        assert_eq!(native, [all, 0, 0], "{argument}");
        for mode in modes() {
            let (pages, length, disk) = crashed(under(mode, "/bin/sh".as_ref()), argument);
            let [whole, zero, others] = pages;
            assert!(
                whole > 0 && zero > all / 2 && others == 0,
                "{mode} {argument}: {pages:?}"
            );
            // With the shadow area of the pager, it was a file of 257 GiB.
            assert!(
                length < 8 << 30 && disk < 64 << 20,
                "{mode} {argument}: {length}, {disk} bytes"
            );
        }
    }
}
