//! The last line of a process whose page is lost: made on the stack, as the program may have locked the allocator.

use super::FaultError;
use crate::driver::Area;
use crate::page::{ChunkMode, PageIndex};

/// Facts about an address whose fault cannot be resolved.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Facts {
    /// It is a page of an area.
    Page {
        area: Area,
        page: PageIndex,
        /// The mode of its chunk.
        mode: ChunkMode,
        /// The bits of its word.
        word: u64,
        /// Whether it is present in the arena; none if that is unknown.
        in_arena: Option<bool>,
        /// Whether it is present in the shadow.
        in_shadow: Option<bool>,
    },
    /// It is in no area.
    Astray(usize),
}

/// Writes the last line of a process whose page is lost.
pub(super) fn report(error: FaultError, facts: Facts) {
    plimsoll_os::write_error(Line::of(error, facts).bytes());
}

/// The line that [`report`] writes.
#[cfg(all(test, not(loom)))]
pub(crate) fn last_line(error: FaultError, facts: Facts) -> String {
    String::from_utf8_lossy(Line::of(error, facts).bytes()).into_owned()
}

/// A line of text. It has room for every error with facts; more text is cut.
struct Line {
    bytes: [u8; 256],
    length: usize,
}

impl Line {
    fn of(error: FaultError, facts: Facts) -> Line {
        let mut line = Line {
            bytes: [0; 256],
            length: 0,
        };
        line.text(b"plimsoll-pager: cannot restore a page: ");
        let reason: &[u8] = match error {
            FaultError::Damaged(_) => b"its saved copy is damaged (",
            FaultError::NoMemory => b"the kernel is out of memory (",
            FaultError::Refused(_) => b"the kernel refuses it (errno ",
        };
        line.text(reason);
        if let FaultError::Refused(errno) = error {
            line.number(errno.raw().unsigned_abs().into(), 10);
            line.text(b"; ");
        }
        line.facts(facts);
        line.text(b")\n");
        line
    }

    fn facts(&mut self, facts: Facts) {
        match facts {
            Facts::Page {
                area,
                page,
                mode,
                word,
                in_arena,
                in_shadow,
            } => {
                let kind: &[u8] = match area {
                    Area::Arena => b"page ",
                    Area::Shadow => b"frame ",
                };
                self.text(kind);
                self.number(page.number().into(), 10);
                let chunk: &[u8] = match mode {
                    ChunkMode::Unused => b" of an unused chunk",
                    ChunkMode::Native => b" of a native chunk",
                    ChunkMode::Converting => b" of a converting chunk",
                    ChunkMode::Managed => b" of a managed chunk",
                    ChunkMode::Changing => b" of a changing chunk",
                };
                self.text(chunk);
                self.text(b", word 0x");
                self.number(word, 16);
                self.text(presence(in_arena));
                self.text(b" in the arena");
                self.text(presence(in_shadow));
                self.text(b" in the shadow");
            }
            Facts::Astray(address) => {
                self.text(b"address 0x");
                self.number(address as u64, 16);
            }
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn text(&mut self, text: &[u8]) {
        let end = (self.length + text.len()).min(self.bytes.len());
        self.bytes[self.length..end].copy_from_slice(&text[..end - self.length]);
        self.length = end;
    }

    fn number(&mut self, value: u64, base: u64) {
        let mut digits = [0_u8; 20];
        let mut first = digits.len();
        let mut rest = value;
        while first > 0 && (rest > 0 || first == digits.len()) {
            first -= 1;
            digits[first] = b"0123456789abcdef"[(rest % base) as usize];
            rest /= base;
        }
        self.text(&digits[first..]);
    }
}

fn presence(is_present: Option<bool>) -> &'static [u8] {
    match is_present {
        Some(true) => b", present",
        Some(false) => b", absent",
        None => b", unknown",
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use plimsoll_os::Errno;

    use super::*;

    #[track_caller]
    fn check(error: FaultError, facts: Facts, expected: &str) {
        let line = Line::of(error, facts);
        let text = std::str::from_utf8(line.bytes()).expect("ASCII");
        let expected = format!("plimsoll-pager: cannot restore a page: {expected}\n");
        assert_eq!(text, expected);
    }

    fn facts(area: Area, mode: ChunkMode) -> Facts {
        Facts::Page {
            area,
            page: PageIndex::new(12),
            mode,
            word: 0x52A,
            in_arena: Some(true),
            in_shadow: Some(false),
        }
    }

    #[test]
    fn the_line_has_the_number_of_the_error_and_the_facts_of_the_page() {
        let refused = FaultError::Refused(Errno::EXIST);
        check(
            refused,
            facts(Area::Arena, ChunkMode::Managed),
            "the kernel refuses it (errno 17; page 12 of a managed chunk, word 0x52a, \
             present in the arena, absent in the shadow)",
        );
        check(
            FaultError::NoMemory,
            facts(Area::Shadow, ChunkMode::Unused),
            "the kernel is out of memory (frame 12 of an unused chunk, word 0x52a, \
             present in the arena, absent in the shadow)",
        );
        check(
            refused,
            Facts::Astray(0x1000),
            "the kernel refuses it (errno 17; address 0x1000)",
        );
        check(
            FaultError::NoMemory,
            Facts::Astray(0),
            "the kernel is out of memory (address 0x0)",
        );
    }

    #[test]
    fn the_longest_line_is_not_cut() {
        let facts = Facts::Page {
            area: Area::Shadow,
            page: PageIndex::new(u32::MAX),
            mode: ChunkMode::Converting,
            word: u64::MAX,
            in_arena: None,
            in_shadow: None,
        };
        let line = Line::of(FaultError::Refused(Errno::of_number(i32::MIN)), facts);
        assert!(
            line.bytes()
                .ends_with(b"ffff, unknown in the arena, unknown in the shadow)\n")
        );
        assert!(line.bytes().len() < line.bytes.len());
    }
}
