//! The memory and the processors of this process, and its limits. Nothing here allocates: tests call it without memory.
#![allow(unsafe_code)]

use std::time::Duration;

use plimsoll_os::{UsageScope, page_size, resource_usage};

/// Bytes of address space of this process.
pub(crate) fn virtual_bytes() -> usize {
    statm(0)
}

/// Bytes of this process that are resident.
pub(crate) fn resident() -> usize {
    statm(1)
}

/// A number of `/proc/self/statm`, in bytes.
fn statm(which: usize) -> usize {
    let mut text = [0_u8; 128];
    // SAFETY: the path ends in a zero, and the buffer has the passed length.
    let read = unsafe {
        let file = libc::open(c"/proc/self/statm".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        assert!(file >= 0, "there is /proc");
        let read = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        usize::try_from(read).expect("it can be read")
    };
    let text = std::str::from_utf8(&text[..read]).expect("it is text");
    let number = text.split(' ').nth(which);
    let pages: usize = number.and_then(|number| number.parse().ok()).expect("a number");
    pages * page_size()
}

pub(crate) fn cpu_time() -> Duration {
    let usage = resource_usage(UsageScope::Process);
    Duration::from_micros(usage.user_us + usage.system_us)
}

/// Keeps this thread on the processor that it is on.
pub(crate) fn stay_on_one_processor() {
    // SAFETY: zero is a set of processors, which the calls take.
    unsafe {
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        let processor = libc::sched_getcpu();
        libc::CPU_SET(processor as usize, &mut one);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&one), &raw const one), 0);
    }
}

/// Sets a limit of this process, of bytes, which it may raise again.
pub(crate) fn set_limit(of: libc::__rlimit_resource_t, bytes: u64) {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the limit is valid.
    assert_eq!(unsafe { libc::setrlimit(of, &raw const limit) }, 0);
}
