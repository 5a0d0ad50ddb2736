//! A thread without a C library: for a heap, which may not ask the C library for one, as that would allocate.
#![allow(unsafe_code)]

mod state;

#[cfg(all(test, loom))]
mod models;

use core::sync::atomic::{AtomicU32, Ordering};

use crate::Errno;
use crate::raw::system_call;
pub use state::HelperState;
use state::RUNNING;

/// A signal set with every signal.
static EVERY_SIGNAL: u64 = u64::MAX;

/// Starts a thread that runs `work` on the stack that ends at `stack_end`, and again for each request
/// ([`HelperState::ask`]) after `work` last began to look. All signals are blocked in it; no call touches `errno`.
///
/// # Errors
/// The error of `clone(2)`: no thread was started, and the state is absent.
///
/// # Safety
/// `stack_end` is a multiple of 16; the bytes below it, as many as `work` may need, are writable and unused as long as
/// the state has a helper. [`HelperState::ask`] returned true to this caller. `work` begins to look
/// ([`HelperState::begin_to_look`]) at least once, does not unwind, and uses neither thread-local storage nor any
/// function that may: the thread shares that of the thread that started it.
pub unsafe fn start_helper_thread(
    stack_end: usize,
    state: &'static HelperState,
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
    let blocked = unsafe { system_call(libc::SYS_rt_sigprocmask, block) };
    // SAFETY: the caller's premise.
    let started = blocked.and_then(|_| unsafe { clone(stack_end, state.0.as_ptr() as usize, work) });
    if started.is_err() {
        state.forget();
    }
    if blocked.is_ok() {
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
    }
    started
}

/// The resources that the thread shares: all that threads share.
const FLAGS: i32 = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM;

/// # Safety
/// As for [`start_helper_thread`].
#[cfg(target_arch = "x86_64")]
unsafe fn clone(stack_end: usize, state: usize, work: extern "C" fn()) -> Result<(), Errno> {
    let returned: isize;
    // SAFETY: the new thread starts behind the system call with the new stack, of which it uses nothing above; it calls
    // `work` until no request is left, and ends there: once the state is `ABSENT` it uses registers alone. The old one
    // continues as after any system call.
    unsafe {
        core::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "3:",
            "call r12",
            "mov eax, {running}",
            "xor ecx, ecx",
            "lock cmpxchg dword ptr [r13], ecx",
            "jne 3b",
            "xor edi, edi",
            "mov eax, {exit}",
            "syscall",
            "ud2",
            "2:",
            exit = const libc::SYS_exit,
            running = const RUNNING,
            inlateout("rax") libc::SYS_clone as isize => returned,
            in("rdi") FLAGS as usize,
            in("rsi") stack_end,
            in("rdx") 0usize,
            in("r10") 0usize,
            in("r8") 0usize,
            in("r12") work,
            in("r13") state,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    crate::raw::check(returned).map(drop)
}

/// # Safety
/// As for [`start_helper_thread`].
#[cfg(target_arch = "aarch64")]
unsafe fn clone(stack_end: usize, state: usize, work: extern "C" fn()) -> Result<(), Errno> {
    let returned: isize;
    // SAFETY: the new thread starts behind the system call with the new stack, of which it uses nothing above; it calls
    // `work`, which keeps x20 and x21, until no request is left, and ends there: once the state is `ABSENT` it uses
    // registers alone. The old one continues as after any system call.
    unsafe {
        core::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "3:",
            "blr x20",
            "4:",
            "ldaxr w9, [x21]",
            "cmp w9, {running}",
            "b.ne 5f",
            "stlxr w10, wzr, [x21]",
            "cbnz w10, 4b",
            "mov x0, xzr",
            "mov x8, {exit}",
            "svc 0",
            "brk 1",
            "5:",
            "clrex",
            "b 3b",
            "2:",
            exit = const libc::SYS_exit,
            running = const RUNNING,
            in("x8") libc::SYS_clone,
            inlateout("x0") FLAGS as isize => returned,
            in("x1") stack_end,
            in("x2") 0usize,
            in("x3") 0usize,
            in("x4") 0usize,
            in("x20") work,
            in("x21") state,
        );
    }
    crate::raw::check(returned).map(drop)
}

impl HelperState {
    /// No helper.
    pub const fn absent() -> HelperState {
        HelperState(AtomicU32::new(state::ABSENT))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    extern crate std;

    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::{Duration, Instant};
    use std::{thread, vec::Vec};

    use super::HelperState;
    use crate::address_space;

    const STACK: usize = 64 << 10;

    fn wait_until(condition: impl Fn() -> bool) {
        let start = Instant::now();
        while !condition() {
            assert!(start.elapsed() < Duration::from_secs(10));
            thread::yield_now();
        }
    }

    #[test]
    fn a_helper_runs_and_leaves_its_stack() {
        static STATE: HelperState = HelperState::absent();
        static RAN: AtomicU32 = AtomicU32::new(0);
        extern "C" fn work() {
            STATE.begin_to_look();
            RAN.fetch_add(1, Ordering::Relaxed);
        }
        let stack = address_space::map(STACK).expect("memory");
        for round in 1..=20 {
            assert!(STATE.ask());
            // SAFETY: the stack is this test's, and `work` does nothing but count.
            unsafe { super::start_helper_thread(stack + STACK, &STATE, work) }.expect("a thread");
            wait_until(|| !STATE.is_present());
            assert_eq!(RAN.load(Ordering::Relaxed), round);
        }
        // SAFETY: no helper is present.
        unsafe { address_space::unmap(stack, STACK) }.expect("mapped above");
    }

    #[test]
    fn whatever_is_asked_for_is_done_though_the_helper_is_about_to_end() {
        static STATE: HelperState = HelperState::absent();
        static GIVEN: AtomicU32 = AtomicU32::new(0);
        static DONE: AtomicU32 = AtomicU32::new(0);
        extern "C" fn work() {
            STATE.begin_to_look();
            DONE.store(GIVEN.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let stack = address_space::map(STACK).expect("memory");
        let givers: Vec<_> = (0..4)
            .map(|_| {
                thread::spawn(move || {
                    for _ in 0..2000 {
                        let given = GIVEN.fetch_add(1, Ordering::Relaxed) + 1;
                        if STATE.ask() {
                            // SAFETY: the stack is this test's, and `work` does nothing but count.
                            unsafe { super::start_helper_thread(stack + STACK, &STATE, work) }
                                .expect("a thread");
                        }
                        wait_until(|| DONE.load(Ordering::Relaxed) >= given);
                    }
                })
            })
            .collect();
        givers
            .into_iter()
            .for_each(|giver| giver.join().expect("no panic"));
        wait_until(|| !STATE.is_present());
        // SAFETY: no helper is present.
        unsafe { address_space::unmap(stack, STACK) }.expect("mapped above");
    }
}
