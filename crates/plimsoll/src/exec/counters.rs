//! A file in memory for the counters of a program's processes: each writes a line of JSON at its end.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;

use rustix::fs::{MemfdFlags, OFlags, SeekFrom, fcntl_setfl, memfd_create, seek};
use serde::Deserialize;

use super::inherited::Inherited;

/// Bytes of lines that are read: a program may write to the file too.
const MOST_READ: u64 = 64 << 20;

/// The file, whose descriptor the program inherits. As text, it is `DESCRIPTOR,FILE`.
#[derive(Debug)]
pub struct CountersFile(Inherited);

/// The counters of the processes that have ended and left some.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counters {
    /// The lines as they were written.
    pub text: String,
    /// Of these many processes.
    pub processes: u64,
    /// The most bytes of contents of one process: in RAM, compressed, and in the page file.
    pub peak_wanted: u64,
    /// The most bytes of contents that one process had in the store alone at its end, and in the page file alone.
    pub compressed: u64,
    pub page_file: u64,
    /// Sums over the processes.
    pub refaults: u64,
    pub stall_us: u64,
    pub trimmed_pages: u64,
    pub saved_pages: u64,
}

/// The part of a line that is read.
#[derive(Deserialize)]
struct Line {
    peak_wanted_bytes: u64,
    compressed_pages: u64,
    page_file_pages: u64,
    refaults: u64,
    stall_us: u64,
    trimmed_pages: u64,
    saved_pages: u64,
}

impl CountersFile {
    /// Makes an empty file.
    ///
    /// # Errors
    /// No descriptor or memory is left.
    pub fn make() -> io::Result<CountersFile> {
        let file = memfd_create("plimsoll-counters", MemfdFlags::CLOEXEC)?;
        // A process that has opened it again writes after the lines of the others.
        fcntl_setfl(&file, OFlags::APPEND)?;
        Inherited::of(&file).map(CountersFile)
    }

    /// The counters so far.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self) -> io::Result<Counters> {
        let file = File::from(self.0.as_fd().try_clone_to_owned()?);
        seek(&file, SeekFrom::Start(0))?;
        let mut bytes = Vec::new();
        file.take(MOST_READ).read_to_end(&mut bytes)?;
        Ok(Counters::of(String::from_utf8_lossy(&bytes).into_owned()))
    }
}

impl fmt::Display for CountersFile {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(to)
    }
}

impl Counters {
    /// The sums over lines. A line of another form, which a program may have written, does not count.
    fn of(text: String) -> Counters {
        let lines: Vec<Line> = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let sum = |of: fn(&Line) -> u64| lines.iter().map(of).fold(0, u64::saturating_add);
        let most = |of: fn(&Line) -> u64| lines.iter().map(of).max().unwrap_or(0);
        let page = plimsoll_pager::page::PAGE_SIZE as u64;
        Counters {
            processes: lines.len() as u64,
            peak_wanted: most(|line| line.peak_wanted_bytes),
            compressed: most(|line| line.compressed_pages).saturating_mul(page),
            page_file: most(|line| line.page_file_pages).saturating_mul(page),
            refaults: sum(|line| line.refaults),
            stall_us: sum(|line| line.stall_us),
            trimmed_pages: sum(|line| line.trimmed_pages),
            saved_pages: sum(|line| line.saved_pages),
            text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_program_do_not_count_and_overflow_nothing() {
        let line = |wanted: u64, others: u64| {
            format!(
                "{{\"version\":1,\"peak_wanted_bytes\":{wanted},\"compressed_pages\":{others},\"page_file_pages\":1,\
                 \"refaults\":{others},\"stall_us\":3,\"trimmed_pages\":{others},\"saved_pages\":2}}\n"
            )
        };
        let text = format!("{}no line\n{{}}\n\u{fffd}\n{}", line(7, u64::MAX), line(9, 5));
        let counters = Counters::of(text);
        assert_eq!((counters.processes, counters.peak_wanted), (2, 9));
        assert_eq!((counters.refaults, counters.compressed), (u64::MAX, u64::MAX));
        assert_eq!(
            (counters.stall_us, counters.saved_pages, counters.page_file),
            (6, 4, 4096)
        );
    }

    #[test]
    fn the_file_holds_what_all_writers_appended() {
        use std::io::Write;
        let counters = CountersFile::make().expect("memory files are allowed");
        for _ in 0..2 {
            let file = counters.0.as_fd().try_clone_to_owned().expect("a number is free");
            File::from(file).write_all(b"one\n").expect("written");
            assert_eq!(counters.read().expect("readable").processes, 0);
        }
        assert_eq!(counters.read().expect("readable").text, "one\none\n");
    }
}
