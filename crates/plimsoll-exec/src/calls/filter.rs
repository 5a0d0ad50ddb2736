//! The filter of system calls: it traps a call with an argument in the arena.
//!
//! A filter stays for ever, also in the programs that this process executes. So it must do no harm to a program without the
//! library (a static one): it traps only arguments in the arena's address range. A static program has no such addresses; if it
//! passes such a number, for example a file offset of 16 TiB, SIGSYS ends it. The filter has no effect in 32-bit calls, which
//! cannot have such addresses.
//!
//! Exempt are calls from the page of [`trampoline`](crate::trampoline), and the return from a signal handler, which has no
//! arguments: its registers are the interrupted code's.
#![allow(unsafe_code, reason = "the filter of the process")]

use std::mem::offset_of;

use plimsoll_os::Errno;

use crate::arena::{ARENA, ARENA_BYTES, PAGE};
use crate::trampoline::{TRAMPOLINE, call, check};

/// The number that the filter sends along: a SIGSYS with another one is of a filter of the program.
pub(super) const MARK: u16 = 0x504c;

/// The kernel's description of a call.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Data {
    number: u32,
    architecture: u32,
    instruction: u64,
    arguments: [u64; 6],
}

const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
const RET_ALLOW: u32 = 0x7fff_0000;
const RET_TRAP: u32 = 0x0003_0000 | MARK as u32;
const RET_NO_CALL: u32 = 0x0005_0000 | libc::ENOSYS as u32;

/// Calls after which the kernel uses memory that it is not told of again: without them programs have others.
const REFUSED: [i64; 2] = [libc::SYS_io_uring_setup, libc::SYS_io_setup];

/// The upper halves of the arena's addresses.
const FIRST: u32 = (ARENA >> 32) as u32;
const END: u32 = ((ARENA + ARENA_BYTES) >> 32) as u32;
const _: () = assert!(ARENA.is_multiple_of(1 << 32) && ARENA_BYTES.is_multiple_of(1 << 32));
// The page of the exempt instruction is the first one of its upper half.
const _: () = assert!(TRAMPOLINE.is_multiple_of(1 << 32) && PAGE < 1 << 32);

/// The instructions of the filter.
const LENGTH: usize = 4 + 2 * REFUSED.len() + 6 * 3 + 7;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_NOT_LESS: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const fn load(offset: usize) -> libc::sock_filter {
    libc::sock_filter {
        code: LOAD,
        jt: 0,
        jf: 0,
        k: offset as u32,
    }
}

/// A comparison: instructions to skip if it is true, and if it is not.
const fn compare(code: u16, value: u32, yes: u8, no: u8) -> libc::sock_filter {
    libc::sock_filter {
        code,
        jt: yes,
        jf: no,
        k: value,
    }
}

const fn result(action: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: RETURN,
        jt: 0,
        jf: 0,
        k: action,
    }
}

const fn program() -> [libc::sock_filter; LENGTH] {
    let mut code = [result(RET_ALLOW); LENGTH];
    let (allow, trap) = (LENGTH - 2, LENGTH - 1);
    code[0] = load(offset_of!(Data, architecture));
    code[1] = compare(IF_EQUAL, AUDIT_ARCH_X86_64, 0, (allow - 2) as u8);
    code[2] = load(offset_of!(Data, number));
    code[3] = compare(IF_EQUAL, libc::SYS_rt_sigreturn as u32, (allow - 4) as u8, 0);
    let mut at = 4;
    let mut index = 0;
    while index < REFUSED.len() {
        code[at] = compare(IF_EQUAL, REFUSED[index] as u32, 0, 1);
        code[at + 1] = result(RET_NO_CALL);
        (at, index) = (at + 2, index + 1);
    }
    let origin = at + 6 * 3;
    let mut argument = 0;
    while argument < 6 {
        // The upper half: the machine is little-endian.
        code[at] = load(offset_of!(Data, arguments) + 8 * argument + 4);
        code[at + 1] = compare(IF_NOT_LESS, FIRST, 0, 1);
        let next = (origin + 1 - (at + 3)) as u8;
        // Above the arena the next argument is looked at; in it, the instruction.
        code[at + 2] = compare(IF_NOT_LESS, END, 0, next);
        (at, argument) = (at + 3, argument + 1);
    }
    // No argument is in the arena.
    code[origin] = result(RET_ALLOW);
    code[origin + 1] = load(offset_of!(Data, instruction) + 4);
    code[origin + 2] = compare(IF_EQUAL, (TRAMPOLINE >> 32) as u32, 0, (trap - origin - 3) as u8);
    code[origin + 3] = load(offset_of!(Data, instruction));
    code[origin + 4] = compare(IF_NOT_LESS, PAGE as u32, (trap - origin - 5) as u8, 0);
    // Here is `allow`.
    code[trap] = result(RET_TRAP);
    code
}

static PROGRAM: [libc::sock_filter; LENGTH] = program();

