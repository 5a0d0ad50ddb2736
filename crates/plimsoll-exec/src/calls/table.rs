//! The pointers of every system call of x86-64.
//!
//! A row states the arguments that point to memory, the bytes there, and their way between the program and the kernel. Calls whose
//! memory points to more memory, or that act on the address space, have a kind of their own. A number without a row is
//! [`Kind::Unknown`].

mod rows;

use super::loan::Way;
use rows::{ROWS, WITHOUT_POINTERS};

/// The service that a call needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// No row: the pages of each argument are made present.
    Unknown,
    /// These pointers and no others.
    Plain(&'static [Pointer]),
    /// Bytes of a file: the buffer and its length, which may be served in pieces.
    Transfer(Transfer),
    /// A vector of buffers of a file.
    Vector(Transfer),
    /// `vmsplice`: a vector of pages that the kernel keeps.
    Splice,
    /// `process_vm_readv` and `process_vm_writev`.
    OtherMemory(Transfer),
    /// `sendmsg` and `recvmsg`.
    Message(Transfer),
    /// `sendmmsg` and `recvmmsg`.
    Messages(Transfer),
    /// A call on the address space, for `mappings`.
    Memory,
    /// `execve` and `execveat`: the argument of the path.
    Execute(u8),
    /// `clone`, `clone3`, `fork` and `vfork`.
    Fork,
    /// A futex, whose word must be the program's own.
    Futex,
    /// `futex_waitv`.
    FutexVector,
    /// A call that changes the signal mask or the alternate stack, which the return of the handler would undo.
    Frame,
    /// A call with a signal mask for its duration: the argument of the mask, and the other pointers.
    Masked(u8, &'static [Pointer]),
    /// `pselect6`, whose mask is behind a second pointer.
    Select,
    /// The kinds of memory depend on a command.
    Ioctl,
    Fcntl,
    Prctl,
    ArchPrctl,
    SetSocketOption,
    Seccomp,
    Ptrace,
    /// The kernel uses the memory as long as the thread lives.
    Registered(&'static [Pointer]),
}

/// The direction of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transfer {
    /// The program's bytes go to the kernel.
    Out,
    /// The kernel's bytes come to the program.
    In,
}

/// The bytes behind a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    Bytes(u32),
    /// As many as the argument states.
    Argument(u8),
    /// As many units of the size.
    Times(u8, u32),
    /// As many as the argument states, after a header of the size.
    After(u32, u8),
    /// A set with as many bits as the argument states, in whole words.
    Bits(u8),
    /// A text with its NUL, or as many bytes.
    Text(u32),
    /// As many as the 32-bit number states that the argument points to.
    At(u8),
    /// As many as the 32-bit number at the offset in them states, at least the number of the second value.
    Own(u32, u32),
    /// A header of the size, and as many as the 32-bit number at its start states.
    Header(u32),
    /// Unknown: to the end of the page.
    Page,
}

/// An argument that points to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pointer {
    pub(super) argument: u8,
    pub(super) way: Way,
    pub(super) length: Length,
}

/// The numbers of calls are below it.
const NUMBERS: usize = 512;

/// The rows by number.
static KINDS: [Kind; NUMBERS] = by_number();

const fn by_number() -> [Kind; NUMBERS] {
    let mut kinds = [Kind::Unknown; NUMBERS];
    let mut index = 0;
    while index < WITHOUT_POINTERS.len() {
        kinds[WITHOUT_POINTERS[index] as usize] = Kind::Plain(&[]);
        index += 1;
    }
    let mut index = 0;
    while index < ROWS.len() {
        kinds[ROWS[index].0 as usize] = ROWS[index].1;
        index += 1;
    }
    kinds
}

/// The service that the call of that number needs.
pub(super) fn kind(number: i64) -> Kind {
    let number = usize::try_from(number).unwrap_or(NUMBERS);
    KINDS.get(number).copied().unwrap_or(Kind::Unknown)
}

#[cfg(test)]
mod tests;
