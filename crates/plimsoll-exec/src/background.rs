//! The library's thread in the background: it ends the periods of the heap's purge, so that free memory of an idle program leaves
//! RAM, and the process, if no thread of the program is left.
//!
//! A heap over a pager has no helper of its own ([`Heap::end_purge_period`]). The thread is one of the C library's, as those of the
//! pager are: it touches managed memory, so the handler of faults runs on it. No handler of the program does.
//!
//! The C library ends a process when its last thread ends. It counts the library's threads, so a first thread that ends by
//! `pthread_exit(3)` would leave a process of these alone, which block all signals of the program.
#![allow(unsafe_code, reason = "the end of the process")]

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use plimsoll_lfh::Heap;

use crate::arena;
use crate::signals_blocked::SignalsBlocked;

/// The time between two looks; a period of the purge is longer.
const INTERVAL: Duration = Duration::from_millis(200);
/// Processor time of the process between two looks that counts as work of the program: the pager's threads take less.
const WORK: Duration = Duration::from_millis(1);
/// Looks after the last work until all that the program freed has returned: those of more than two periods.
const LOOKS_AFTER_WORK: u32 = 5;

/// The library's threads in this process, the pager's among them; 0 if they are not known.
static THREADS: AtomicUsize = AtomicUsize::new(0);
/// Whether the first thread has ended, or is about to.
static FIRST_HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// Starts the thread after the pager's, in a process or in a child of a fork with `others` threads of the program; not without a
/// pager. If it cannot start, slow calls of the heap end the periods.
pub(crate) fn start(others: usize) {
    if arena::arena().is_none() {
        return;
    }
    FIRST_HAS_ENDED.store(false, Ordering::Relaxed);
    let blocked = SignalsBlocked::but_faults();
    let thread = thread::Builder::new().name("plimsoll".to_owned());
    let started = thread.spawn(run);
    drop(blocked);
    if started.is_ok() {
        THREADS.store(count_threads().saturating_sub(others), Ordering::Relaxed);
    }
}

/// Notes that the first thread ends and the others go on.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "no symbol calls it"))]
pub(crate) fn note_end_of_first_thread() {
    FIRST_HAS_ENDED.store(true, Ordering::Relaxed);
}

fn run() {
    let mut work = Work::default();
    loop {
        thread::sleep(INTERVAL);
        if work.is_recent(processor_time()) {
            Heap::end_purge_period();
        }
        if FIRST_HAS_ENDED.load(Ordering::Relaxed) && is_program_over() {
            // SAFETY: no thread of the program runs; the C library ends the process so at the end of its last one.
            unsafe { libc::exit(0) };
        }
    }
}

/// Whether the library's threads are the last ones. Never without `/proc`.
fn is_program_over() -> bool {
    let own = THREADS.load(Ordering::Relaxed);
    own > 0 && count_threads() == own
}

/// The program's work, by the processor time of the process.
#[derive(Debug, Default)]
struct Work {
    /// Processor time at the last look.
    before: Duration,
    /// Looks since the last work.
    looks: u32,
}

impl Work {
    /// Whether the program may have freed memory that is not purged yet. An idle program's heap is left alone: a look at it would
    /// bring its pages back.
    fn is_recent(&mut self, now: Duration) -> bool {
        let worked = now.saturating_sub(self.before) >= WORK;
        self.before = now;
        self.looks = if worked { 0 } else { self.looks.saturating_add(1) };
        self.looks <= LOOKS_AFTER_WORK
    }
}

/// Processor time of all threads of the process.
fn processor_time() -> Duration {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the kernel writes the time, which is valid as zeroes too.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, time.as_mut_ptr());
        time.assume_init()
    };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The threads of this process that run; 0 if `/proc` is not mounted. The first thread stays listed when it has ended.
pub(crate) fn count_threads() -> usize {
    // A directory has a link per directory in it, and two of its own. To open it would take a number of descriptors that the program may
    // expect.
    let Ok(tasks) = std::fs::metadata("/proc/self/task") else {
        return 0;
    };
    let count = usize::try_from(tasks.nlink().saturating_sub(2)).unwrap_or(0);
    count.saturating_sub(usize::from(
        FIRST_HAS_ENDED.load(Ordering::Relaxed) && has_first_ended(),
    ))
}

/// Whether the first thread has ended, or has released its memory as it ends: the kernel names no program for it then. It keeps the
/// thread as a zombie until the process ends.
fn has_first_ended() -> bool {
    // The number of the process in the PID namespace of this `/proc`.
    let Ok(process) = std::fs::read_link("/proc/self") else {
        return false;
    };
    let first = Path::new("/proc/self/task").join(process).join("exe");
    std::fs::read_link(first).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_program_is_left_alone_after_its_free_memory_has_returned() {
        let mut work = Work::default();
        assert!(work.is_recent(Duration::from_millis(30)));
        let mut now = Duration::from_millis(30);
        let looks = (0..20)
            .take_while(|_| {
                now += WORK / 2;
                work.is_recent(now)
            })
            .count();
        assert_eq!(looks, LOOKS_AFTER_WORK as usize);
        assert!(work.is_recent(now + WORK));
    }

    #[test]
    fn the_threads_of_this_process_are_counted() {
        // Threads of other tests of this process begin and end meanwhile.
        let listed = || {
            std::fs::read_dir("/proc/self/task")
                .expect("there is /proc")
                .count()
        };
        let is_right = (0..1000).any(|_| {
            let before = listed();
            let counted = count_threads();
            before == counted && listed() == counted
        });
        assert!(is_right && !has_first_ended());
        assert!(processor_time() > Duration::ZERO);
    }
}
