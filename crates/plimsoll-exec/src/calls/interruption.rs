//! Signals between the trap of a call and the call itself.
//!
//! The kernel interrupts a call that waits. A signal that comes while the memory of the call is pinned would run its handler and be
//! over, and the call would wait, maybe for ever. So signals are blocked from the trap on (those of faults are not), and
//! [`make`] looks at those that have come meanwhile:
//!
//! | the signal | the call |
//! |---|---|
//! | has no handler, or its handler restarts such a call | is made when the handler has run |
//! | interrupts the call, which is of a file that is ready | is made; a stream gets no more than it has room for |
//! | interrupts the call, which would wait, or may wait for something else than a file | is not made: `EINTR` |
//!
//! The mask of the program applies from before the call to its end: the call is interrupted as ever, and `sigsuspend` and its
//! like find the mask that they change. Between the mask and the call are as few instructions as in a program without the library.
//!
//! # Limits
//! - A signal for the process goes to another thread that does not block it.
//! - The opening of a FIFO, `connect`, `sendfile`, `splice` and `ioctl` are not interrupted early, nor is a handler with SA_RESTART
//!   seen by a socket with a time limit (`SO_RCVTIMEO`), whose calls the kernel does not restart.
#![allow(unsafe_code, reason = "the signal mask of the thread, and system calls")]

use std::mem::MaybeUninit;

use super::Call;
use super::chunked;
use super::memory;
use crate::signals_blocked::{self, SignalsBlocked};
use crate::trampoline;

/// The result of a call that a signal has interrupted.
const INTERRUPTED: isize = -(libc::EINTR as isize);
/// Bytes that a stream takes without a wait if it is ready: `PIPE_BUF`.
const ROOM: usize = 4096;
/// `futex_wait(2)` of Linux 6.7.
const FUTEX_WAIT: i64 = 455;

/// The way in which a call may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// Not at all, or no signal with a handler ends the wait.
    Never,
    /// Until bytes have come to a file, or a connection. The second value is the argument with the flags of messages.
    ToRead(Option<usize>),
    /// Until a file takes bytes.
    ToWrite(Option<usize>),
    /// For something else. A handler with SA_RESTART restarts it, or no handler does.
    ForOther { restarts: bool },
}

/// The way in which a call may wait.
fn wait_of(number: i64, arguments: &[usize; 6]) -> Wait {
    let unless = |is_short: bool, wait| if is_short { Wait::Never } else { wait };
    let has_flag = |argument: usize, flag: i32| arguments[argument] as i32 & flag != 0;
    match number {
        libc::SYS_read | libc::SYS_readv | libc::SYS_preadv2 | libc::SYS_accept | libc::SYS_accept4 => {
            Wait::ToRead(None)
        }
        libc::SYS_recvfrom => Wait::ToRead(Some(3)),
        libc::SYS_recvmsg => Wait::ToRead(Some(2)),
        libc::SYS_vmsplice if chunked::is_read_only(arguments[0]) => Wait::ToRead(None),
        libc::SYS_write | libc::SYS_writev | libc::SYS_pwritev2 | libc::SYS_vmsplice => Wait::ToWrite(None),
        libc::SYS_sendto => Wait::ToWrite(Some(3)),
        libc::SYS_sendmsg => Wait::ToWrite(Some(2)),
        libc::SYS_wait4 => unless(has_flag(2, libc::WNOHANG), Wait::ForOther { restarts: true }),
        libc::SYS_waitid => unless(has_flag(3, libc::WNOHANG), Wait::ForOther { restarts: true }),
        libc::SYS_fcntl => unless(
            !matches!(arguments[1] as i32, libc::F_SETLKW | libc::F_OFD_SETLKW),
            Wait::ForOther { restarts: true },
        ),
        libc::SYS_mq_timedsend | libc::SYS_mq_timedreceive => Wait::ForOther { restarts: true },
        libc::SYS_poll | libc::SYS_epoll_wait | libc::SYS_epoll_pwait => {
            let timeout = if number == libc::SYS_poll { 2 } else { 3 };
            unless(arguments[timeout] as i32 == 0, Wait::ForOther { restarts: false })
        }
        libc::SYS_ppoll
        | libc::SYS_select
        | libc::SYS_pselect6
        | libc::SYS_epoll_pwait2
        | libc::SYS_nanosleep
        | libc::SYS_clock_nanosleep
        | libc::SYS_rt_sigtimedwait
        | libc::SYS_rt_sigsuspend => Wait::ForOther { restarts: false },
        libc::SYS_semop | libc::SYS_semtimedop => Wait::ForOther { restarts: false },
        libc::SYS_msgsnd => unless(has_flag(3, libc::IPC_NOWAIT), Wait::ForOther { restarts: false }),
        libc::SYS_msgrcv => unless(has_flag(4, libc::IPC_NOWAIT), Wait::ForOther { restarts: false }),
        libc::SYS_futex => match arguments[1] as i32 & 0x7f {
            libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => Wait::ForOther {
                restarts: arguments[3] == 0,
            },
            _ => Wait::Never,
        },
        libc::SYS_futex_waitv => Wait::ForOther {
            restarts: arguments[3] == 0,
        },
        FUTEX_WAIT => Wait::ForOther {
            restarts: arguments[4] == 0,
        },
        _ => Wait::Never,
    }
}

