//! Other handlers of SIGBUS, forks, and signals during system calls.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::time::Duration;

use plimsoll_pager::pool::{Limits, Pool};
use plimsoll_pager::{MapError, Pager, Region, TrimTo};
use plimsoll_testkit::{again, role, status_of_fork};

use crate::alarm::Alarm;

const PAGE: usize = 4096;

static CALLS: AtomicUsize = AtomicUsize::new(0);

/// An embedder's handler: it maps a page of fives where the fault was.
extern "C" fn embedders(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    CALLS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the kernel gives a valid `siginfo_t`; the page at a fault is one of the file mapping of the test.
    unsafe {
        if (*info).si_code > 0 {
            let page = (*info).si_addr() as usize & !(PAGE - 1);
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(page as *mut libc::c_void, PAGE, access, flags, -1, 0);
            (page as *mut u8).write_bytes(5, PAGE);
        }
    }
}

fn install(handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void)) {
    // SAFETY: a valid disposition; the handler makes system calls and writes to memory alone.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGBUS, &raw const action, null_mut()), 0);
    }
}

/// A page mapped behind the end of its file: an access raises SIGBUS.
fn beyond_the_end() -> *mut u8 {
    let file = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .open(std::env::temp_dir())
        .expect("the folder for temporary files takes one");
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the kernel picks an unused range.
    let page = unsafe { libc::mmap(null_mut(), PAGE, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    assert_ne!(page, libc::MAP_FAILED);
    page.cast()
}

fn use_a_region() {
    let pager = Pager::builder()
        .ram(16 << 20)
        .build()
        .expect("userfaultfd is allowed");
    let mut region = pager.map(4 << 20).expect("a small region");
    region.bytes_mut().fill(9);
    assert!(region.trim(.., TrimTo::Store).expect("the whole region") > 0);
    assert!(region.bytes().iter().all(|byte| *byte == 9));
}

#[test]
fn signals_of_others_go_to_the_handler_before() {
    if role().is_none() {
        let output = again("signals::signals_of_others_go_to_the_handler_before", "embedder").output();
        let output = output.expect("the test program starts");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        return;
    }
    install(embedders);
    use_a_region();
    assert_eq!(CALLS.load(Ordering::Relaxed), 0);
    // SAFETY: the page is mapped, and the handler of the test makes it present.
    assert_eq!(unsafe { beyond_the_end().read_volatile() }, 5);
    assert_eq!(CALLS.load(Ordering::Relaxed), 1);
    // SAFETY: sends a signal that is handled.
    unsafe { libc::raise(libc::SIGBUS) };
    assert_eq!(CALLS.load(Ordering::Relaxed), 2);
    use_a_region();
}

static CODE: AtomicI32 = AtomicI32::new(0);

extern "C" fn note_code(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid `siginfo_t`.
    CODE.store(unsafe { (*info).si_code }, Ordering::Relaxed);
}

/// A signal as the kernel sends it for a fault; a process may send it to itself.
#[repr(C)]
struct Sent {
    signal: i32,
    errno: i32,
    code: i32,
    padding: i32,
    address: usize,
    rest: [u64; 13],
}

/// The handler once took every SIGBUS at an address of a region for an absent page: it filled zeros over the marker of a memory
/// error, or tried for ever, and the program never heard of it.
#[test]
fn memory_errors_in_a_region_go_to_the_handler_before() {
    if role().is_none() {
        let test = "signals::memory_errors_in_a_region_go_to_the_handler_before";
        let output = again(test, "embedder").output().expect("the test program starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        return;
    }
    install(note_code);
    let pager = Pager::builder()
        .ram(16 << 20)
        .build()
        .expect("userfaultfd is allowed");
    let mut region = pager.map(4 << 20).expect("a small region");
    region.bytes_mut().fill(9);
    region.trim(..PAGE, TrimTo::Store).expect("a part of the region");
    let faults = pager.stats().hard_faults;
    for code in [libc::BUS_MCEERR_AR, libc::BUS_MCEERR_AO, libc::BUS_ADRALN] {
        let sent = Sent {
            signal: libc::SIGBUS,
            errno: 0,
            code,
            padding: 0,
            address: region.as_ptr() as usize,
            rest: [0; 13],
        };
        // SAFETY: a valid `siginfo_t`; the handler of the test stores its code.
        let outcome = unsafe {
            libc::syscall(
                libc::SYS_rt_tgsigqueueinfo,
                libc::getpid(),
                libc::gettid(),
                libc::SIGBUS,
                &raw const sent,
            )
        };
        assert_eq!(outcome, 0);
        assert_eq!(CODE.swap(0, Ordering::Relaxed), code);
    }
    assert_eq!(pager.stats().hard_faults, faults);
    assert!(region.bytes().iter().all(|byte| *byte == 9));
    assert_eq!(CODE.load(Ordering::Relaxed), 0);
    assert_eq!(pager.validate(), []);
}

#[test]
fn without_another_handler_a_foreign_signal_ends_the_process() {
    let Some(role) = role() else {
        for role in ["fault", "sent"] {
            let test = "signals::without_another_handler_a_foreign_signal_ends_the_process";
            let output = again(test, role).output().expect("the test program starts");
            assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{role}");
        }
        return;
    };
    // SAFETY: removes the handler of Rust's runtime, which takes a first signal that was sent; then ends the process.
    unsafe {
        libc::signal(libc::SIGBUS, libc::SIG_DFL);
        use_a_region();
        match role.as_str() {
            "fault" => _ = beyond_the_end().read_volatile(),
            _ => _ = libc::raise(libc::SIGBUS),
        }
    }
}

#[test]
fn a_child_of_a_fork_gets_a_signal_and_no_zeros() {
    let pager = Pager::builder()
        .ram(16 << 20)
        .build()
        .expect("userfaultfd is allowed");
    let mut region = pager.map(4 << 20).expect("a small region");
    region.bytes_mut().fill(9);
    region
        .trim(..1 << 20, TrimTo::Store)
        .expect("a part of the region");
    let address = region.as_ptr() as usize;
    for page in [0, 2 << 20] {
        let status = status_of_fork(move || {
            // SAFETY: ends the process.
            unsafe { ((address + page) as *const u8).read_volatile() };
        });
        assert!(
            libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV,
            "{status:#x}"
        );
    }
    // The child drops its copies of pager and region: the parent's stay as they are.
    let (pager_at, region_at) = (&raw const pager as usize, &raw const region as usize);
    let status = status_of_fork(move || {
        // SAFETY: copies of the parent's values, in the child's own memory, which the parent's drops do not concern.
        let (pager, region) = unsafe {
            (
                std::ptr::read(pager_at as *const Pager),
                std::ptr::read(region_at as *const Region),
            )
        };
        assert!(matches!(pager.map(PAGE), Err(MapError::Forked)));
        drop((region, pager));
    });
    assert_eq!(status, 0);
    assert!(region.bytes().iter().all(|byte| *byte == 9));
}

extern "C" fn on_alarm(_: libc::c_int) {}

/// Linux 6.1 returns `EINTR` from `fallocate(2)` on a file in memory, and does so also where no signal comes but an io_uring was
/// closed a moment before. One start of a program in twenty failed there, beside other load. Linux 6.18 does neither.
#[test]
fn signals_interrupt_neither_a_new_pool_nor_a_member_that_joins() {
    if role().is_none() {
        let test = "signals::signals_interrupt_neither_a_new_pool_nor_a_member_that_joins";
        let output = again(test, "alarm").output().expect("the test program starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        return;
    }
    // Longer than a call takes on an emulated processor.
    let alarm = Alarm::every(Duration::from_micros(500), on_alarm);
    for _ in 0..300 {
        let pool = Pool::in_memory(64 << 20).expect("a pool");
        pool.join(Limits::default()).expect("a member");
    }
    drop(alarm);
}