/// Installs the filter in every thread of the process. The process gives up new privileges by execution (`no_new_privs`).
///
/// # Errors
/// The kernel has no filters, or another thread has one that this thread does not have.
pub(super) fn install() -> Result<(), Errno> {
    const SECCOMP_SET_MODE_FILTER: usize = 1;
    const SECCOMP_FILTER_FLAG_TSYNC: usize = 1;
    let program = libc::sock_fprog {
        len: LENGTH as u16,
        filter: PROGRAM.as_ptr().cast_mut(),
    };
    let arguments = [
        SECCOMP_SET_MODE_FILTER,
        SECCOMP_FILTER_FLAG_TSYNC,
        (&raw const program) as usize,
        0,
        0,
        0,
    ];
    // SAFETY: the kernel copies the filter, which traps calls that the handler serves.
    unsafe {
        check(call(
            libc::SYS_prctl,
            [libc::PR_SET_NO_NEW_PRIVS as usize, 1, 0, 0, 0, 0],
        ))?;
        match check(call(libc::SYS_seccomp, arguments))? {
            0 => Ok(()),
            // The number of a thread that cannot have the filter.
            _ => Err(Errno::BUSY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the filter as the kernel would.
    fn run(data: &Data) -> u32 {
        // SAFETY: the description is integers alone.
        let bytes: [u8; size_of::<Data>()] = unsafe { std::mem::transmute(*data) };
        let (mut at, mut accumulator) = (0, 0u32);
        loop {
            let instruction = PROGRAM[at];
            at += 1;
            let jump = |holds| usize::from(if holds { instruction.jt } else { instruction.jf });
            match instruction.code {
                LOAD => {
                    let offset = instruction.k as usize;
                    accumulator = u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("4 bytes"));
                }
                IF_EQUAL => at += jump(accumulator == instruction.k),
                IF_NOT_LESS => at += jump(accumulator >= instruction.k),
                RETURN => return instruction.k,
                other => panic!("unknown instruction {other:#x}"),
            }
        }
    }

    /// The meaning of the filter.
    fn model(data: &Data) -> u32 {
        let number = i64::from(data.number);
        if data.architecture != AUDIT_ARCH_X86_64 || number == libc::SYS_rt_sigreturn {
            return RET_ALLOW;
        }
        if REFUSED.contains(&number) {
            return RET_NO_CALL;
        }
        let is_managed = data
            .arguments
            .iter()
            .any(|argument| crate::arena::contains(*argument as usize));
        let is_exempt = (TRAMPOLINE..TRAMPOLINE + PAGE).contains(&(data.instruction as usize));
        if is_managed && !is_exempt {
            RET_TRAP
        } else {
            RET_ALLOW
        }
    }

    /// A generator of numbers (splitmix64).
    struct Numbers(u64);

    impl Numbers {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ mixed >> 31
        }

        fn one_of(&mut self, values: &[u64]) -> u64 {
            values[self.next() as usize % values.len()]
        }

        fn address(&mut self, base: usize, bytes: usize) -> u64 {
            let base = base as u64;
            let end = base + bytes as u64;
            let inner = base + self.next() % (bytes as u64);
            let random = self.next();
            self.one_of(&[
                base,
                base - 1,
                end,
                end - 1,
                inner,
                random,
                0,
                u64::MAX,
                u64::from(random as u32),
            ])
        }
    }

    #[test]
    fn the_filter_does_what_its_model_says() {
        let mut numbers = Numbers(1);
        let mut seen = std::collections::BTreeMap::<u32, u32>::new();
        for _ in 0..500_000 {
            let few = numbers.next().is_multiple_of(2);
            let any = numbers.next();
            let data = Data {
                number: numbers.one_of(&[0, 1, 15, 425, 206, 0x4000_000f, any]) as u32,
                architecture: numbers.one_of(&[
                    AUDIT_ARCH_X86_64.into(),
                    AUDIT_ARCH_X86_64.into(),
                    0x4000_0003,
                ]) as u32,
                instruction: numbers.address(TRAMPOLINE, PAGE),
                arguments: std::array::from_fn(|_| match few && !numbers.next().is_multiple_of(6) {
                    true => 0,
                    false => numbers.address(ARENA, ARENA_BYTES),
                }),
            };
            let action = run(&data);
            assert_eq!(action, model(&data), "{data:x?}");
            *seen.entry(action).or_default() += 1;
        }
        assert!(
            seen.len() == 3 && seen.values().all(|count| *count > 1000),
            "{seen:?}"
        );
    }

    #[test]
    fn every_jump_stays_in_the_filter() {
        for (at, instruction) in PROGRAM[..LENGTH - 1].iter().enumerate() {
            let furthest = at + 1 + usize::from(instruction.jt.max(instruction.jf));
            assert!(furthest < LENGTH, "{at}");
        }
        assert_eq!(PROGRAM[LENGTH - 1].k, RET_TRAP);
        assert_eq!(PROGRAM[LENGTH - 2].k, RET_ALLOW);
    }
}
