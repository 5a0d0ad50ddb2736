//! `/proc/PID/statm` (`proc_pid_statm(5)`): sizes of a process, in the shortest of its files.

use super::fields::{number, words};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statm {
    /// All that is mapped and in RAM.
    pub resident: u64,
    /// The part of it that a file or shared memory is behind.
    pub shared: u64,
}

impl Statm {
    /// Parses the text of the file, `size resident shared ...` in pages. Does not allocate.
    pub fn parse(text: &[u8]) -> Option<Statm> {
        let page = rustix::param::page_size() as i64;
        let mut bytes = words(text)
            .skip(1)
            .map(|word| number(word)?.checked_mul(page).map(i64::unsigned_abs));
        Some(Statm {
            resident: bytes.next()??,
            shared: bytes.next()??,
        })
    }

    /// The resident part that no file or shared memory is behind.
    pub fn anonymous(self) -> u64 {
        self.resident.saturating_sub(self.shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_memory_is_what_is_resident_and_not_shared() {
        let page = rustix::param::page_size() as u64;
        let anonymous = |text: &[u8]| Statm::parse(text).map(Statm::anonymous);
        assert_eq!(anonymous(b"900 100 30 5 0 50 0\n"), Some(70 * page));
        assert_eq!(anonymous(b"900 10 30 5 0 50 0\n"), Some(0));
        assert_eq!(anonymous(b""), None);
        assert_eq!(anonymous(b"900 9223372036854775807 1"), None);
    }
}
