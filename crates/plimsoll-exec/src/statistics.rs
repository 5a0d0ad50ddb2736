//! Counters of the process, written at its end to a file that `plimsoll exec` has opened: one line of JSON.

use std::fmt::Write;
use std::os::fd::IntoRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use plimsoll_os::{Errno, write_all};
use plimsoll_pager::{Pager, Stats};

use crate::arena::{self, Arena};
use crate::configuration::Statistics;
use crate::pool::{self, Outside};
use crate::trampoline;
use crate::unmanaged;

/// The number of the open file; -1 for none.
static FILE: AtomicI32 = AtomicI32::new(-1);
/// The process that started: a child of a fork does not report.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// The start of the pager.
static STARTED: OnceLock<Instant> = OnceLock::new();
/// The most bytes of contents at the looks so far.
static PEAK: AtomicU64 = AtomicU64::new(0);

/// Reports at the end of this process to `file`: to a descriptor of the library's own, since programs close standard error before
/// the report. A program that the process executes does not get it, and has a report by the settings.
pub(crate) fn start(file: Statistics) {
    let _ = STARTED.set(Instant::now());
    let own = match file {
        Statistics::Own(file) => duplicate(file).unwrap_or(file),
        // A file of the program may have its number.
        Statistics::Shared(inherited) => match pool::open(inherited) {
            Some(own) => own.into_raw_fd(),
            None => return,
        },
    };
    FILE.store(own, Ordering::Relaxed);
    PROCESS.store(plimsoll_os::this_process(), Ordering::Relaxed);
}

/// Bytes of the program's contents: in RAM, compressed, and in the page file.
fn wanted(stats: &Stats) -> u64 {
    let in_frames = stats.native_pages + stats.active_pages + stats.modified_pages;
    let trimmed = stats.standby_pages.iter().sum::<u64>();
    (in_frames + trimmed + stats.compressed_pages + stats.page_file_pages) * arena::PAGE as u64
}

/// Pages that are freed between two looks.
const LOOK_INTERVAL: u64 = 512;
/// Pages that were freed since the last look.
static FREED: AtomicU64 = AtomicU64::new(0);

/// System calls of this process that the filter trapped.
static TRAPPED: AtomicU64 = AtomicU64::new(0);

/// Counts a trapped system call.
#[cfg(target_arch = "x86_64")]
pub(crate) fn note_trapped() {
    TRAPPED.fetch_add(1, Ordering::Relaxed);
}

/// Trapped system calls so far.
pub(crate) fn trapped() -> u64 {
    TRAPPED.load(Ordering::Relaxed)
}

/// Looks at the contents before so many pages are freed, if many were since the last look: their peak is in front of that.
pub(crate) fn look_before_release(pages: usize) {
    if FILE.load(Ordering::Relaxed) < 0 {
        return;
    }
    let freed = FREED.fetch_add(pages as u64, Ordering::Relaxed) + pages as u64;
    if freed >= LOOK_INTERVAL {
        FREED.store(0, Ordering::Relaxed);
        look();
    }
}

/// Looks at the contents, for their peak.
fn look() {
    if let Some(arena) = arena::arena() {
        PEAK.fetch_max(wanted(&arena.pager.stats()), Ordering::Relaxed);
    }
}

/// The share of this process in the budget of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Share {
    name: &'static str,
    granted: u64,
}

/// Whether this process has a budget of its own, and why: 0 if not, or the number of [`Outside`] plus 1.
static OUTSIDE: AtomicU32 = AtomicU32::new(0);

/// Notes that this process is not in the pool.
pub(crate) fn note_outside(reason: Outside) {
    OUTSIDE.store(reason as u32 + 1, Ordering::Relaxed);
}

fn share(pager: &Pager) -> Share {
    let name = match OUTSIDE.load(Ordering::Relaxed) {
        0 => "none",
        number if number == Outside::Closed as u32 + 1 => "closed",
        number if number == Outside::Full as u32 + 1 => "full",
        _ => "refused",
    };
    match pager.membership() {
        Some(membership) => Share {
            name: "member",
            granted: membership.grant.bytes(),
        },
        None => Share {
            name,
            granted: pager.stats().ram,
        },
    }
}

/// The way in which faults and the program's system calls are served.
fn fault_mode() -> &'static str {
    match arena::arena().is_some_and(Arena::has_signals) {
        true => "signal",
        false => "thread",
    }
}

