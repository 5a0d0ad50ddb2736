//! Detection of damage, and the end of the process after it.
//!
//! A free block of a bucket has a *free-block tag* (a canary): its second word holds the process's key XORed with its
//! address. `free` finds the tag on a block that is freed twice; `allocate` finds it changed on a block that was
//! written after it was freed, or that the block before it overran. A random word equals a tag once in 2^64.
//!
//! No call may leave a tag in a register: compilers copy registers without meaning into new objects (for an empty
//! `std::optional` of C++), and the owner of the block would write the tag of that very block back. Therefore
//! [`set_tag`], [`clear_tag`] and [`has_tag`] are assembly, which ends with a 0 or a 1 in the tag's register.
#![allow(unsafe_code)]

use core::arch::asm;
use core::sync::atomic::Ordering;

use plimsoll_os::{abort, write_error};

use crate::bucket::Bucket;
use crate::lock::Reporting;
use crate::set_once::SET_ONCE;

/// Sets the key of the process.
pub(crate) fn set_key(key: u64) {
    SET_ONCE.key.store(key, Ordering::Relaxed);
}

#[inline(always)]
fn key() -> u64 {
    SET_ONCE.key.load(Ordering::Relaxed)
}

/// The second word of the block while it is free.
#[inline(always)]
fn tag_of(block: *mut u8) -> u64 {
    tag_by(key(), block as usize)
}

/// The tag of a free block at an address, in a process of that key.
#[inline(always)]
pub(crate) const fn tag_by(key: u64, block: usize) -> u64 {
    key ^ block as u64
}

/// The link in the first word of a block with the tag `tag`; none if the word is no link.
pub(crate) fn decode_link(word: u64, tag: u64) -> Option<Link> {
    let word = word ^ tag.rotate_left(32);
    (word >> 48 == 0).then_some(Link {
        next: word as u16,
        second: (word >> 16) as u16,
        third: (word >> 32) as u16,
    })
}

/// Sets the tag of a block that becomes free. Returns false if the tag is set already.
///
/// # Safety
/// `block` is the start of a block, and the caller's.
#[inline(always)]
pub(crate) unsafe fn set_tag(block: *mut u8) -> bool {
    let differed: u64;
    // SAFETY: blocks have at least two words, and the caller's premise.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!(
            "xor {tag}, {block}",
            "cmp qword ptr [{block} + 8], {tag}",
            "mov qword ptr [{block} + 8], {tag}",
            "mov {tag:e}, 0",
            "setne {tag:l}",
            block = in(reg) block,
            tag = inout(reg) key() => differed,
            options(nostack),
        );
        #[cfg(target_arch = "aarch64")]
        asm!(
            "eor {tag}, {tag}, {block}",
            "ldr {was}, [{block}, #8]",
            "str {tag}, [{block}, #8]",
            "cmp {was}, {tag}",
            "cset {tag}, ne",
            block = in(reg) block,
            tag = inout(reg) key() => differed,
            was = out(reg) _,
            options(nostack),
        );
    }
    differed != 0
}

/// Clears the tag of a block that is allocated. Returns false if it had no tag.
///
/// # Safety
/// `block` is the start of a block, and the caller's.
#[inline(always)]
pub(crate) unsafe fn clear_tag(block: *mut u8) -> bool {
    let difference: u64;
    // SAFETY: blocks have at least two words, and the caller's premise.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!(
            "xor {tag}, {block}",
            "xor {tag}, qword ptr [{block} + 8]",
            "mov qword ptr [{block} + 8], 0",
            block = in(reg) block,
            tag = inout(reg) key() => difference,
            options(nostack),
        );
        #[cfg(target_arch = "aarch64")]
        asm!(
            "ldr {was}, [{block}, #8]",
            "str xzr, [{block}, #8]",
            "eor {tag}, {tag}, {block}",
            "eor {tag}, {tag}, {was}",
            "mov {was}, xzr",
            block = in(reg) block,
            tag = inout(reg) key() => difference,
            was = out(reg) _,
            options(nostack),
        );
    }
    difference == 0
}

