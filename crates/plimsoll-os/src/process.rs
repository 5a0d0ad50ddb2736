//! Other processes, seen from outside through a pidfd, and this one's own bonds and cost.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::fmt;
use core::mem::MaybeUninit;

use crate::{Errno, Fd};

/// A stable reference to a process: a pid may be used again, a pidfd never means another process.
#[derive(Debug)]
pub struct Pidfd(Fd);

/// A range of a process's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Address of the first byte, a multiple of the page size.
    pub start: u64,
    /// Bytes.
    pub length: u64,
}

/// A page-out that did not reach the end of its ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageOutError {
    /// Bytes advised on before it ended.
    pub advised: u64,
    /// Why it ended.
    pub errno: Errno,
}

impl fmt::Display for PageOutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} after {} bytes", self.errno, self.advised)
    }
}

impl core::error::Error for PageOutError {}

impl Pidfd {
    /// Opens a reference to process `pid` (`pidfd_open(2)`, Linux 5.3).
    ///
    /// # Errors
    /// [`Errno::SRCH`] where there is no such process.
    pub fn open(pid: u32) -> Result<Pidfd, Errno> {
        // SAFETY: the call takes numbers and returns a new descriptor.
        let returned = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
        Errno::check(returned as c_int).map(Fd::from_call).map(Pidfd)
    }

    /// The descriptor's number, to be polled: readable when the process has ended.
    pub fn raw(&self) -> i32 {
        self.0.raw()
    }

    /// Sends signal number `signal` (`pidfd_send_signal(2)`).
    ///
    /// # Errors
    /// [`Errno::SRCH`] where the process has ended and was reaped, [`Errno::PERM`] where it is another user's.
    pub fn send_signal(&self, signal: i32) -> Result<(), Errno> {
        let no_info = core::ptr::null::<c_void>();
        // SAFETY: a null siginfo makes the kernel fill one as kill(2) does.
        let returned =
            unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.0.raw(), signal, no_info, 0) };
        Errno::check(returned as c_int).map(drop)
    }

    /// Reclaims `ranges` of the process (`process_madvise(2)` with `MADV_PAGEOUT`, Linux 5.10), at most `step` bytes a
    /// call, and calls `proceed` with the bytes done so far before each. Returns the bytes advised on: all, or fewer if
    /// `proceed` returned false.
    ///
    /// The kernel may carry out a part of a call alone; the next call requests the rest.
    ///
    /// # Errors
    /// [`Errno::PERM`] without CAP_SYS_NICE and ptrace access, [`Errno::SRCH`] when the process has ended, [`Errno::NOMEM`] for a range that is not mapped, [`Errno::INVAL`] for one not aligned to pages.
    pub fn page_out(
        &self,
        ranges: &[Range],
        step: u64,
        mut proceed: impl FnMut(u64) -> bool,
    ) -> Result<u64, PageOutError> {
        let mut advised = 0;
        for range in ranges {
            let mut done = 0;
            while done < range.length {
                if !proceed(advised) {
                    return Ok(advised);
                }
                let length = step.max(1).min(range.length - done);
                match self.advise_page_out(range.start + done, length) {
                    // No progress and no error would be asked for again for ever.
                    Ok(0) => {
                        return Err(PageOutError {
                            advised,
                            errno: Errno::INVAL,
                        });
                    }
                    Ok(bytes) => {
                        done += bytes;
                        advised += bytes;
                    }
                    Err(Errno::INTR) => {}
                    Err(errno) => return Err(PageOutError { advised, errno }),
                }
            }
        }
        Ok(advised)
    }

    fn advise_page_out(&self, start: u64, length: u64) -> Result<u64, Errno> {
        let vector = libc::iovec {
            iov_base: start as *mut c_void,
            iov_len: length as usize,
        };
        // SAFETY: the kernel reads one iovec, alive for the call; the address is one of the other process, never
        // read or written here, and MADV_PAGEOUT leaves its contents as they are.
        let returned = unsafe {
            libc::syscall(
                libc::SYS_process_madvise,
                self.0.raw(),
                &raw const vector,
                1_usize,
                libc::MADV_PAGEOUT,
                0_u32,
            )
        };
        u64::try_from(returned).map_err(|_| Errno::last())
    }
}

/// Has the kernel send signal number `signal` to this process when its parent ends
/// (`prctl(2)`, `PR_SET_PDEATHSIG`). "Parent" is the *thread* that started this process.
///
/// A parent that ended before the call is not noticed; a pipe from it, whose end then reads as closed, shows that.
///
/// # Errors
/// [`Errno::INVAL`] where there is no such signal.
pub fn set_parent_death_signal(signal: i32) -> Result<(), Errno> {
    // SAFETY: PR_SET_PDEATHSIG takes a signal number by value.
    Errno::check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong) }).map(drop)
}

/// Whose use [`resource_usage`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageScope {
    /// All threads of this process.
    Process,
    /// The calling thread.
    Thread,
}

/// The resources that a process or thread has used since its start (`getrusage(2)`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResourceUsage {
    /// CPU in user code, microseconds.
    pub user_us: u64,
    /// CPU in the kernel, microseconds.
    pub system_us: u64,
    /// Faults solved without reading a device.
    pub minor_faults: u64,
    /// Faults that read a device, swap included.
    pub major_faults: u64,
}

/// The end of a child process, and the resources of it and of those of its descendants that it waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code, where it ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The resources that they used together.
    pub usage: ResourceUsage,
    /// The largest resident size that any of them ever had, in bytes. It begins with the largest of the memory that
    /// the child had before it became another program, often that of the process that started it.
    pub max_resident: u64,
}

/// Waits until child process `pid` has ended, and releases its number (`wait4(2)`).
///
/// # Errors
/// `ECHILD` where it is no child of this process, or has been waited for.
pub fn wait(pid: u32) -> Result<Ended, Errno> {
    let mut status: c_int = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: the kernel writes one `int` and one `struct rusage` to valid places.
        let returned = unsafe { libc::wait4(pid as libc::pid_t, &raw mut status, 0, usage.as_mut_ptr()) };
        match Errno::check(returned) {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
            Ok(_) => break,
        }
    }
    // SAFETY: the call succeeded, so it was written; all zeros, which were there before, are a valid value too.
    let usage = unsafe { usage.assume_init() };
    Ok(Ended {
        code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
        signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
        usage: ResourceUsage::of(&usage),
        max_resident: usage.ru_maxrss as u64 * 1024,
    })
}

impl ResourceUsage {
    fn of(usage: &libc::rusage) -> ResourceUsage {
        let microseconds = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
        ResourceUsage {
            user_us: microseconds(usage.ru_utime),
            system_us: microseconds(usage.ru_stime),
            minor_faults: usage.ru_minflt as u64,
            major_faults: usage.ru_majflt as u64,
        }
    }
}

/// Reads the resources that this process or thread has used so far.
pub fn resource_usage(scope: UsageScope) -> ResourceUsage {
    let who = match scope {
        UsageScope::Process => libc::RUSAGE_SELF,
        UsageScope::Thread => libc::RUSAGE_THREAD,
    };
    ResourceUsage::of(&own_usage(who))
}

/// `who` is `RUSAGE_SELF` or `RUSAGE_THREAD`.
fn own_usage(who: c_int) -> libc::rusage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes one `struct rusage` to a valid place. For these two scopes it cannot fail, and all
    // zeros, which are there before, are a valid value too.
    unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    }
}
