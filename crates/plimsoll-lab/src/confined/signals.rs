//! The signals of a supervisor: it takes each from the kernel instead of being interrupted, and passes it on.
#![allow(unsafe_code, reason = "sigwaitinfo(2), which has no safe interface here")]

use std::io;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::thread;
use std::time::Duration;

use libc::c_int;
use plimsoll_os::Pidfd;
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitIdStatus, waitid};

/// The highest signal number of Linux.
const LAST: c_int = 64;

/// Signals that are not taken: those that no process can block, those of this process's own errors, and those that stop
/// it with the program, when the terminal stops both.
const LEFT: [c_int; 13] = [
    libc::SIGKILL,
    libc::SIGSTOP,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
    libc::SIGPIPE,
];

/// Signals that [`block_except`] leaves, as their default action does not end a process and a monitor may handle them.
const HARMLESS: [c_int; 3] = [libc::SIGCHLD, libc::SIGWINCH, libc::SIGCONT];

/// Signals by which a program stops itself for a shell.
const STOPS: [c_int; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// How long a stopped program is looked at again: the shell may continue it and this process one after the other.
const SETTLED: Duration = Duration::from_millis(20);

/// A signal that this process got.
struct Taken {
    number: c_int,
    /// The process that sent it; `None` for the kernel.
    sender: Option<u32>,
}

/// Blocks the signals that [`supervise`] takes.
pub(super) fn block() -> io::Result<()> {
    set_mask(libc::SIG_BLOCK, &taken())
}

/// Blocks the signals that would end this process, except those in `handled` and those of its own errors. The program gets the
/// caller's mask back. To be called on the main thread, before any other thread is started.
///
/// # Errors
/// The mask cannot be set.
pub fn block_except(handled: &[c_int]) -> io::Result<()> {
    let mut set = taken();
    for signal in handled.iter().chain(&HARMLESS) {
        // SAFETY: the set is initialised.
        unsafe { libc::sigdelset(&raw mut set, *signal) };
    }
    set_mask(libc::SIG_BLOCK, &set)
}

/// Waits until the child `pid` has ended, without reaping it. Signals that other processes send to this one are passed on
/// to it. Those of the kernel are not: the kernel sends the keys of a terminal to all processes of the group.
pub(super) fn supervise(pid: u32, process: &Pidfd) -> io::Result<()> {
    loop {
        match status(pid)? {
            Status::Ended => return Ok(()),
            Status::Stopped(signal) if STOPS.contains(&signal) => stop_too(pid)?,
            Status::Stopped(_) | Status::Running => {}
        }
        let signal = take()?;
        let is_foreign = signal.sender.is_some_and(|sender| sender != pid);
        if signal.number != libc::SIGCHLD && is_foreign {
            // The program may have ended meanwhile.
            let _ = process.send_signal(signal.number);
        }
    }
}

/// Ends this process by a signal, as the program ended, so that its caller sees the same. Returns where that cannot be.
pub fn end_by(signal: i32) {
    // One core dump is enough: that of the program.
    // SAFETY: takes numbers alone.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
    // SAFETY: SIG_DFL replaces any handler, and runs no code of this process.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    let mut one = empty();
    // SAFETY: the set is initialised.
    unsafe { libc::sigaddset(&raw mut one, signal) };
    let _ = set_mask(libc::SIG_UNBLOCK, &one);
    // SAFETY: takes numbers alone.
    unsafe { libc::raise(signal) };
}

enum Status {
    Running,
    /// By this signal.
    Stopped(c_int),
    Ended,
}

fn status(pid: u32) -> io::Result<Status> {
    let id = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let id = id.ok_or(io::ErrorKind::InvalidInput)?;
    let options =
        WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    loop {
        match waitid(WaitId::Pid(id), options) {
            Ok(found) => return Ok(found.map_or(Status::Running, |found| of_status(&found))),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn of_status(found: &WaitIdStatus) -> Status {
    match found.stopping_signal() {
        Some(signal) if found.stopped() => Status::Stopped(signal),
        _ => Status::Ended,
    }
}

/// Stops this process as the program stopped, so that a shell sees it.
fn stop_too(pid: u32) -> io::Result<()> {
    thread::sleep(SETTLED);
    if matches!(status(pid)?, Status::Stopped(_)) {
        // SAFETY: takes numbers alone.
        unsafe { libc::raise(libc::SIGSTOP) };
    }
    Ok(())
}

/// Waits for one of the blocked signals.
fn take() -> io::Result<Taken> {
    let set = taken();
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    loop {
        // SAFETY: the set is initialised, and the kernel writes the information to a valid place.
        let number = unsafe { libc::sigwaitinfo(&raw const set, info.as_mut_ptr()) };
        if number > 0 {
            // SAFETY: the kernel wrote it.
            let info = unsafe { info.assume_init() };
            return Ok(Taken {
                number,
                sender: sender(&info),
            });
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn sender(info: &libc::siginfo_t) -> Option<u32> {
    // Those of processes are 0 or below.
    if info.si_code > 0 {
        return None;
    }
    // SAFETY: a signal of a process has the number of the process.
    let pid = unsafe { info.si_pid() };
    u32::try_from(pid).ok()
}

/// The signals to take.
fn taken() -> libc::sigset_t {
    let mut set = empty();
    for signal in (1..=LAST).filter(|signal| !LEFT.contains(signal)) {
        // SAFETY: the set is initialised. The call refuses the C library's own signals.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    set
}

fn empty() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the call initialises the set.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}

fn set_mask(how: c_int, set: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: the set is initialised, and the previous mask is not asked for.
    match unsafe { libc::pthread_sigmask(how, set, null_mut()) } {
        0 => Ok(()),
        number => Err(io::Error::from_raw_os_error(number)),
    }
}
