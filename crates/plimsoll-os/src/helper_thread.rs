//! A thread without a C library: for a heap, which may not ask the C library for one, as that would allocate.
//!
//! Programs do not expect the thread, and some of their calls concern each thread of the process. So the thread
//! - has a root and a working directory of its own (`CLONE_FS` is absent): a program of one thread can join a mount
//!   namespace (`setns(2)` refuses a caller that shares them);
//! - takes over the scheduling of the program's first thread (`scheduling`), whichever thread starts it;
//! - can tell whether it has privileges that the program has dropped (`privileges`), and that a signal waits for it
//!   ([`Helper::is_signalled`]): its work ends then;
//! - ends on request ([`Helper::dismiss`]), in time for a fork.
#![allow(unsafe_code)]

mod privileges;
mod scheduling;
mod state;

#[cfg(all(test, loom))]
mod models;

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;

use crate::raw::system_call;
use crate::{Errno, futex_wait, futex_wake, this_process};
pub use privileges::{Privileges, compare_privileges};
pub use state::HelperState;
use state::{ABSENT, RUNNING};

/// A helper thread, of which there is at most one at a time.
#[derive(Debug)]
pub struct Helper {
    /// Whether the thread is there, and requests to it.
    pub state: HelperState,
    /// 1 from [`Helper::dismiss`] to the next start. The futex of the thread's sleep.
    dismissed: AtomicU32,
    /// The number of the thread that was started last, which may have ended; 0 for none.
    thread: AtomicU32,
    /// Whether it has a root and a working directory of its own.
    has_own_folder: AtomicBool,
}

impl Helper {
    /// No helper.
    pub const fn absent() -> Helper {
        Helper {
            state: HelperState(AtomicU32::new(ABSENT)),
            dismissed: AtomicU32::new(0),
            thread: AtomicU32::new(0),
            has_own_folder: AtomicBool::new(false),
        }
    }

    /// Called by the helper, before anything else: has it run as the process's first thread does, except for a real-time
    /// policy, and at the root of the file system, so that no other file system stays in use for its sake. Calls that
    /// would change nothing are left out: a filter of system calls may end the process for them.
    pub fn settle(&self) {
        scheduling::settle();
        if self.has_own_folder.load(Ordering::Acquire) {
            // SAFETY: the kernel reads the name. The working directory is this thread's alone.
            let _ = unsafe { system_call(libc::SYS_chdir, [c"/".as_ptr() as usize, 0, 0, 0, 0, 0]) };
        }
    }

    /// Called by the helper: sleeps for `limit` at most, less if it is dismissed.
    pub fn sleep(&self, limit: Duration) {
        futex_wait(&self.dismissed, 0, Some(limit));
    }

    /// Called by the helper, between two pieces of work: whether a thread waits for its end.
    pub fn is_dismissed(&self) -> bool {
        self.dismissed.load(Ordering::Acquire) != 0
    }

    /// Called by the helper: whether SIGSYS waits for it. A library that has each thread in `/proc/self/task` make a
    /// system call (libpsx, of programs in Go that use C) sends that signal to each, and waits until its handler ran in
    /// the thread or the thread has ended. A handler may not run in the helper, which has no thread-local storage.
    pub fn is_signalled(&self) -> bool {
        const SIGSYS: u64 = 1 << (libc::SIGSYS - 1);
        let mut pending = 0_u64;
        // SAFETY: the kernel writes a set.
        let read = unsafe {
            system_call(
                libc::SYS_rt_sigpending,
                [(&raw mut pending) as usize, 8, 0, 0, 0, 0],
            )
        };
        read.is_ok() && pending & SIGSYS != 0
    }

    /// Ends the helper, and waits until the process does not have the thread any more: for as long as a piece of work
    /// takes. Returns whether there was one. The caller holds no lock that `work` may wait for.
    pub fn dismiss(&self) -> bool {
        let thread = self.thread.load(Ordering::Acquire);
        if thread == 0 {
            return false;
        }
        let present = self.state.is_present();
        if present {
            self.dismissed.store(1, Ordering::Release);
            futex_wake(&self.dismissed, 1);
        }
        // Unless another thread starts the next one. Looks that find no such thread are limited, as the state stays as it
        // was after a fork past the C library, and after the `exec` of a child of `vfork` that had started the helper.
        let mut missing = 0;
        while self.state.is_present()
            && self.thread.load(Ordering::Acquire) == thread
            && missing < MOST_PAUSES
        {
            missing += u32::from(!exists(thread));
            pause();
        }
        // Limited too, as another thread of the program may have the number by now.
        let _ended = (0..MOST_PAUSES).any(|_| {
            let exists = exists(thread);
            if exists {
                pause();
            }
            !exists
        });
        let _ = self
            .thread
            .compare_exchange(thread, 0, Ordering::AcqRel, Ordering::Acquire);
        present
    }

