//! `/proc/kallsyms`: the kernel's functions by name and address.

use std::fs;
use std::io;
use std::ops::Range;

/// Longest function that is believed: past the last symbol of a section there are none.
const LONGEST: u64 = 1 << 20;

/// The kernel's functions, by address.
#[derive(Debug, Clone, PartialEq)]
pub struct Symbols(Vec<(u64, Box<str>)>);

impl Symbols {
    /// Those of the running kernel; None where it hides their addresses (`kernel.kptr_restrict`).
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read() -> io::Result<Option<Symbols>> {
        Ok(Symbols::parse(&fs::read_to_string("/proc/kallsyms")?))
    }

    /// Those of a text with lines `address type name [module]`; none if no function has an address.
    pub fn parse(text: &str) -> Option<Symbols> {
        let mut functions: Vec<(u64, Box<str>)> = text.lines().filter_map(function).collect();
        functions.sort_by_key(|(address, _)| *address);
        // Of several names of one address the first stays.
        functions.dedup_by_key(|(address, _)| *address);
        (!functions.is_empty()).then_some(Symbols(functions))
    }

    /// The function that an address is in.
    pub fn name(&self, address: u64) -> Option<&str> {
        let after = self.0.partition_point(|(start, _)| *start <= address);
        let (start, name) = self.0.get(after.checked_sub(1)?)?;
        (address - start < LONGEST).then_some(name)
    }

    /// Where the function of a name is.
    pub fn range(&self, name: &str) -> Option<Range<u64>> {
        let index = self.0.iter().position(|(_, other)| **other == *name)?;
        let start = self.0[index].0;
        let longest = start.saturating_add(LONGEST);
        let end = self
            .0
            .get(index + 1)
            .map_or(longest, |(next, _)| longest.min(*next));
        Some(start..end)
    }
}

/// A line, where it is that of a function with an address: types t and T, weak ones w and W.
fn function(line: &str) -> Option<(u64, Box<str>)> {
    let mut parts = line.split_whitespace();
    let (address, kind, name) = (parts.next()?, parts.next()?, parts.next()?);
    let address = u64::from_str_radix(address, 16).ok()?;
    (address > 0 && matches!(kind, "t" | "T" | "w" | "W")).then(|| (address, name.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_the_function_that_begins_before_it() {
        let text = "ffffffff81000200 t second\nffffffff81000100 T first\nffffffff81000100 T alias\n\
                    ffffffff81000180 d data\nffffffffc0000000 t other\t[module]\n\n? x\n";
        let symbols = Symbols::parse(text).unwrap();
        for (address, name) in [
            (0xffff_ffff_8100_0100, Some("first")),
            (0xffff_ffff_8100_01ff, Some("first")),
            (0xffff_ffff_8100_0200, Some("second")),
            (0xffff_ffff_8100_00ff, None),
            (0xffff_ffff_b000_0000, None),
            (0xffff_ffff_c000_0010, Some("other")),
            (u64::MAX, None),
            (0, None),
        ] {
            assert_eq!(symbols.name(address), name, "{address:x}");
        }
        assert_eq!(
            symbols.range("first"),
            Some(0xffff_ffff_8100_0100..0xffff_ffff_8100_0200)
        );
        assert_eq!(symbols.range("data"), None);
        assert!(
            symbols
                .range("other")
                .is_some_and(|range| range.end > range.start)
        );
    }

    #[test]
    fn hidden_addresses_are_rejected() {
        let text = "0000000000000000 T exc_page_fault\n0000000000000000 t lz4\n";
        assert_eq!(Symbols::parse(text), None);
    }
}
