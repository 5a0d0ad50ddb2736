//! Accesses to ranges of this process's memory, from `/proc/self/smaps`. It parses the file itself, as a program that links
//! the pager shall not get `plimsoll-proc` and its dependencies for two fields.

use std::io::{self, BufRead};
use std::ops::Range;

use super::Accesses;

/// Calls `each` with every mapping that is in `wanted`, or the part that is, and its accesses.
///
/// # Errors
/// The file cannot be read, or has another form.
pub(super) fn read(
    smaps: impl BufRead,
    wanted: &Range<usize>,
    each: &mut dyn FnMut(Range<usize>, Accesses),
) -> io::Result<()> {
    let mut mapping: Option<Range<usize>> = None;
    let mut seen = Accesses::default();
    let mut fields = 0;
    for line in smaps.split(b'\n') {
        let line = line?;
        let Some((name, value)) = std::str::from_utf8(&line)
            .ok()
            .and_then(|line| line.split_once(':'))
        else {
            continue;
        };
        let target = match name {
            "Rss" => &mut seen.present,
            "Referenced" => &mut seen.accessed,
            _ => {
                // The line of a mapping: its device has a colon, no other name has a space before its first one.
                if let Some(range) = range_of(name) {
                    mapping = Some(range);
                    fields = 0;
                }
                continue;
            }
        };
        *target = kilobytes(value).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        fields += 1;
        if fields == 2
            && let Some(range) = mapping.take()
        {
            let part = range.start.max(wanted.start)..range.end.min(wanted.end);
            if !part.is_empty() {
                each(part, seen);
            }
        }
    }
    Ok(())
}

/// The addresses at the start of the line of a mapping: `7f0000000000-7f0000200000 rw-p 00000000 00`.
fn range_of(line: &str) -> Option<Range<usize>> {
    let (range, _) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some(address(start)?..address(end)?)
}

/// The bytes of a value in kB.
fn kilobytes(value: &str) -> Option<u64> {
    let number = value.trim().strip_suffix("kB")?.trim_end();
    number.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SMAPS: &str = "\
00400000-00500000 r-xp 00000000 fe:00 1234                       /usr/bin/a file: with-a colon
Size:               1024 kB
Rss:                 512 kB
Referenced:          256 kB
VmFlags: rd ex mr mw me
7f0000000000-7f0000200000 rw-p 00000000 00:00 0
Size:               2048 kB
Rss:                2048 kB
Pss:                2048 kB
Referenced:            8 kB
Anonymous:          2048 kB
VmFlags: rd wr mr mw me ac um
7f0000200000-7f0000400000 rw-p 00000000 00:00 0 [anon:0-1]
Rss:                   4 kB
Referenced:            0 kB
";

    fn seen(text: &str, wanted: Range<usize>) -> io::Result<Vec<(Range<usize>, u64, u64)>> {
        let mut all = Vec::new();
        read(text.as_bytes(), &wanted, &mut |range, accesses| {
            all.push((range, accesses.present, accesses.accessed));
        })?;
        Ok(all)
    }

    #[test]
    fn mappings_of_a_range_are_read_with_their_accesses() {
        let both = [
            (0x7f00_0000_0000..0x7f00_0020_0000, 2 << 20, 8 << 10),
            (0x7f00_0020_0000..0x7f00_0040_0000, 4 << 10, 0),
        ];
        assert_eq!(seen(SMAPS, 0x7f00_0000_0000..0x7f00_0040_0000).unwrap(), both);
        let part = seen(SMAPS, 0x7f00_0010_0000..0x7f00_0020_0000).unwrap();
        assert_eq!(part, [(0x7f00_0010_0000..0x7f00_0020_0000, 2 << 20, 8 << 10)]);
        assert_eq!(seen(SMAPS, 0..0x1000).unwrap(), []);
    }

    #[test]
    fn another_form_is_an_error() {
        assert!(seen("1000-2000 rw-p 0 00:00 0\nRss: many kB\n", 0..0x2000).is_err());
        assert_eq!(seen("", 0..0x2000).unwrap(), []);
    }
}
