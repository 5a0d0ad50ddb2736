//! A seccomp filter that ends the process by SIGSYS where a system call that changes mappings names an address of the
//! arena, unless the arena made the call: its calls have a sixth argument of their own.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_lfh::Heap;

use crate::arena::OWN;
use crate::child::in_child;
use plimsoll_testkit::status_of_fork;

static INSTALLED: AtomicBool = AtomicBool::new(false);

/// The calls that change mappings, by the address in their first argument.
const CALLS: [libc::c_long; 5] = [
    libc::SYS_madvise,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_mmap,
];

/// Installs the filter, for the range from a multiple of 4 GiB on, in this process and those that it starts.
pub(crate) fn install(start: usize, length: usize) {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    /// Offsets in `struct seccomp_data`: the call, the high half of its first argument, the low half of its sixth.
    const NUMBER: u32 = 0;
    const HIGH: u32 = 20;
    const SIXTH: u32 = 56;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut filter = vec![step(LOAD, 0, 0, NUMBER)];
    let count = CALLS.len();
    for (number, call) in CALLS.iter().enumerate() {
        // To the load of the address, past the rest of the numbers and the step for no such call.
        filter.push(step(EQUAL, (count - number) as u8, 0, *call as u32));
    }
    filter.extend([
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        step(LOAD, 0, 0, HIGH),
        step(LEAST, 0, 3, (start >> 32) as u32),
        step(LEAST, 2, 0, ((start + length) >> 32) as u32),
        step(LOAD, 0, 0, SIXTH),
        step(EQUAL, 0, 1, OWN as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        step(RETURN, 0, 0, libc::SECCOMP_RET_TRAP),
    ]);
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the filter outlives the calls, which read it.
    let installed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ) == 0
    };
    INSTALLED.store(installed, Ordering::Relaxed);
}

#[test]
fn plain_calls_on_managed_memory_end_the_process() {
    if !plimsoll_testkit::capability(
        "seccomp",
        INSTALLED.load(Ordering::Relaxed),
        "a kernel with seccomp filters",
    ) {
        return;
    }
    let name = "filter::plain_calls_on_managed_memory_end_the_process";
    in_child(name, &[], || {
        let block = Heap::process().allocate(1 << 20) as usize;
        for call in CALLS {
            let plain = || {
                // SAFETY: the kernel does not make the call.
                unsafe { libc::syscall(call, block, 4096, 0, 0, 0, 0) };
            };
            let status = status_of_fork(plain);
            assert_eq!(libc::WTERMSIG(status), libc::SIGSYS, "{call}: {status:#x}");
        }
        // SAFETY: a mapping of this test's own.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let other = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, flags, -1, 0);
            assert_ne!(other, libc::MAP_FAILED);
            assert_eq!(libc::munmap(other, 4096), 0);
        }
    });
}
