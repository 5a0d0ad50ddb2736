//! Whether a process still runs, by its number and its start (`/proc/PID/stat`, `proc_pid_stat(5)`). No call touches
//! `errno`. It parses the file itself, as `plimsoll-proc` depends on this crate and allocates.

use core::ffi::CStr;

use crate::Errno;
use crate::kernel_file::read_file;

/// The life of the process that has a number now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessLife {
    /// Its start in clock ticks since boot, as the time namespace of the caller counts. No two processes with the same
    /// number start in the same tick of 10 ms.
    pub start_ticks: u64,
    /// A signal or a debugger stopped it.
    pub is_stopped: bool,
    /// All its threads have ended, and the kernel released its memory; only its number is in use.
    pub has_ended: bool,
}

/// Reads the life of process `pid`.
///
/// # Errors
/// `ENOENT` or [`Errno::SRCH`] if there is no such process, [`Errno::INVAL`] if the file is not in its format; others if it
/// cannot be read.
pub fn process_life(pid: u32) -> Result<ProcessLife, Errno> {
    let mut path = [0u8; PATH];
    let mut text = [0u8; LONGEST];
    let mut length = 0;
    read_file(path_of(pid, &mut path)?, |bytes| {
        let bytes = &bytes[..bytes.len().min(LONGEST - length)];
        text[length..length + bytes.len()].copy_from_slice(bytes);
        length += bytes.len();
    })?;
    parse(&text[..length]).ok_or(Errno::INVAL)
}

/// Bytes of `/proc/4294967295/stat` with the NUL, and some more.
const PATH: usize = 32;

/// More bytes than the fields up to the start have: a name of at most 64 bytes, and 20 numbers.
const LONGEST: usize = 768;

fn path_of(pid: u32, path: &mut [u8; PATH]) -> Result<&CStr, Errno> {
    let mut digits = [0u8; 10];
    let mut first = digits.len();
    let mut rest = pid;
    loop {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let mut end = 0;
    for part in [&b"/proc/"[..], &digits[first..], &b"/stat"[..]] {
        path[end..end + part.len()].copy_from_slice(part);
        end += part.len();
    }
    CStr::from_bytes_until_nul(path).map_err(|_| Errno::INVAL)
}

/// Numbers of the fields, as the manual counts them. The name before them may hold any byte, parentheses too; no field
/// after it holds one.
const STATE: usize = 3;
const THREADS: usize = 20;
const START: usize = 22;

fn parse(text: &[u8]) -> Option<ProcessLife> {
    let close = text.iter().rposition(|&byte| byte == b')')?;
    let fields = || text[close + 1..].split(|&byte| byte == b' ').skip(1);
    let number = |field: usize| {
        let digits = fields().nth(field - STATE)?;
        let digits = core::str::from_utf8(digits).ok()?;
        digits.parse::<u64>().ok()
    };
    let state = *fields().next()?.first()?;
    Some(ProcessLife {
        start_ticks: number(START)?,
        is_stopped: matches!(state, b'T' | b't'),
        // The first thread of a process may end before the others: it is a zombie then, and the process runs on.
        has_ended: matches!(state, b'Z' | b'X') && number(THREADS)? <= 1,
    })
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::process::Stdio;
    use std::string::String;

    use super::*;

    fn line(name: &str, state: char, threads: u64) -> String {
        std::format!("7 ({name}) {state} 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 {threads} 0 5511 9 10")
    }

    #[test]
    fn lives_of_stat_files() {
        let life = |text: String| parse(text.as_bytes());
        let runs = ProcessLife {
            start_ticks: 5511,
            is_stopped: false,
            has_ended: false,
        };
        assert_eq!(life(line("cat", 'S', 1)), Some(runs));
        assert_eq!(life(line("a) Z 1 (b", 'S', 1)), Some(runs));
        assert!(life(line("cat", 'T', 1)).is_some_and(|life| life.is_stopped && !life.has_ended));
        assert!(life(line("cat", 'Z', 1)).is_some_and(|life| life.has_ended));
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"7 (cat) S 1 7"), None);
        assert_eq!(parse(b"7 cat S 1 7 7 0 -1 4194560 1 2 3"), None);
    }

    /// A process whose first thread called `pthread_exit` was taken for dead, though its memory was in use.
    #[test]
    fn a_process_whose_first_thread_ended_still_runs() {
        let life = parse(line("java", 'Z', 5).as_bytes()).expect("it is a stat line");
        assert!(!life.has_ended);
    }

    #[test]
    fn a_process_lives_until_it_has_ended() {
        let own = process_life(crate::this_process()).expect("there is /proc");
        assert!(!own.has_ended && !own.is_stopped && own.start_ticks > 0);
        let mut child = plimsoll_testkit::command("cat")
            .stdin(Stdio::piped())
            .spawn()
            .expect("cat starts");
        let life = process_life(child.id()).expect("it runs");
        assert!(!life.has_ended && life.start_ticks >= own.start_ticks);
        child.kill().expect("it is a child");
        // It stays a zombie, which holds no memory, until it is waited for.
        loop {
            let life = process_life(child.id()).expect("its number is in use");
            if life.has_ended {
                break;
            }
            std::thread::yield_now();
        }
        child.wait().expect("it is a child");
        let gone = process_life(child.id()).map_err(Errno::raw);
        assert!(matches!(gone, Err(libc::ENOENT | libc::ESRCH)), "{gone:?}");
        assert_eq!(process_life(u32::MAX).map_err(Errno::raw), Err(libc::ENOENT));
    }
}
