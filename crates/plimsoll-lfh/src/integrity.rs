//! What a heap notices of damage, and how the process ends then.
//!
//! A free block of a bucket is *sealed*: its second word holds the process's key XORed with its address. `free` finds
//! the seal on a block that is freed twice; `allocate` finds it broken on a block that was written after it was freed,
//! or that the block before it was written into. A seal comes about by chance once in 2^64.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};

use plimsoll_os::{abort, write_error};

use crate::bucket::Bucket;

/// The process's key. Set before the first block is made, and never changed.
static KEY: AtomicU64 = AtomicU64::new(0);

/// Sets the key of the process.
pub(crate) fn set_key(key: u64) {
    KEY.store(key, Ordering::Relaxed);
}

#[inline(always)]
fn seal_of(block: *mut u8) -> u64 {
    seal_by(KEY.load(Ordering::Relaxed), block as usize)
}

/// The seal of a free block at an address, in a process of that key.
#[inline(always)]
pub(crate) const fn seal_by(key: u64, block: usize) -> u64 {
    key ^ block as u64
}

/// What a link means, of a block that has to bear `seal`: see [`read_link`].
pub(crate) fn decode_link(link: u64, seal: u64) -> Option<u16> {
    u16::try_from(link ^ seal.rotate_left(32)).ok()
}

/// Whether the block bears the seal of a free one.
///
/// # Safety
/// `block` is the start of a block.
#[inline(always)]
pub(crate) unsafe fn is_sealed(block: *mut u8) -> bool {
    // SAFETY: blocks have at least two words. Volatile, as a program that uses the block after its end may write it.
    unsafe { block.cast::<u64>().add(1).read_volatile() == seal_of(block) }
}

/// Seals a block that becomes free.
///
/// # Safety
/// The block is the caller's.
#[inline(always)]
pub(crate) unsafe fn seal(block: *mut u8) {
    // SAFETY: blocks have at least two words, and the caller's premise.
    unsafe { block.cast::<u64>().add(1).write(seal_of(block)) };
}

/// Clears the seal of a block that is handed out.
///
/// # Safety
/// The block is the caller's.
#[inline(always)]
pub(crate) unsafe fn unseal(block: *mut u8) {
    // SAFETY: blocks have at least two words, and the caller's premise.
    unsafe { block.cast::<u64>().add(1).write(0) };
}

/// Writes into a free block which block comes after it in its list: number + 1, or 0.
///
/// # Safety
/// The block is free, and the caller's.
#[inline(always)]
pub(crate) unsafe fn write_link(block: *mut u8, next: u16) {
    let link = seal_of(block).rotate_left(32) ^ u64::from(next);
    // SAFETY: the caller's premise.
    unsafe { block.cast::<u64>().write(link) };
}

/// Reads what [`write_link`] wrote; none where something else stands there.
///
/// # Safety
/// The block is free, and the caller's.
#[inline(always)]
pub(crate) unsafe fn read_link(block: *mut u8) -> Option<u16> {
    // SAFETY: the caller's premise.
    let link = unsafe { block.cast::<u64>().read() };
    decode_link(link, seal_of(block))
}

/// What is wrong with a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// It was freed while it was free.
    DoubleFree,
    /// A free block is not as it was left.
    WrittenAfterFree,
    /// The size in front of a block is not as it was left.
    Header,
    /// What was freed is inside of a block.
    NotAStart,
    /// What was freed was never a block.
    Foreign,
    /// What was freed is in another heap than the one it was given to.
    OtherHeap,
}

impl Damage {
    /// What happened, what was found, and the likely mistake.
    const fn words(self) -> [&'static [u8]; 2] {
        match self {
            Damage::DoubleFree => [b"double free of ", b"it is already free"],
            Damage::WrittenAfterFree => [
                b"damaged free ",
                b"it was written after it was freed, or overrun from the block before it",
            ],
            Damage::Header => [
                b"damaged header of ",
                b"the bytes in front of it were overwritten, or this is no block",
            ],
            Damage::NotAStart => [
                b"invalid free in ",
                b"this is not the start of a block, as malloc returned it",
            ],
            Damage::Foreign => [
                b"invalid free of ",
                b"this heap never returned it: was it allocated by another one, or is it no pointer?",
            ],
            Damage::OtherHeap => [b"invalid free of ", b"it belongs to another heap"],
        }
    }
}

/// Says on the standard error stream what is wrong with the block at `address`, and ends the process by SIGABRT.
#[cold]
#[inline(never)]
pub(crate) fn report(damage: Damage, address: usize, bucket: Option<Bucket>) -> ! {
    let mut message = Message::new();
    message.add(b"plimsoll-malloc: 0x");
    message.add_number(address, 16);
    message.add(b": ");
    let [what, why] = damage.words();
    message.add(what);
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
    message.add(why);
    message.add(b"\n");
    write_error(message.text());
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

    #[test]
    fn links_read_as_they_were_written_until_somebody_else_writes() {
        let mut block = [0_u64; 2];
        let block = block.as_mut_ptr().cast::<u8>();
        // SAFETY: the block is this test's.
        unsafe {
            for next in [0, 1, 4096, u16::MAX] {
                write_link(block, next);
                assert_eq!(read_link(block), Some(next));
            }
            block.cast::<u64>().write(0x1234_5678);
            assert_eq!(read_link(block), None);
            assert!(!is_sealed(block));
            seal(block);
            assert!(is_sealed(block));
            unseal(block);
            assert!(!is_sealed(block));
        }
    }
}