/// Whether a block has the tag of a free one.
///
/// # Safety
/// `block` is the start of a block.
#[inline(always)]
pub(crate) unsafe fn has_tag(block: *const u8) -> bool {
    let is_equal: u64;
    // SAFETY: blocks have at least two words, which only the program may write meanwhile.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!(
            "xor {tag}, {block}",
            "cmp qword ptr [{block} + 8], {tag}",
            "mov {tag:e}, 0",
            "sete {tag:l}",
            block = in(reg) block,
            tag = inout(reg) key() => is_equal,
            options(nostack, readonly),
        );
        #[cfg(target_arch = "aarch64")]
        asm!(
            "eor {tag}, {tag}, {block}",
            "ldr {word}, [{block}, #8]",
            "cmp {word}, {tag}",
            "cset {tag}, eq",
            "mov {word}, xzr",
            block = in(reg) block,
            tag = inout(reg) key() => is_equal,
            word = out(reg) _,
            options(nostack, readonly),
        );
    }
    is_equal != 0
}

/// The canary behind a block that ends at an address, in a hardened heap.
pub(crate) fn canary(end: usize) -> u64 {
    canary_by(SET_ONCE.key.load(Ordering::Relaxed), end)
}

/// The same in a process of that key.
pub(crate) const fn canary_by(key: u64, end: usize) -> u64 {
    (key ^ end as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1
}

/// Which blocks come after a free one in its list: numbers + 1, 0 for none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) next: u16,
    /// The next two blocks; 0 also if unknown. A thread that walks the list requests their cache lines before it needs
    /// them.
    pub(crate) second: u16,
    pub(crate) third: u16,
}

/// Writes into a free block which blocks come after it.
///
/// # Safety
/// The block is free, and the caller's.
#[inline(always)]
pub(crate) unsafe fn write_link(block: *mut u8, link: Link) {
    let word = u64::from(link.next) | u64::from(link.second) << 16 | u64::from(link.third) << 32;
    // SAFETY: the caller's premise.
    unsafe { block.cast::<u64>().write(word ^ tag_of(block).rotate_left(32)) };
}

/// Reads the link of [`write_link`]; none if the word is no link.
///
/// # Safety
/// The block is free, and the caller's.
#[inline(always)]
pub(crate) unsafe fn read_link(block: *mut u8) -> Option<Link> {
    // SAFETY: the caller's premise.
    let link = unsafe { block.cast::<u64>().read() };
    decode_link(link, tag_of(block))
}

/// Damage of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// It was freed while it was free.
    DoubleFree,
    /// A free block is not as it was left.
    WrittenAfterFree,
    /// The size in front of a block is not as it was left.
    Header,
    /// The description of a run of units was overwritten.
    Description,
    /// The canary behind the requested bytes was overwritten.
    Overrun,
    /// A block is used that was freed.
    UsedAfterFree,
    /// The freed address is inside of a block.
    NotAStart,
    /// The freed address was never a block.
    Foreign,
    /// The freed block belongs to another heap.
    OtherHeap,
}

impl Damage {
    /// The stable name at the end of the message.
    pub(crate) const fn code(self) -> &'static str {
        match self {
            Damage::DoubleFree => "double-free",
            Damage::WrittenAfterFree => "write-after-free",
            Damage::Header => "damaged-header",
            Damage::Description => "damaged-description",
            Damage::Overrun => "overrun",
            Damage::UsedAfterFree => "use-after-free",
            Damage::NotAStart => "not-a-block",
            Damage::Foreign => "foreign-address",
            Damage::OtherHeap => "other-heap",
        }
    }

    /// The event, and the finding with the likely mistake.
    const fn words(self) -> [&'static [u8]; 2] {
        match self {
            Damage::DoubleFree => [b"double free of ", b"it is already free"],
            Damage::WrittenAfterFree => [
                b"damage to the free memory of ",
                b"it was written after it was freed, or overrun from the block before it",
            ],
            Damage::Header => [
                b"damaged header of ",
                b"the bytes in front of it were overwritten, or this is no block",
            ],
            Damage::Description => [
                b"damaged description of ",
                b"the heap's own tables were overwritten",
            ],
            Damage::Overrun => [
                b"overrun of ",
                b"it was written past the end of the requested size",
            ],
            Damage::UsedAfterFree => [b"use after free of ", b"it was freed before"],
            Damage::NotAStart => [
                b"invalid free in ",
                b"no block in use starts here: it was freed before, or malloc did not return this address",
            ],
            Damage::Foreign => [
                b"invalid free of ",
                b"this heap never returned it: was it allocated by another one, or is it no pointer?",
            ],
            Damage::OtherHeap => [b"invalid free of ", b"it belongs to another heap"],
        }
    }
}

