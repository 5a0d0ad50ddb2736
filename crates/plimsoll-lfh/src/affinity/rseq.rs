//! The sections: restartable sequences on the slot of the concurrency id under which the thread runs.
//!
//! Each is one block of assembly: it names its range in a descriptor, reads the concurrency id, works, and commits by
//! one store. If the kernel preempts the thread, delivers a signal, or another thread requests a restart by
//! `membarrier(2)`, before the commit, the section starts again; so the values that it read were true at its commit,
//! and no other section on the same slot came in between.
//!
//! Premises of the whole module: `area` is the distance of [`plimsoll_os::restartable_area`], so this thread has a
//! registered area there; `slots` is the address of as many zeroed or prepared slots as there can be concurrency ids,
//! of which those that no thread had yet may be read-only (`mapping`). A
//! thread made past the C library that still calls it (`clone(2)` with `CLONE_VM` and no `CLONE_SETTLS`, as `vfork(2)`
//! does) has no registered area: it may use a heap while its parent waits and no other thread runs.
//!
//! A page fault may interrupt a section, too, where a pager manages the memory of slots ([`crate::memory`]): a signal is
//! delivered, or the thread sleeps until another one has served it. Either way the kernel restarts the section after the
//! fault. That ends, as it does for one instruction that accesses several pages: a section accesses at most the header's
//! page and, of an array and of the caller's batch, two pages each, and the pager keeps the page of a fault at least until
//! the thread has run again. Neither the descriptors nor the thread's registered area may be in such memory: the kernel
//! accesses them itself, and ends the process if they are absent. They are in the program or the library and, with the C
//! library's thread-local storage, at the thread's stack.
//!
//! Invariant: a section that faults has its effect once. Checked by `sections_restart_after_faults` and
//! `threads_work_while_pages_are_taken_away`.
//!
//! The order of loads matters when another thread resumes a stopped header: that thread stores `current` first and the
//! limits last, and sections read the limits first. So a section that sees valid limits sees the `current` that belongs
//! to them, and a section that sees the old limits finds no pointer and no room. An unused header, whose zero limits
//! would not keep `pop` from a new `current`, is prepared by a section itself.
#![allow(unsafe_code)]

use core::arch::asm;

/// A section's descriptor, and its jump targets outside of its range: `5` if the kernel restarts it (behind the
/// signature that glibc registered), to begin again; `6` if there is nothing to do: `$none` is zeroed.
macro_rules! section {
    ($none:literal; $($line:literal,)*; $($operands:tt)*) => {
        asm!(
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "33:",
            ".long 0, 0",
            ".quad 3f, (4f-3f), 5f",
            ".popsection",
            ".pushsection __rseq_failure, \"ax\"",
            ".byte 0x0f, 0xb9, 0x3d",
            ".long 0x53053053",
            "5:",
            "jmp 2f",
            "6:",
            $none,
            "jmp 4f",
            ".popsection",
            "2:",
            "lea {t}, [rip + 33b]",
            "mov qword ptr fs:[{area} + 8], {t}",
            "3:",
            "mov {t:e}, dword ptr fs:[{area} + 24]",
            "shl {t}, 16",
            "add {t}, {slots}",
            $($line,)*
            "4:",
            $($operands)*
        )
    };
}

/// Takes the last pointer of the bucket's array; null if there is none.
///
/// # Safety
/// The module's premises; `bucket` is the step of a header in a slot.
#[inline(always)]
pub(super) unsafe fn pop(slots: usize, area: isize, bucket: usize) -> *mut u8 {
    let block: *mut u8;
    // SAFETY: the module's premises. Offsets are those of `Header`.
    unsafe {
        section!(
            "xor {block:e}, {block:e}";
            "movzx {block:e}, word ptr [{t} + {bucket}*8]",
            "movzx {c:e}, word ptr [{t} + {bucket}*8 + 4]",
            "cmp {c:e}, {block:e}",
            "jbe 6b",
            "mov {block}, qword ptr [{t} + {c}*8 - 8]",
            "dec {c:e}",
            "mov word ptr [{t} + {bucket}*8 + 4], {c:x}",;
            t = out(reg) _,
            c = out(reg) _,
            block = out(reg) block,
            slots = in(reg) slots,
            area = in(reg) area,
            bucket = in(reg) bucket,
            options(nostack),
        );
    }
    block
}

/// Puts a pointer at the end of the bucket's array; returns false if it is full.
///
/// # Safety
/// The module's premises; `bucket` is the step of a header in a slot.
#[inline(always)]
pub(super) unsafe fn push(slots: usize, area: isize, bucket: usize, block: *mut u8) -> bool {
    let slot: usize;
    // SAFETY: the module's premises. Offsets are those of `Header`. The store before the commit is past `current`,
    // where no thread reads.
    unsafe {
        section!(
            "xor {t:e}, {t:e}";
            "movzx {e:e}, word ptr [{t} + {bucket}*8 + 2]",
            "movzx {c:e}, word ptr [{t} + {bucket}*8 + 4]",
            "cmp {c:e}, {e:e}",
            "jae 6b",
            "mov qword ptr [{t} + {c}*8], {block}",
            "inc {c:e}",
            "mov word ptr [{t} + {bucket}*8 + 4], {c:x}",;
            t = out(reg) slot,
            c = out(reg) _,
            e = out(reg) _,
            block = in(reg) block,
            slots = in(reg) slots,
            area = in(reg) area,
            bucket = in(reg) bucket,
            options(nostack),
        );
    }
    slot != 0
}