/// Whether a signal may end the call, while it waits.
pub(super) fn may_wait(call: &Call) -> bool {
    wait_of(call.number, &call.arguments) != Wait::Never
}

/// Makes a call with the mask of the program, while this thread blocks all signals but those of faults.
///
/// # Safety
/// The program asked for the effects of the call.
pub(super) unsafe fn make(call: &Call, mask: u64, arguments: [usize; 6]) -> isize {
    #[cfg(test)]
    super::testing::run_hook();
    let arguments_of_call = arguments;
    let arguments = match wait_of(call.number, &arguments) {
        Wait::Never => Some(arguments),
        wait => {
            let restarts = wait != Wait::ForOther { restarts: false };
            match has_come(mask, restarts) {
                true => without_wait(call.number, wait, arguments),
                false => Some(arguments),
            }
        }
    };
    // The handlers run here.
    signals_blocked::set(mask);
    let result = match arguments {
        // SAFETY: the caller's premise. A transfer of fewer bytes is one that the program has to expect.
        Some(arguments) => unsafe { trampoline::call(call.number, arguments) },
        None => {
            note_rest(call.number, &arguments_of_call);
            INTERRUPTED
        }
    };
    // Another piece may follow, and a signal interrupts that one too.
    signals_blocked::set(mask | SignalsBlocked::BUT_FAULTS);
    result
}

/// States that all of a sleep remains, which has not begun.
fn note_rest(number: i64, arguments: &[usize; 6]) {
    let [first, second, third, fourth, ..] = *arguments;
    let (time, rest) = match number {
        libc::SYS_nanosleep => (first, second),
        libc::SYS_clock_nanosleep if second as i32 & libc::TIMER_ABSTIME == 0 => (third, fourth),
        _ => return,
    };
    if rest != 0
        && let Ok(time) = memory::read::<[u64; 2]>(time)
    {
        // SAFETY: the program expects the time there. It cannot be told otherwise that it has no right to write.
        let _ = unsafe { memory::write(rest, &time) };
    }
}

/// Whether a signal has come that the mask lets through, and whose handler interrupts calls: also those that SA_RESTART restarts,
/// if `restarts`.
fn has_come(mask: u64, restarts: bool) -> bool {
    let mut pending = 0u64;
    let arguments = [(&raw mut pending) as usize, size_of::<u64>(), 0, 0, 0, 0];
    // SAFETY: the kernel writes the set.
    unsafe { trampoline::call(libc::SYS_rt_sigpending, arguments) };
    let mut come = pending & !mask;
    while come != 0 {
        let signal = come.trailing_zeros() as usize + 1;
        if interrupts(signal, restarts) {
            return true;
        }
        come &= come - 1;
    }
    false
}

