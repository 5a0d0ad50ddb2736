//! Systems that refuse userfaultfd: the error names the remedy, and nothing is left behind.
#![allow(unsafe_code)]

use std::fs::File;
use std::path::Path;

use plimsoll_pager::{BuildError, Codec, FaultMode, Pager};
use plimsoll_testkit::{again, refuse_userfaultfd, role, status_of_fork};

use crate::page_file::{entries, folder};

/// The mappings, open files and threads of this process, and its handler of SIGBUS.
#[derive(Debug, PartialEq, Eq)]
struct Possessions {
    /// Address ranges and rights, without the heap of the C library, which may grow.
    mappings: Vec<String>,
    files: usize,
    threads: usize,
    handler: usize,
}

impl Possessions {
    fn now() -> Possessions {
        // SAFETY: zeros are such a value, to which the call writes.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: asks for the handler alone.
        let asked = unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut action) };
        assert_eq!(asked, 0);
        let maps = std::fs::read_to_string("/proc/self/maps").expect("this process's maps");
        let mappings = maps.lines().filter(|line| !line.ends_with("[heap]"));
        Possessions {
            mappings: mappings.map(str::to_owned).collect(),
            files: entries(Path::new("/proc/self/fd")),
            threads: entries(Path::new("/proc/self/task")),
            handler: action.sa_sigaction,
        }
    }
}

#[test]
fn a_seccomp_filter_is_named_and_nothing_is_left_behind() {
    if role().is_none() {
        let test = "refused::a_seccomp_filter_is_named_and_nothing_is_left_behind";
        // The thread of the test would have an arena of malloc of its own, which may grow as the heap does.
        let mut alone = again(test, "alone");
        let status = alone.env("MALLOC_ARENA_MAX", "1").status();
        let status = status.expect("the test program starts");
        assert!(status.success(), "{status}");
        return;
    }
    let folder = folder();
    for errno in [libc::EPERM, libc::ENOSYS] {
        let path = folder.path();
        let status = status_of_fork(move || {
            refuse_userfaultfd(errno, true);
            let before = Possessions::now();
            for _ in 0..5 {
                let plain = Pager::builder().ram(16 << 20);
                let thread = Pager::builder().ram(16 << 20).fault_mode(FaultMode::Thread);
                let file = Pager::builder()
                    .ram(16 << 20)
                    .codec(Codec::Auto)
                    .page_file(path, 4 << 20);
                for builder in [plain, thread, file] {
                    let built = builder.build();
                    assert!(matches!(built, Err(BuildError::Seccomp(seen)) if seen.raw() == errno));
                }
            }
            assert_eq!(Possessions::now(), before);
            assert_eq!(entries(path), 0);
        });
        assert_eq!(status, 0);
    }
}

#[test]
fn the_device_replaces_the_system_call() {
    if File::options()
        .read(true)
        .write(true)
        .open("/dev/userfaultfd")
        .is_err()
    {
        eprintln!("skipped: this user has no /dev/userfaultfd");
        return;
    }
    let status = status_of_fork(|| {
        refuse_userfaultfd(libc::EPERM, false);
        let pager = Pager::builder().ram(16 << 20).build().expect("the device");
        let mut region = pager.map(1 << 20).expect("a small region");
        region.bytes_mut().fill(1);
        assert!(
            region
                .trim(.., plimsoll_pager::TrimTo::Store)
                .expect("the whole region")
                > 0
        );
        assert!(region.bytes().iter().all(|byte| *byte == 1));
    });
    assert_eq!(status, 0);
}
