//! A thread without a C library: for a heap, which may not ask the C library for one, as that would allocate.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering};

use crate::Errno;
use crate::raw::system_call;

/// A signal set with every signal.
static EVERY_SIGNAL: u64 = u64::MAX;

/// Starts a thread that runs `work` on the stack that ends at `stack_end`. `alive` becomes 1 before it runs, and 0 when
/// it has left its stack for good. All signals are blocked in it; no call touches `errno`.
///
/// # Errors
/// The error of `clone(2)`: no thread was started.
///
/// # Safety
/// `stack_end` is a multiple of 16; the bytes below it, as many as `work` may need, are writable and nobody's until
/// `alive` is 0 again. `alive` lives as long as the process. `work` does not unwind, and uses neither thread-local
/// storage nor anything that may: the thread shares that of the thread that started it.
pub unsafe fn start_helper_thread(
    stack_end: usize,
    alive: &'static AtomicU32,
    work: extern "C" fn(),
) -> Result<(), Errno> {
    let mut before = 0u64;
    let block = [
        libc::SIG_SETMASK as usize,
        (&raw const EVERY_SIGNAL) as usize,
        (&raw mut before) as usize,
        8,
        0,
        0,
    ];
    // SAFETY: the kernel reads one set and writes the other.
    unsafe { system_call(libc::SYS_rt_sigprocmask, block) }?;
    alive.store(1, Ordering::Relaxed);
    // SAFETY: the caller's premise.
    let started = unsafe { clone(stack_end, alive.as_ptr() as usize, work) };
    if started.is_err() {
        alive.store(0, Ordering::Relaxed);
    }
    let restore = [
        libc::SIG_SETMASK as usize,
        (&raw const before) as usize,
        0,
        8,
        0,
        0,
    ];
    // SAFETY: the kernel reads the set.
    let _ = unsafe { system_call(libc::SYS_rt_sigprocmask, restore) };
    started
}

/// What the thread shares: all that threads share; the kernel zeroes `alive` when it ends.
const FLAGS: i32 = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM
    | libc::CLONE_CHILD_CLEARTID;

/// # Safety
/// As for [`start_helper_thread`].
#[cfg(target_arch = "x86_64")]
unsafe fn clone(stack_end: usize, alive: usize, work: extern "C" fn()) -> Result<(), Errno> {
    let returned: isize;
    // SAFETY: the new thread starts behind the system call with the new stack, of which it uses nothing above; it calls
    // `work` and ends there. The old one goes on as after any system call.
    unsafe {
        core::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "call r12",
            "xor edi, edi",
            "mov eax, {exit}",
            "syscall",
            "ud2",
            "2:",
            exit = const libc::SYS_exit,
            inlateout("rax") libc::SYS_clone as isize => returned,
            in("rdi") FLAGS as usize,
            in("rsi") stack_end,
            in("rdx") 0usize,
            in("r10") alive,
            in("r8") 0usize,
            in("r12") work,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    crate::raw::check(returned).map(drop)
}

/// # Safety
/// As for [`start_helper_thread`].
#[cfg(target_arch = "aarch64")]
unsafe fn clone(stack_end: usize, alive: usize, work: extern "C" fn()) -> Result<(), Errno> {
    let returned: isize;
    // SAFETY: the new thread starts behind the system call with the new stack, of which it uses nothing above; it calls
    // `work` and ends there. The old one goes on as after any system call.
    unsafe {
        core::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x30, xzr",
            "blr x9",
            "mov x0, xzr",
            "mov x8, {exit}",
            "svc 0",
            "brk 1",
            "2:",
            exit = const libc::SYS_exit,
            in("x8") libc::SYS_clone,
            inlateout("x0") FLAGS as isize => returned,
            in("x1") stack_end,
            in("x2") 0usize,
            in("x3") 0usize,
            in("x4") alive,
            in("x9") work,
        );
    }
    crate::raw::check(returned).map(drop)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::{Duration, Instant};

    use crate::address_space;

    static ALIVE: AtomicU32 = AtomicU32::new(0);
    static RAN: AtomicU32 = AtomicU32::new(0);

    extern "C" fn work() {
        RAN.fetch_add(1, Ordering::Relaxed);
    }

    #[test]
    fn a_helper_runs_and_leaves_its_stack() {
        let stack = address_space::map(64 << 10).expect("memory");
        for round in 1..=20 {
            // SAFETY: the stack is this test's, and `work` does nothing but count.
            unsafe { super::start_helper_thread(stack + (64 << 10), &ALIVE, work) }.expect("a thread");
            let start = Instant::now();
            while ALIVE.load(Ordering::Acquire) != 0 {
                assert!(start.elapsed() < Duration::from_secs(10));
                std::thread::yield_now();
            }
            assert_eq!(RAN.load(Ordering::Relaxed), round);
        }
        // SAFETY: no helper is alive.
        unsafe { address_space::unmap(stack, 64 << 10) }.expect("mapped above");
    }
}