/// Takes up to `most` of the last pointers of the bucket's array to `taken`. Returns how many.
///
/// # Safety
/// The module's premises; `bucket` is the step of a header in a slot; `taken` is valid for writes of `most`
/// pointers.
#[inline(never)]
pub(super) unsafe fn pop_batch(
    slots: usize,
    area: isize,
    bucket: usize,
    taken: *mut *mut u8,
    most: usize,
) -> usize {
    let count: usize;
    // SAFETY: the module's premises. Offsets are those of `Header`. Stores before the commit go to the caller's array.
    unsafe {
        section!(
            "xor {n:e}, {n:e}";
            "movzx ecx, word ptr [{t} + {bucket}*8]",
            "movzx {c:e}, word ptr [{t} + {bucket}*8 + 4]",
            "mov {n}, {c}",
            "sub {n}, rcx",
            "jbe 6b",
            "cmp {n}, {most}",
            "cmova {n}, {most}",
            "sub {c}, {n}",
            "lea rsi, [{t} + {c}*8]",
            "mov rdi, {taken}",
            "mov rcx, {n}",
            "rep movsq",
            "mov word ptr [{t} + {bucket}*8 + 4], {c:x}",;
            t = out(reg) _,
            c = out(reg) _,
            n = out(reg) count,
            taken = in(reg) taken,
            most = in(reg) most,
            slots = in(reg) slots,
            area = in(reg) area,
            bucket = in(reg) bucket,
            out("rcx") _,
            out("rsi") _,
            out("rdi") _,
            options(nostack),
        );
    }
    count
}

/// Puts as many of the `count` pointers at `blocks` at the end of the bucket's array as there is room for, from the
/// first. Returns how many.
///
/// # Safety
/// The module's premises; `bucket` is the step of a header in a slot; `blocks` is valid for reads of `count`
/// pointers.
#[inline(never)]
pub(super) unsafe fn push_batch(
    slots: usize,
    area: isize,
    bucket: usize,
    blocks: *const *mut u8,
    count: usize,
) -> usize {
    let pushed: usize;
    // SAFETY: the module's premises. Offsets are those of `Header`. The stores before the commit are past `current`,
    // where no thread reads.
    unsafe {
        section!(
            "xor {n:e}, {n:e}";
            "movzx {n:e}, word ptr [{t} + {bucket}*8 + 2]",
            "movzx {c:e}, word ptr [{t} + {bucket}*8 + 4]",
            "sub {n}, {c}",
            "jbe 6b",
            "cmp {n}, {count}",
            "cmova {n}, {count}",
            "mov rsi, {blocks}",
            "lea rdi, [{t} + {c}*8]",
            "mov rcx, {n}",
            "rep movsq",
            "add {c}, {n}",
            "mov word ptr [{t} + {bucket}*8 + 4], {c:x}",;
            t = out(reg) _,
            c = out(reg) _,
            n = out(reg) pushed,
            blocks = in(reg) blocks,
            count = in(reg) count,
            slots = in(reg) slots,
            area = in(reg) area,
            bucket = in(reg) bucket,
            out("rcx") _,
            out("rsi") _,
            out("rdi") _,
            options(nostack),
        );
    }
    pushed
}

/// Sets the bucket's header, if it is all zero and in front of the address `end`, to `header`. Returns the address of the
/// slot in which it did so, or 0.
///
/// # Safety
/// The module's premises; `bucket` is the step of a header in a slot; slots in front of `end` are writable.
#[inline(never)]
pub(super) unsafe fn prepare(slots: usize, end: usize, area: isize, bucket: usize, header: u64) -> usize {
    let slot: usize;
    // SAFETY: the module's premises. Offsets are those of `Header`.
    unsafe {
        section!(
            "xor {t:e}, {t:e}";
            "cmp {t}, {end}",
            "jae 6b",
            "cmp qword ptr [{t} + {bucket}*8], 0",
            "jne 6b",
            "mov qword ptr [{t} + {bucket}*8], {header}",;
            t = out(reg) slot,
            end = in(reg) end,
            header = in(reg) header,
            slots = in(reg) slots,
            area = in(reg) area,
            bucket = in(reg) bucket,
            options(nostack),
        );
    }
    slot
}

/// The concurrency id under which this thread runs, or ran a moment ago.
///
/// # Safety
/// The module's premise on `area`.
pub(super) unsafe fn concurrency_id(area: isize) -> usize {
    let id: u32;
    // SAFETY: the thread's own area.
    unsafe {
        asm!(
            "mov {id:e}, dword ptr fs:[{area} + 24]",
            id = out(reg) id,
            area = in(reg) area,
            options(nostack, readonly, preserves_flags),
        );
    }
    id as usize
}

const _: () = assert!(super::layout::SLOT_SHIFT == 16, "sections shift by it");
