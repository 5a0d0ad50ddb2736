//! A file in memory for the counters of a program's processes: each writes a line of JSON at its end.
//!
//! The program can forge lines: the counters are a report, not a measurement by the kernel.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;

use rustix::fs::{MemfdFlags, OFlags, SeekFrom, fcntl_setfl, memfd_create, seek};
use serde::{Deserialize, Serialize};

use super::inherited::Inherited;

/// Most bytes to read. The program can write to the file, too, so its size and contents are untrusted.
const MOST_READ: usize = 8 << 20;
/// Most bytes of a line of counters. The library writes about a kilobyte.
const LONGEST_LINE: usize = 4096;

/// The file, whose descriptor the program inherits. As text, it is `DESCRIPTOR,FILE`.
#[derive(Debug)]
pub struct CountersFile(Inherited);

/// The counters of the processes that have ended and left some.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Counters {
    /// The lines of counters.
    #[serde(skip)]
    pub text: String,
    /// Whether the file has more bytes than are read: the counters are of the first processes.
    pub is_cut: bool,
    /// Number of processes that left a line.
    pub processes: u64,
    /// The largest peak of one process in bytes: pages in RAM, compressed, and in the page file.
    #[serde(rename = "peak_wanted_bytes")]
    pub peak_wanted: u64,
    /// The most bytes that one process had only in the store at its end, and only in the page file.
    #[serde(rename = "compressed_bytes")]
    pub compressed: u64,
    #[serde(rename = "page_file_bytes")]
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
        file.take(MOST_READ as u64 + 1).read_to_end(&mut bytes)?;
        let is_cut = bytes.len() > MOST_READ;
        bytes.truncate(MOST_READ);
        Ok(Counters {
            is_cut,
            ..Counters::of(&bytes)
        })
    }
}

impl fmt::Display for CountersFile {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(to)
    }
}

impl Counters {
    /// The sums over lines. A line of another form, which a program may have written, does not count.
    fn of(bytes: &[u8]) -> Counters {
        let mut text = String::new();
        let mut lines: Vec<Line> = Vec::new();
        for line in bytes.split(|byte| *byte == b'\n') {
            if let Some((line, parsed)) = parse(line) {
                text.push_str(line);
                text.push('\n');
                lines.push(parsed);
            }
        }
        let sum = |of: fn(&Line) -> u64| lines.iter().map(of).fold(0, u64::saturating_add);
        let most = |of: fn(&Line) -> u64| lines.iter().map(of).max().unwrap_or(0);
        let page = plimsoll_pager::page::PAGE_SIZE as u64;
        Counters {
            is_cut: false,
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

/// A line with its counters, if it has some.
fn parse(line: &[u8]) -> Option<(&str, Line)> {
    if line.len() > LONGEST_LINE {
        return None;
    }
    let parsed = serde_json::from_slice(line).ok()?;
    Some((std::str::from_utf8(line).ok()?, parsed))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use rustix::fs::ftruncate;

    use super::*;

    /// A line as the library writes it, with these values.
    fn line(wanted: u64, others: u64) -> String {
        format!(
            "{{\"version\":1,\"peak_wanted_bytes\":{wanted},\"compressed_pages\":{others},\"page_file_pages\":1,\
             \"refaults\":{others},\"stall_us\":3,\"trimmed_pages\":{others},\"saved_pages\":2}}\n"
        )
    }

    /// Writes to the file as a process of the program does.
    fn write(to: &CountersFile, bytes: &[u8]) {
        let file = to.0.as_fd().try_clone_to_owned().expect("a number is free");
        File::from(file).write_all(bytes).expect("written");
    }

    #[test]
    fn lines_of_a_program_do_not_count_and_overflow_nothing() {
        let long = line(11, 6).replace('{', &format!("{{\"long\":\"{}\",", "x".repeat(LONGEST_LINE)));
        let own = [line(7, u64::MAX), line(9, 5)];
        let mut bytes = format!("{}no line\n{{}}\n{long}", own[0]).into_bytes();
        bytes.extend_from_slice(b"\xff\n{\"\xff\":1}\n");
        bytes.extend_from_slice(own[1].as_bytes());
        let counters = Counters::of(&bytes);
        assert_eq!((counters.processes, counters.peak_wanted), (2, 9));
        assert_eq!((counters.refaults, counters.compressed), (u64::MAX, u64::MAX));
        assert_eq!(
            (counters.stall_us, counters.saved_pages, counters.page_file),
            (6, 4, 4096)
        );
        assert_eq!(counters.text, own.concat());
    }

    #[test]
    fn the_file_holds_what_all_writers_appended() {
        let counters = CountersFile::make().expect("memory files are allowed");
        for processes in 1..=2 {
            write(&counters, line(1, 2).as_bytes());
            assert_eq!(counters.read().expect("readable").processes, processes);
        }
        let read = counters.read().expect("readable");
        assert_eq!((read.text, read.is_cut), (line(1, 2).repeat(2), false));
    }

    /// A program wrote 64 MiB of bytes that are no text: each became three bytes of a text in the memory of the command.
    #[test]
    fn a_hostile_program_makes_no_text_and_hides_no_line_before_its_own() {
        let bytes = CountersFile::make().expect("memory files are allowed");
        write(&bytes, line(5, 1).as_bytes());
        write(&bytes, &vec![0xff; MOST_READ]);
        let sparse = CountersFile::make().expect("memory files are allowed");
        write(&sparse, line(5, 1).as_bytes());
        ftruncate(sparse.0.as_fd(), 64 << 30).expect("a sparse file");
        for file in [bytes, sparse] {
            let read = file.read().expect("readable");
            assert_eq!(read.text, line(5, 1));
            assert_eq!((read.processes, read.peak_wanted, read.is_cut), (1, 5, true));
        }
    }
}
