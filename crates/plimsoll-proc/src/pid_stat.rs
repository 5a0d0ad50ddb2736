//! `/proc/PID/stat` (`proc_pid_stat(5)`): state, faults, CPU time and start of a process.

use std::borrow::Cow;
use std::io;
use std::os::fd::OwnedFd;

use super::fields::{number, words};
use super::folder::{self, Folder};

/// Microseconds of one tick of the clock that the file counts in, which is 100 Hz on every Linux (USER_HZ).
pub const CLOCK_TICK_US: i64 = 10_000;

/// The flag of kernel threads in the field `flags` (PF_KTHREAD, `include/linux/sched.h`).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The flag of processes that have begun to exit (PF_EXITING).
const EXITING: u64 = 0x4;

/// The name of the file.
const NAME: &str = "stat";

/// Fields of the file. Borrows the name; parsing does not allocate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PidStat<'a> {
    /// Name, at most 15 bytes, as it is; the kernel writes a line feed in it as `\n`.
    pub name: &'a [u8],
    /// State letter: `R`, `S`, `D`, `T`, `Z`, ...
    pub state: char,
    /// Process id of the parent; 0 for none that can be seen.
    pub parent: u32,
    /// Session that it belongs to; 0 for one outside of the pid namespace.
    pub session: u32,
    /// Whether it is in the foreground process group of its terminal.
    pub in_foreground: bool,
    /// Whether it is a thread of the kernel.
    pub kernel_thread: bool,
    /// Whether it has begun to exit: cgroup v1 then shows the root in place of its cgroup.
    pub exiting: bool,
    /// Faults that were served without waiting for a device.
    pub minor_faults: u64,
    /// Faults that had to read.
    pub major_faults: u64,
    /// CPU time in user mode, in microseconds, in steps of 10 ms.
    pub user_us: u64,
    /// CPU time in the kernel, likewise.
    pub system_us: u64,
    /// CPU time of the children that it has waited for, with theirs, likewise.
    pub reaped_us: u64,
    pub threads: u64,
    /// Start in clock ticks since boot.
    pub start_ticks: u64,
    /// Resident pages. Kernels since 6.2 count these roughly: off by up to some pages a CPU.
    pub resident_pages: u64,
}

impl<'a> PidStat<'a> {
    /// Parses the text of the file. None when it is not such a text.
    pub fn parse(text: &'a [u8]) -> Option<PidStat<'a>> {
        // The name may hold anything, parentheses, spaces and line feeds too; the fields after it hold no parenthesis.
        let open = text.iter().position(|&byte| byte == b'(')?;
        let close = text.iter().rposition(|&byte| byte == b')')?;
        let name = text.get(open + 1..close)?;
        let mut fields = [None; 22];
        let mut rest = words(&text[close + 1..]);
        let state = char::from(*rest.next()?.first()?);
        for (slot, word) in fields[1..].iter_mut().zip(rest) {
            *slot = number(word).map(i64::unsigned_abs);
        }
        // Numbered as in the manual page, where the state is the third.
        let field = |number: usize| fields[number - 3];
        let us = |number: usize| field(number)?.checked_mul(CLOCK_TICK_US as u64);
        let has_terminal = field(7)? != 0;
        Some(PidStat {
            name,
            state,
            parent: u32::try_from(field(4)?).ok()?,
            session: u32::try_from(field(6)?).ok()?,
            in_foreground: has_terminal && field(5)? == field(8)?,
            kernel_thread: field(9)? & KERNEL_THREAD != 0,
            exiting: field(9)? & EXITING != 0,
            minor_faults: field(10)?,
            major_faults: field(12)?,
            user_us: us(14)?,
            system_us: us(15)?,
            reaped_us: us(16)?.checked_add(us(17)?)?,
            threads: field(20)?,
            start_ticks: field(22)?,
            resident_pages: field(24)?,
        })
    }

    /// Reads the file of the process that has the number `pid` now, into `buffer`.
    ///
    /// # Errors
    /// `NotFound` when there is none, `InvalidData` when the file is not as it should be, and an error of the system
    /// when it cannot be read.
    pub fn read(pid: u32, buffer: &'a mut Vec<u8>) -> io::Result<PidStat<'a>> {
        PidStatFile::open(pid)?.read(buffer)
    }

    /// The name as text, with U+FFFD for invalid UTF-8.
    pub fn name_text(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.name)
    }

    /// Whether a signal or a debugger has stopped it.
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    /// Whether it still runs. A zombie does not: it holds nothing but its number.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }
}

/// The open file. Like a [`Folder`], it belongs to the process, not to its number. It takes fewer calls than the file of a
/// folder.
#[derive(Debug)]
pub struct PidStatFile {
    pid: u32,
    file: OwnedFd,
}

impl PidStatFile {
    /// Opens that of the process that has the number `pid` now.
    ///
    /// # Errors
    /// `NotFound` when there is none, and an error of the system when it cannot be opened.
    pub fn open(pid: u32) -> io::Result<PidStatFile> {
        let file = folder::open_file(pid, NAME)?;
        Ok(PidStatFile { pid, file })
    }

    /// Reads it into `buffer`, as it is now.
    ///
    /// # Errors
    /// As [`PidStat::read`]; `NotFound` when the process has ended meanwhile.
    pub fn read<'b>(&self, buffer: &'b mut Vec<u8>) -> io::Result<PidStat<'b>> {
        let text = folder::read_file(&self.file, NAME, buffer)?;
        PidStat::parse(text).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("/proc/{}/stat is not as it should be", self.pid),
            )
        })
    }

    /// Opens the folder of its process.
    ///
    /// # Errors
    /// `NotFound` when the process has ended, whichever process has its number now.
    pub fn folder(&self) -> io::Result<Folder> {
        let folder = Folder::open(self.pid)?;
        // A process whose file can be read still has its number, and so had it when the folder was opened.
        folder::check_alive(&self.file)?;
        Ok(folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_and_its_folder_are_of_one_process() {
        let mut child = plimsoll_testkit::command("sleep").arg("60").spawn().unwrap();
        let mut file = PidStatFile::open(child.id()).unwrap();
        let mut buffer = Vec::new();
        let start = file.read(&mut buffer).unwrap().start_ticks;
        let folder = file.folder().unwrap();
        let text = folder.read("stat", &mut buffer).unwrap();
        assert_eq!(PidStat::parse(text).unwrap().start_ticks, start);
        assert_eq!(file.read(&mut buffer).unwrap().start_ticks, start, "read again");
        child.kill().unwrap();
        child.wait().unwrap();
        let ended = file.read(&mut buffer).unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::NotFound);
        // As if its number were this process's.
        file.pid = std::process::id();
        assert_eq!(file.folder().unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