/// The line of counters; `seconds` is the run time.
fn line(stats: &Stats, share: Share, peak: u64, unmanaged: u64, trapped: u64, seconds: f64) -> String {
    let mut line = String::with_capacity(1024);
    let faults = stats.zero_faults + stats.soft_faults + stats.hard_faults;
    let file_error = stats.page_file.and_then(|file| file.state.errno());
    let values = [
        ("ram_bytes", stats.ram),
        ("granted_bytes", share.granted),
        ("resident_bytes", stats.resident_bytes()),
        ("wanted_bytes", wanted(stats)),
        ("peak_wanted_bytes", peak),
        ("unmanaged_bytes", unmanaged),
        ("store_bytes", stats.store_bytes),
        ("metadata_bytes", stats.metadata_bytes),
        ("native_pages", stats.native_pages),
        ("compressed_pages", stats.compressed_pages),
        ("page_file_pages", stats.page_file_pages),
        (
            "page_file_errno",
            file_error.map_or(0, |errno| u64::from(errno.raw().unsigned_abs())),
        ),
        ("faults", faults),
        ("zero_faults", stats.zero_faults),
        ("soft_faults", stats.soft_faults),
        ("hard_faults", stats.hard_faults),
        ("stream_pages", stats.stream_pages),
        ("refaults", stats.refaults),
        ("stall_us", stats.stall_us),
        ("trimmed_pages", stats.trimmed_pages),
        ("saved_pages", stats.saved_pages),
        ("refused_saves", stats.refused_saves),
        ("unmovable_pages", stats.unmovable_pages),
        ("forced_frames", stats.forced_frames),
        ("direct_reclaims", stats.direct_reclaims),
        ("trapped_calls", trapped),
    ];
    // A string takes every text.
    let mode = fault_mode();
    let _ = write!(
        line,
        "{{\"version\":1,\"pool\":\"{}\",\"fault_mode\":\"{mode}\"",
        share.name
    );
    for (name, value) in values {
        let _ = write!(line, ",\"{name}\":{value}");
    }
    let _ = writeln!(line, ",\"seconds\":{seconds:.6}}}");
    line
}

/// Writes the line, in the process that started.
pub(crate) extern "C" fn report() {
    let file = FILE.load(Ordering::Relaxed);
    let Some(arena) = arena::arena().filter(|_| file >= 0) else {
        return;
    };
    if plimsoll_os::this_process() != PROCESS.load(Ordering::Relaxed) {
        return;
    }
    look();
    let stats = arena.pager.stats();
    let text = line(
        &stats,
        share(&arena.pager),
        PEAK.load(Ordering::Relaxed),
        unmanaged::bytes_in_use(),
        trapped(),
        STARTED.get_or_init(Instant::now).elapsed().as_secs_f64(),
    );
    write(file, text.as_bytes());
}

/// Another number for an open file.
#[allow(unsafe_code, reason = "a new descriptor")]
fn duplicate(file: i32) -> Option<i32> {
    let arguments = [file as usize, libc::F_DUPFD_CLOEXEC as usize, 0, 0, 0, 0];
    // SAFETY: the call takes no memory, and the number is new.
    let own = unsafe { trampoline::call(libc::SYS_fcntl, arguments) };
    i32::try_from(own).ok().filter(|own| *own >= 0)
}

/// Closes the file in a child of a fork, which does not report: readers of a pipe would wait for its end. Returns its number.
#[allow(unsafe_code, reason = "the end of a descriptor")]
pub(crate) fn end_in_child() -> Option<i32> {
    let file = FILE.swap(-1, Ordering::Relaxed);
    // Standard error itself is the program's.
    if file <= libc::STDERR_FILENO {
        return None;
    }
    // SAFETY: the descriptor is this module's.
    unsafe { trampoline::call(libc::SYS_close, [file as usize, 0, 0, 0, 0, 0]) };
    Some(file)
}

#[allow(unsafe_code, reason = "a write to a file by its number")]
fn write(file: i32, bytes: &[u8]) {
    // The program may have closed the file: then nobody waits for the line.
    write_all(bytes, |rest| {
        let arguments = [file as usize, rest.as_ptr() as usize, rest.len(), 0, 0, 0];
        // SAFETY: the kernel reads the bytes.
        let returned = unsafe { trampoline::call(libc::SYS_write, arguments) };
        usize::try_from(returned).map_err(|_| Errno::of_number(-returned as i32))
    });
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::calls::testing::Signals;

    /// A signal interrupted the write to a full pipe, and the line was lost.
    #[test]
    fn signals_take_nothing_of_a_line() {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        // More than a pipe has room for: the write waits for the reader.
        let line = vec![b'7'; 1 << 20];
        let read = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            let mut read = Vec::new();
            reader.read_to_end(&mut read).map(|_| read)
        });
        let signals = Signals::to_this_thread();
        write(writer.as_raw_fd(), &line);
        drop((signals, writer));
        assert!(read.join().expect("a reader").expect("a pipe") == line);
    }

    #[test]
    fn the_line_is_one_object() {
        let mut stats = Stats::default();
        stats.compressed_pages = 2;
        stats.standby_pages[5] = 1;
        let share = Share {
            name: "member",
            granted: 9,
        };
        let line = line(&stats, share, 5, 6, 7, 1.25);
        assert!(line.starts_with("{\"version\":1,") && line.ends_with(",\"seconds\":1.250000}\n"));
        assert!(line.contains("\"wanted_bytes\":12288,") && line.contains("\"peak_wanted_bytes\":5,"));
        assert!(line.contains("\"page_file_errno\":0,"));
        assert_eq!(line.lines().count(), 1);
    }
}