    /// In the child of a fork, which has no helper.
    pub fn forget(&self) {
        self.state.forget();
        self.dismissed.store(0, Ordering::Release);
        self.thread.store(0, Ordering::Release);
    }
}

/// The pause between two looks at a thread that is about to end, and how often it is looked at, 50 ms in all.
const PAUSE: Duration = Duration::from_micros(50);
const MOST_PAUSES: u32 = 1000;

/// Sleeps, as the helper may need this thread's processor to end.
fn pause() {
    futex_wait(&AtomicU32::new(0), 0, Some(PAUSE));
}

/// Whether this process has a thread of that number.
fn exists(thread: u32) -> bool {
    let arguments = [this_process() as usize, thread as usize, 0, 0, 0, 0];
    // SAFETY: signal 0 is none: the kernel only looks for the thread.
    let sent = unsafe { system_call(libc::SYS_tgkill, arguments) };
    sent != Err(Errno::SRCH)
}

/// A signal set with every signal.
static EVERY_SIGNAL: u64 = u64::MAX;

/// Starts a thread that runs `work` on the stack that ends at `stack_end`. If `work` returns false, the thread runs it
/// again for each request ([`HelperState::ask`]) after it last began to look, and then ends; if true, the thread ends at
/// once, and a later request starts the next one. All signals are blocked in the thread; no call touches `errno`.
///
/// # Errors
/// The error of `clone(2)`: no thread was started, and the state is absent.
///
/// # Safety
/// `stack_end` is a multiple of 16; the bytes below it, as many as `work` may need, are writable and unused as long as
/// the state has a helper. [`HelperState::ask`] returned true to this caller. `work` begins to look
/// ([`HelperState::begin_to_look`]) at least once unless it returns true, does not unwind, and uses neither thread-local
/// storage nor any function that may: the thread shares that of the thread that started it.
pub unsafe fn start_helper_thread(
    stack_end: usize,
    helper: &'static Helper,
    work: extern "C" fn() -> bool,
) -> Result<(), Errno> {
    helper.dismissed.store(0, Ordering::Release);
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
    let start = |flags: i32, has_own_folder: bool| {
        helper.has_own_folder.store(has_own_folder, Ordering::Release);
        // SAFETY: the caller's premise.
        unsafe { clone(flags, stack_end, helper, work) }
    };
    let started = blocked.and_then(|_| match start(FLAGS, true) {
        // QEMU, where it emulates a program, has no threads but those that share all.
        Err(Errno::INVAL) => start(FLAGS | libc::CLONE_FS, false),
        started => started,
    });
    if started.is_err() {
        helper.state.forget();
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

/// The resources that the thread shares: all that threads share but root and working directory. The kernel stores its
/// number before it runs.
const FLAGS: i32 = libc::CLONE_VM
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM
    | libc::CLONE_PARENT_SETTID;

/// # Safety
/// As for [`start_helper_thread`].
#[cfg(target_arch = "x86_64")]
unsafe fn clone(
    flags: i32,
    stack_end: usize,
    helper: &'static Helper,
    work: extern "C" fn() -> bool,
) -> Result<(), Errno> {
    let returned: isize;
    // SAFETY: the new thread starts behind the system call with the new stack, of which it uses nothing above; it calls
    // `work` until no request is left or `work` returns true, and ends there: once the state is `ABSENT` it uses
    // registers alone. The old one continues as after any system call; the kernel writes the number of the new thread.
    unsafe {
        core::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "3:",
            "call r12",
            "test al, al",
            "jnz 4f",
            "mov eax, {running}",
            "xor ecx, ecx",
            "lock cmpxchg dword ptr [r13], ecx",
            "jne 3b",
            "jmp 5f",
            "4:",
            "mov dword ptr [r13], {absent}",
            "5:",
            "xor edi, edi",
            "mov eax, {exit}",
            "syscall",
            "ud2",
            "2:",
            exit = const libc::SYS_exit,
            running = const RUNNING,
            absent = const ABSENT,
            inlateout("rax") libc::SYS_clone as isize => returned,
            in("rdi") flags as usize,
            in("rsi") stack_end,
            in("rdx") helper.thread.as_ptr(),
            in("r10") 0usize,
            in("r8") 0usize,
            in("r12") work,
            in("r13") helper.state.0.as_ptr(),
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    crate::raw::check(returned).map(drop)
}

/// # Safety
/// As for [`start_helper_thread`].
#[cfg(target_arch = "aarch64")]
unsafe fn clone(
    flags: i32,
    stack_end: usize,
    helper: &'static Helper,
    work: extern "C" fn() -> bool,
) -> Result<(), Errno> {
    let returned: isize;
    // SAFETY: the new thread starts behind the system call with the new stack, of which it uses nothing above; it calls
    // `work`, which keeps x20 and x21, until no request is left or `work` returns true, and ends there: once the state is
    // `ABSENT` it uses registers alone. The old one continues as after any system call; the kernel writes the number of
    // the new thread.
    unsafe {
        core::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "3:",
            "blr x20",
            "tst w0, #255",
            "b.ne 6f",
            "4:",
            "ldaxr w9, [x21]",
            "cmp w9, {running}",
            "b.ne 5f",
            "stlxr w10, wzr, [x21]",
            "cbnz w10, 4b",
            "b 7f",
            "5:",
            "clrex",
            "b 3b",
            "6:",
            "stlr wzr, [x21]",
            "7:",
            "mov x0, xzr",
            "mov x8, {exit}",
            "svc 0",
            "brk 1",
            "2:",
            exit = const libc::SYS_exit,
            running = const RUNNING,
            in("x8") libc::SYS_clone,
            inlateout("x0") flags as isize => returned,
            in("x1") stack_end,
            in("x2") helper.thread.as_ptr(),
            in("x3") 0usize,
            in("x4") 0usize,
            in("x20") work,
            in("x21") helper.state.0.as_ptr(),
        );
    }
    crate::raw::check(returned).map(drop)
}

#[cfg(all(test, not(loom)))]
mod tests {
    extern crate std;

    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::{Duration, Instant};
    use std::{thread, vec::Vec};

    use super::{Helper, exists};
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
        static HELPER: Helper = Helper::absent();
        static RAN: AtomicU32 = AtomicU32::new(0);
        extern "C" fn work() -> bool {
            HELPER.state.begin_to_look();
            RAN.fetch_add(1, Ordering::Relaxed);
            false
        }
        let stack = address_space::map(STACK).expect("memory");
        for round in 1..=20 {
            assert!(HELPER.state.ask());
            // SAFETY: the stack is this test's, and `work` does nothing but count.
            unsafe { super::start_helper_thread(stack + STACK, &HELPER, work) }.expect("a thread");
            wait_until(|| !HELPER.state.is_present());
            assert_eq!(RAN.load(Ordering::Relaxed), round);
        }
        // SAFETY: no helper is present.
        unsafe { address_space::unmap(stack, STACK) }.expect("mapped above");
    }

    #[test]
    fn whatever_is_asked_for_is_done_though_the_helper_is_about_to_end() {
        static HELPER: Helper = Helper::absent();
        static GIVEN: AtomicU32 = AtomicU32::new(0);
        static DONE: AtomicU32 = AtomicU32::new(0);
        extern "C" fn work() -> bool {
            HELPER.state.begin_to_look();
            DONE.store(GIVEN.load(Ordering::Relaxed), Ordering::Relaxed);
            false
        }
        let stack = address_space::map(STACK).expect("memory");
        let givers: Vec<_> = (0..4)
            .map(|_| {
                thread::spawn(move || {
                    for _ in 0..2000 {
                        let given = GIVEN.fetch_add(1, Ordering::Relaxed) + 1;
                        if HELPER.state.ask() {
                            // SAFETY: the stack is this test's, and `work` does nothing but count.
                            unsafe { super::start_helper_thread(stack + STACK, &HELPER, work) }
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
        wait_until(|| !HELPER.state.is_present());
        // SAFETY: no helper is present.
        unsafe { address_space::unmap(stack, STACK) }.expect("mapped above");
    }

    /// A fork that waited for a whole period of the heap's purge took a second and more.
    #[test]
    fn a_dismissed_helper_is_no_thread_any_more() {
        static HELPER: Helper = Helper::absent();
        extern "C" fn work() -> bool {
            HELPER.state.begin_to_look();
            while !HELPER.is_dismissed() {
                HELPER.sleep(Duration::from_secs(1000));
            }
            true
        }
        let stack = address_space::map(STACK).expect("memory");
        assert!(!HELPER.dismiss(), "there was none");
        for _ in 0..50 {
            assert!(HELPER.state.ask());
            // SAFETY: the stack is this test's, and `work` only sleeps.
            unsafe { super::start_helper_thread(stack + STACK, &HELPER, work) }.expect("a thread");
            let thread = HELPER.thread.load(Ordering::Acquire);
            assert!(exists(thread));
            // A request that it does not fulfil: the next one starts another helper.
            assert!(!HELPER.state.ask());
            assert!(HELPER.dismiss());
            assert!(!exists(thread) && !HELPER.state.is_present());
        }
        // SAFETY: no helper is present.
        unsafe { address_space::unmap(stack, STACK) }.expect("mapped above");
    }

    #[test]
    fn a_helper_without_more_privileges_than_the_program_has_the_same() {
        assert_eq!(super::compare_privileges(), super::Privileges::Same);
    }
}
