//! The last line of a process whose page is lost: made on the stack, as the program may have locked the allocator.

use super::FaultError;

/// Facts about a page, as [`ThreadFaults::facts`](super::ThreadFaults::facts) returns them.
type Facts = [u64; 6];

/// Writes the last line of a process whose page is lost, unless the former handler knows better.
pub(super) fn report(error: FaultError, facts: Option<Facts>) {
    plimsoll_os::write_error(Line::of(error, facts).bytes());
}

/// A line of text. It has room for every error with facts; more text is cut.
struct Line {
    bytes: [u8; 256],
    length: usize,
}

impl Line {
    fn of(error: FaultError, facts: Option<Facts>) -> Line {
        let mut line = Line {
            bytes: [0; 256],
            length: 0,
        };
        line.text(b"plimsoll-pager: cannot restore a page: ");
        line.text(match error {
            FaultError::Damaged(_) => b"its saved copy is damaged",
            FaultError::NoMemory => b"the kernel is out of memory",
            FaultError::Refused(_) => b"the kernel refuses it",
        });
        let mut separator: &[u8] = b" (";
        if let FaultError::Refused(errno) = error {
            line.text(b" (errno ");
            line.number(errno.raw().unsigned_abs().into(), 10);
            separator = b"; ";
        }
        if let Some([area, page, mode, word, in_arena, in_shadow]) = facts {
            line.text(separator);
            let numbers: [(&[u8], u64, u64); 6] = [
                (b"area ", area, 10),
                (b", page ", page, 10),
                (b", chunk mode ", mode, 10),
                (b", word 0x", word, 16),
                (b", present ", in_arena, 10),
                (b" ", in_shadow, 10),
            ];
            for (name, value, base) in numbers {
                line.text(name);
                line.number(value, base);
            }
        }
        let has_brackets = facts.is_some() || matches!(error, FaultError::Refused(_));
        line.text(if has_brackets { b")\n" } else { b"\n" });
        line
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

#[cfg(all(test, not(loom)))]
mod tests {
    use plimsoll_os::Errno;

    use super::*;

    #[track_caller]
    fn check(error: FaultError, facts: Option<Facts>, expected: &str) {
        let line = Line::of(error, facts);
        let text = std::str::from_utf8(line.bytes()).expect("ASCII");
        let expected = format!("plimsoll-pager: cannot restore a page: {expected}\n");
        assert_eq!(text, expected);
    }

    #[test]
    fn the_line_has_the_number_of_the_error_and_the_facts_of_the_page() {
        let refused = FaultError::Refused(Errno::EXIST);
        check(refused, None, "the kernel refuses it (errno 17)");
        check(
            refused,
            Some([0, 12, 3, 0x52A, 1, 0]),
            "the kernel refuses it (errno 17; area 0, page 12, chunk mode 3, word 0x52a, present 1 0)",
        );
        check(FaultError::NoMemory, None, "the kernel is out of memory");
        check(
            FaultError::NoMemory,
            Some([2, 4096, 0, 0, 2, 2]),
            "the kernel is out of memory (area 2, page 4096, chunk mode 0, word 0x0, present 2 2)",
        );
    }

    #[test]
    fn the_longest_line_is_not_cut() {
        let error = FaultError::Refused(Errno::of_number(i32::MIN));
        let line = Line::of(error, Some([u64::MAX; 6]));
        assert!(line.bytes().ends_with(b" 18446744073709551615)\n"));
        assert!(line.bytes().len() < line.bytes.len());
    }
}