/// Writes the damage of the block at `address` to the standard error stream, and ends the process by SIGABRT.
#[cold]
#[inline(never)]
pub(crate) fn report(damage: Damage, address: usize, bucket: Option<Bucket>) -> ! {
    let mut message = Message::new();
    message.add(b"plimsoll-malloc: 0x");
    message.add_number(address, 16);
    message.add(b": ");
    let [event, cause] = damage.words();
    message.add(event);
    match bucket {
        Some(bucket) => {
            message.add(b"a block of ");
            message.add_number(bucket.size(), 10);
            message.add(b" bytes (bucket ");
            message.add_number(bucket.index(), 10);
            message.add(b")");
        }
        None => message.add(b"a block"),
    }
    message.add(b": ");
    message.add(cause);
    message.add(b" [");
    message.add(damage.code().as_bytes());
    message.add(b"]\n");
    write_error(message.text());
    Reporting::begin();
    abort()
}

/// Text put together on the stack, written at once so that no other thread's comes in between.
struct Message {
    bytes: [u8; 256],
    length: usize,
}

impl Message {
    fn new() -> Message {
        Message {
            bytes: [0; 256],
            length: 0,
        }
    }

    fn add(&mut self, text: &[u8]) {
        for byte in text {
            if let Some(free) = self.bytes.get_mut(self.length) {
                *free = *byte;
                self.length += 1;
            }
        }
    }

    fn add_number(&mut self, number: usize, base: usize) {
        let mut digits = [0; 20];
        let mut rest = number;
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b"0123456789abcdef"[rest % base];
            rest /= base;
            if rest == 0 {
                break;
            }
        }
        self.add(&digits[at..]);
    }

    fn text(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_people_write_them() {
        let mut message = Message::new();
        message.add_number(0, 10);
        message.add(b" ");
        message.add_number(1048, 10);
        message.add(b" ");
        message.add_number(0x7fff_0a0b, 16);
        assert_eq!(message.text(), b"0 1048 7fff0a0b");
        message.add(&[b'x'; 300]);
        assert_eq!(message.text().len(), 256);
    }

    /// The variant after this one. The compiler rejects the `match` if it lacks a variant.
    fn next(damage: &Damage) -> Option<Damage> {
        Some(match damage {
            Damage::DoubleFree => Damage::WrittenAfterFree,
            Damage::WrittenAfterFree => Damage::Header,
            Damage::Header => Damage::Description,
            Damage::Description => Damage::Overrun,
            Damage::Overrun => Damage::UsedAfterFree,
            Damage::UsedAfterFree => Damage::NotAStart,
            Damage::NotAStart => Damage::Foreign,
            Damage::Foreign => Damage::OtherHeap,
            Damage::OtherHeap => return None,
        })
    }

    #[test]
    fn the_book_has_the_code_of_each_message() {
        let book = include_str!("../../../docs/src/heap.md");
        let all = core::iter::successors(Some(Damage::DoubleFree), next);
        let codes: std::vec::Vec<&str> = all.map(Damage::code).collect();
        assert_eq!(codes.len(), 9);
        for code in codes {
            let row = std::format!("\n| `{code}` | ");
            assert_eq!(book.matches(&row).count(), 1, "{code}");
        }
    }

    #[test]
    fn links_read_as_written_until_overwritten() {
        let mut block = [0_u64; 2];
        let block = block.as_mut_ptr().cast::<u8>();
        // SAFETY: the block is this test's.
        unsafe {
            for next in [0, 1, 4096, u16::MAX] {
                let link = Link {
                    next,
                    second: 7,
                    third: !next,
                };
                write_link(block, link);
                assert_eq!(read_link(block), Some(link));
            }
            block.cast::<u64>().write(0x1234_5678);
            assert_eq!(read_link(block), None);
            assert!(!has_tag(block));
            assert!(set_tag(block));
            assert!(!set_tag(block));
            assert!(has_tag(block));
            assert!(clear_tag(block));
            assert!(!has_tag(block));
            assert!(!clear_tag(block));
        }
    }
}