/// The kernel's `struct sigaction`.
#[repr(C)]
struct Action {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

fn interrupts(signal: usize, restarts: bool) -> bool {
    let mut action = MaybeUninit::<Action>::zeroed();
    let arguments = [signal, 0, action.as_mut_ptr() as usize, size_of::<u64>(), 0, 0];
    // SAFETY: the kernel writes the structure, which is valid as zeroes too.
    let action = unsafe {
        trampoline::call(libc::SYS_rt_sigaction, arguments);
        action.assume_init()
    };
    let has_handler = !matches!(action.handler, libc::SIG_DFL | libc::SIG_IGN);
    has_handler && !(restarts && action.flags & libc::SA_RESTART as u64 != 0)
}

/// The arguments of the call, so that it does not wait; none if it would.
fn without_wait(number: i64, wait: Wait, mut arguments: [usize; 6]) -> Option<[usize; 6]> {
    let (events, flags) = match wait {
        Wait::Never => return Some(arguments),
        Wait::ForOther { .. } => return None,
        Wait::ToRead(flags) => (libc::POLLIN, flags),
        Wait::ToWrite(flags) => (libc::POLLOUT, flags),
    };
    let file = arguments[0];
    let is_single = flags.is_some_and(|flags| arguments[flags] as i32 & libc::MSG_DONTWAIT != 0);
    if is_single || chunked::does_not_block(file) {
        return Some(arguments);
    }
    if !is_ready(file, events) {
        return None;
    }
    if events == libc::POLLIN {
        if let Some(flags) = flags {
            arguments[flags] &= !(libc::MSG_WAITALL as usize);
        }
        return Some(arguments);
    }
    if !chunked::takes_parts(file) {
        return Some(arguments);
    }
    // The rest of a longer transfer would wait.
    match number {
        libc::SYS_write | libc::SYS_sendto => {
            arguments[2] = arguments[2].min(ROOM);
            Some(arguments)
        }
        _ => None,
    }
}

/// Whether a transfer of the file returns at once, maybe by an error.
fn is_ready(file: usize, events: i16) -> bool {
    let mut entry = libc::pollfd {
        fd: file as i32,
        events,
        revents: 0,
    };
    // A signal of the C library or of a fault, which are not blocked here, interrupts the call even though it does not wait.
    // SAFETY: the kernel writes the entry, and does not wait.
    unsafe { trampoline::call(libc::SYS_poll, [(&raw mut entry) as usize, 1, 0, 0, 0, 0]) > 0 }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::super::testing::{INTERRUPTING, Pages, RESTARTING, Signals, install_handlers, while_pinned};
    use super::*;

    /// Serves a call to which `signal` comes when its memory is there.
    fn serve_with(signal: i32, number: i64, arguments: [usize; 6]) -> isize {
        install_handlers();
        // SAFETY: the signal has a handler.
        let _hook = while_pinned(move || unsafe { assert_eq!(libc::raise(signal), 0) });
        // SAFETY: the kernel reads and writes the test's memory.
        unsafe { super::super::serve(Call::new(number, arguments)) }
    }

    /// Ends a wait that nothing interrupts: the test fails and does not hang.
    fn write_late(writer: std::io::PipeWriter) {
        thread::spawn(move || {
            use std::io::Write;
            thread::sleep(Duration::from_millis(500));
            (&writer).write_all(b"late").expect("a reader");
        });
    }

    #[test]
    fn a_signal_while_memory_is_pinned_interrupts_a_read_that_would_wait() {
        let pages = Pages::of_arena(4);
        let (reader, writer) = std::io::pipe().expect("a pipe");
        write_late(writer);
        let arguments = [reader.as_raw_fd() as usize, pages.start(), 8192, 0, 0, 0];
        assert_eq!(serve_with(INTERRUPTING, libc::SYS_read, arguments), INTERRUPTED);
        assert_eq!(serve_with(RESTARTING, libc::SYS_read, arguments), 4, "SA_RESTART");
    }

    #[test]
    fn a_read_that_need_not_wait_is_made() {
        use std::io::Write;
        let pages = Pages::of_arena(4);
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        writer.write_all(b"here").expect("room");
        let arguments = [reader.as_raw_fd() as usize, pages.start(), 8192, 0, 0, 0];
        assert_eq!(serve_with(INTERRUPTING, libc::SYS_read, arguments), 4);
        assert_eq!(pages.bytes(0, 4), b"here");
    }

    /// `poll` returned `EINTR`, which counted as ready: the read was made, and waited although its signal had come.
    #[test]
    fn a_signal_makes_no_file_ready() {
        install_handlers();
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        let _signals = Signals::to_this_thread();
        let (before, start) = (Signals::handled(), Instant::now());
        let mut looks = 0;
        while Signals::handled() < before + 2_000 {
            assert!(start.elapsed() < Duration::from_secs(60), "no signals");
            assert!(
                !is_ready(reader.as_raw_fd() as usize, libc::POLLIN),
                "after {looks} looks"
            );
            looks += 1;
        }
    }

    /// The end of a pipe for reads is never ready for a write.
    #[test]
    fn a_splice_from_a_pipe_that_need_not_wait_is_made() {
        use std::io::Write;
        let pages = Pages::of_arena(2);
        let buffer = pages.start() + 4096;
        pages.fill(0, &[buffer.to_ne_bytes(), 4096usize.to_ne_bytes()].concat());
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        writer.write_all(b"here").expect("room");
        let arguments = [reader.as_raw_fd() as usize, pages.start(), 1, 0, 0, 0];
        assert_eq!(serve_with(INTERRUPTING, libc::SYS_vmsplice, arguments), 4);
        assert_eq!(pages.bytes(4096, 4), b"here");
    }

    #[test]
    fn a_write_to_a_pipe_takes_no_more_than_there_is_room_for() {
        let pages = Pages::of_arena(1024);
        let (reader, writer) = std::io::pipe().expect("a pipe");
        // The reader goes away late: a write that waits ends by an error.
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(500));
            drop(reader);
        });
        let bytes = 3 << 20;
        let arguments = [writer.as_raw_fd() as usize, pages.start(), bytes, 0, 0, 0];
        assert_eq!(
            serve_with(INTERRUPTING, libc::SYS_write, arguments),
            ROOM as isize
        );
        let arguments = [writer.as_raw_fd() as usize, pages.start(), 60 << 10, 0, 0, 0];
        let mut rest = 64 << 10;
        while rest > 0 {
            match serve_with(INTERRUPTING, libc::SYS_write, arguments) {
                INTERRUPTED => break,
                written => rest -= written,
            }
        }
        assert!(rest <= ROOM as isize, "{rest}");
    }

    #[test]
    fn waits_that_nothing_restarts_are_interrupted_by_any_handler() {
        let pages = Pages::of_arena(1);
        pages.fill(0, &[0u64.to_ne_bytes(), 200_000_000u64.to_ne_bytes()].concat());
        let sleep = [pages.start(), 0, 0, 0, 0, 0];
        assert_eq!(serve_with(RESTARTING, libc::SYS_nanosleep, sleep), INTERRUPTED);
        let with_rest = [pages.start(), pages.start() + 32, 0, 0, 0, 0];
        assert_eq!(
            serve_with(RESTARTING, libc::SYS_nanosleep, with_rest),
            INTERRUPTED
        );
        assert_eq!(
            pages.bytes(32, 16),
            pages.bytes(0, 16),
            "all of the sleep remains"
        );
        pages.fill(64, &[0; 16]);
        let wait = [
            pages.start() + 64,
            libc::FUTEX_WAIT as usize,
            0,
            pages.start(),
            0,
            0,
        ];
        assert_eq!(serve_with(INTERRUPTING, libc::SYS_futex, wait), INTERRUPTED);
        let poll = |timeout| [pages.start() + 64, 0, timeout, 0, 0, 0];
        assert_eq!(serve_with(INTERRUPTING, libc::SYS_poll, poll(200)), INTERRUPTED);
        assert_eq!(serve_with(INTERRUPTING, libc::SYS_poll, poll(0)), 0);
    }

    #[test]
    fn signals_that_the_program_blocks_or_ignores_interrupt_nothing() {
        install_handlers();
        let only = 1u64 << (INTERRUPTING - 1);
        let _blocked = SignalsBlocked::new();
        // SAFETY: the signal has a handler, and stays blocked till the end of the thread.
        unsafe { assert_eq!(libc::raise(INTERRUPTING), 0) };
        assert!(has_come(!only, false) && has_come(0, true));
        assert!(!has_come(only, false) && !has_come(u64::MAX, true));
        assert!(!interrupts(libc::SIGTERM as usize, false), "the default action");
    }

    /// Signals of faults were unblocked after a call.
    #[test]
    fn a_signal_of_faults_that_the_program_blocks_does_not_come() {
        install_handlers();
        let blocked = SignalsBlocked::new();
        // SAFETY: the signal is blocked, and ends the process if it comes.
        unsafe { assert_eq!(libc::raise(libc::SIGFPE), 0) };
        let pages = Pages::of_arena(1);
        serve_with(RESTARTING, libc::SYS_getcwd, [pages.start(), 4096, 0, 0, 0, 0]);
        let set = 1u64 << (libc::SIGFPE - 1);
        let taken = [(&raw const set) as usize, 0, 0, 8, 0, 0];
        // SAFETY: the kernel reads the set.
        let taken = unsafe { trampoline::call(libc::SYS_rt_sigtimedwait, taken) };
        assert_eq!(taken, libc::SIGFPE as isize);
        drop(blocked);
    }

    #[test]
    fn the_mask_of_the_program_is_back_after_a_call() {
        install_handlers();
        let mask = || {
            let mut mask = 0u64;
            let arguments = [0, 0, (&raw mut mask) as usize, 8, 0, 0];
            // SAFETY: the kernel writes the mask.
            unsafe { trampoline::call(libc::SYS_rt_sigprocmask, arguments) };
            mask
        };
        let before = mask();
        let pages = Pages::of_arena(1);
        serve_with(RESTARTING, libc::SYS_getcwd, [pages.start(), 4096, 0, 0, 0, 0]);
        assert_eq!(mask(), before);
    }
}
