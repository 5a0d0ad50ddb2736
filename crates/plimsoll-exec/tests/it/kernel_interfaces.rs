//! Interfaces of the kernel that act on memory past a system call's arguments: userfaultfd, io_uring and AIO; huge pages; and filters
//! of system calls, which children inherit.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::{compiled, does_as_without_the_library, has_compiler, modes, text, under};

/// The program resolves faults by a userfaultfd of its own. The pager has registered memory that does not fit into the budget: a
/// mapping has one userfaultfd.
#[test]
fn a_userfaultfd_of_the_program_serves_memory_that_the_pager_has_not_registered() {
    if !has_compiler() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let program = compiled("userfaults", folder.path());
    let lines = |last: &str| {
        format!(
            "memory of the pager in the budget: 16 faults, 0 bytes are wrong, 16 of 16 pages\n\
             shared memory: 16 faults, 0 bytes are wrong, 16 of 16 pages\n\
             a small mapping: 4 faults, 0 bytes are wrong, 4 of 4 pages\n\
             memory that the pager has registered: {last}\n"
        )
    };
    let native = plimsoll_testkit::command(&program).output();
    assert_eq!(text(&native.expect("it starts")), lines("registered"));
    for mode in modes() {
        let output = under(mode, &program).output().expect("it starts");
        assert_eq!(text(&output), lines("Device or resource busy"), "{mode}");
    }
}

/// Whether the kernel allows io_uring to this user.
fn has_rings(native: &str) -> bool {
    plimsoll_testkit::capability(
        "io-uring",
        !native.contains("io_uring_setup"),
        "the system refuses it",
    )
}

/// A thread of the pager serves the faults of the kernel, also those of its io_uring workers. Without one, the kernel would fail
/// the requests with `EFAULT`: programs that find no io_uring use other calls.
#[test]
fn io_uring_uses_evicted_memory_or_is_refused() {
    if !has_compiler() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let program = compiled("rings", folder.path());
    let native = text(&plimsoll_testkit::command(&program).output().expect("it starts"));
    let has_rings = has_rings(&native);
    for mode in modes() {
        let output = under(mode, &program).arg("strict").output().expect("it starts");
        match mode {
            "signal" => assert_eq!(
                text(&output),
                "io_setup: Function not implemented\nio_uring_setup: Function not implemented\n"
            ),
            _ if has_rings => assert_eq!(text(&output), native, "{mode}"),
            _ => {}
        }
    }
}

/// Three times the budget with `MADV_HUGEPAGE`.
#[test]
fn memory_that_a_program_wants_as_huge_pages_has_ordinary_ones() {
    does_as_without_the_library("huge");
}

/// What `huge.c` prints with an argument, without the library (`None`) or in a mode.
fn huge(program: &Path, mode: Option<&str>, argument: &str) -> String {
    let mut command = match mode {
        Some(mode) => under(mode, program),
        None => plimsoll_testkit::command(program),
    };
    text(&command.arg(argument).output().expect("it starts"))
}

/// More of them than any machine has memory.
#[test]
fn reserved_huge_pages_that_the_machine_lacks_are_refused() {
    if !has_compiler() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let program = compiled("huge", folder.path());
    let native = huge(&program, None, "none");
    // ENOMEM, or EINVAL of a kernel without huge pages.
    assert!(!native.contains("in the arena"), "{native}");
    for mode in modes() {
        assert_eq!(huge(&program, Some(mode), "none"), native, "{mode}");
    }
}

/// Two pages, outside of the arena.
#[test]
fn reserved_huge_pages_are_those_of_the_kernel() {
    /// Runs at most: another program may have the pages for a moment.
    const TRIES: usize = 3;
    const REFUSED: &str = "MAP_HUGETLB: Cannot allocate memory\n";
    if !has_compiler() {
        return;
    }
    let information = fs::read_to_string("/proc/meminfo").expect("the kernel's");
    let line = information
        .lines()
        .find(|line| line.starts_with("HugePages_Free:"));
    let free = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    let is_available = free.is_some_and(|free| free >= 2);
    let reason = format!("2 free pages are needed: {}", line.unwrap_or("no HugePages_Free"));
    if !plimsoll_testkit::capability("hugetlb", is_available, &reason) {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let program = compiled("huge", folder.path());
    for mode in [None].into_iter().chain(modes().into_iter().map(Some)) {
        let mut runs = (0..TRIES).map(|_| huge(&program, mode, "reserved"));
        let output = runs.find(|output| output != REFUSED);
        if !plimsoll_testkit::capability("hugetlb", output.is_some(), "the free pages are gone") {
            return;
        }
        let expected = "MAP_HUGETLB: 0 in the arena, 0 words are wrong\n";
        assert_eq!(output.as_deref(), Some(expected), "{mode:?}");
    }
}

/// A program may rely on the result of `MADV_COLLAPSE`. The pager has pages of 4 KiB alone.
#[test]
fn memory_of_the_pager_is_not_collapsed_into_huge_pages() {
    if !has_compiler() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let program = compiled("huge", folder.path());
    for mode in modes() {
        let output = under(mode, &program).arg("collapse").output().expect("it starts");
        assert_eq!(text(&output), "MADV_COLLAPSE: Invalid argument\n", "{mode}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "1\n", "{mode}");
    }
}

/// The filter stays in programs that the process executes, and a statically linked one does not load the library.
#[test]
fn a_static_child_works_under_the_filter_of_its_parent() {
    if !has_compiler() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    // The source compiles: an error of the static build, which replaces this program, is that of a missing libc.a.
    compiled("static_child", folder.path());
    let built = super::compiled_with("static_child", folder.path(), &["-static"]);
    let errors = built.as_ref().err().map_or("", String::as_str);
    if !plimsoll_testkit::capability("static-libc", built.is_ok(), errors) {
        return;
    }
    let program = built.expect("it is built");
    let shell = |mut command: std::process::Command, argument: &str| {
        // SIGSYS must not leave a core dump.
        let script = format!("ulimit -c 0; {} {argument}; echo $?", program.display());
        text(&command.args(["-c", &script]).output().expect("it starts"))
    };
    let native = shell(plimsoll_testkit::command("/bin/sh"), "");
    assert!(native.ends_with("end of the shell: 0\n0\n"), "{native}");
    let setting = |name: &str| {
        let status = fs::read_to_string("/proc/self/status").expect("this process's own");
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map_or(0, |value| value.trim().parse().expect("a number"))
    };
    // A container may have a filter of its own.
    let (filters, privileges) = (setting("Seccomp:"), setting("NoNewPrivs:"));
    for mode in modes() {
        let managed = |argument| shell(under(mode, "/bin/sh".as_ref()), argument);
        assert_eq!(managed(""), native, "{mode}");
        assert_eq!(managed("loads"), "0\n", "{mode}");
        let filter = managed("filter");
        match mode {
            "signal" => {
                let expected = "NoNewPrivs:\t1\nSeccomp:\t2\nio_uring_setup: Function not implemented\n\
                                io_setup: Function not implemented\n0\n";
                assert_eq!(filter, expected);
                // A number of the arena's addresses, as a file offset of 16 TiB: SIGSYS, which no library handles.
                assert_eq!(managed("far"), "159\n");
            }
            _ => {
                let expected = format!("NoNewPrivs:\t{privileges}\nSeccomp:\t{filters}\n");
                assert!(filter.starts_with(&expected), "{filter}");
                assert_eq!(managed("far"), "1\n0\n", "{mode}");
            }
        }
    }
}
