//! Transfers of bytes: `read`, `write`, and their like.
//!
//! A large buffer cannot be pinned whole: half of the budget is the limit. So a transfer that may end early is made in pieces. A
//! datagram, a message, and the record of a device are one transfer: pinned or copied whole.
#![allow(unsafe_code, reason = "system calls")]

use std::mem::MaybeUninit;

use plimsoll_os::Errno;

use super::Call;
use super::loan::{self, Loan, MOST_COPIED, Manner, Way};
use super::memory;
use super::plain;
use super::table::{Length, Pointer, Transfer};
use crate::arena::PAGE;
use crate::trampoline;

/// Bytes of a piece.
const PIECE: usize = 1 << 20;
/// Bytes that the kernel transfers at once, at most (`MAX_RW_COUNT`).
pub(super) const MOST_AT_ONCE: usize = 0x7fff_f000;
/// The alignment of direct I/O.
const SECTOR: usize = 512;

/// The way in which a transfer may be made in pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pieces {
    /// Not at all.
    None,
    /// The first piece alone: the next one might wait, though the program has bytes to go on with.
    First,
    /// One after the other.
    All,
}

/// The arguments of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    buffer: usize,
    length: usize,
    /// The argument that is the place in the file.
    offset: Option<usize>,
    others: &'static [Pointer],
}

/// The arguments of the call of that number.
fn shape(number: i64) -> Shape {
    const SENT_TO: &[Pointer] = &[Pointer {
        argument: 4,
        way: Way::In,
        length: Length::Argument(5),
    }];
    const RECEIVED_FROM: &[Pointer] = &[
        Pointer {
            argument: 4,
            way: Way::Both,
            length: Length::At(5),
        },
        Pointer {
            argument: 5,
            way: Way::Both,
            length: Length::Bytes(4),
        },
    ];
    let common = Shape {
        buffer: 1,
        length: 2,
        offset: None,
        others: &[],
    };
    match number {
        libc::SYS_pread64 | libc::SYS_pwrite64 => Shape {
            offset: Some(3),
            ..common
        },
        libc::SYS_sendto => Shape {
            others: SENT_TO,
            ..common
        },
        libc::SYS_recvfrom => Shape {
            others: RECEIVED_FROM,
            ..common
        },
        libc::SYS_getrandom => Shape {
            buffer: 0,
            length: 1,
            ..common
        },
        _ => common,
    }
}

/// Whether a transfer that was cut goes on with the next piece: it ends early for an error alone.
pub(super) fn goes_on(call: &Call, way: Transfer) -> bool {
    pieces(call, way) == Pieces::All
}

/// Makes a transfer in pieces, up to an error or a short one. `make` transfers the bytes behind those that are done, and returns its
/// result, and whether it was a whole piece with another one behind it.
pub(super) fn in_pieces(mut make: impl FnMut(usize) -> Result<(isize, bool), Errno>) -> Result<isize, Errno> {
    let mut done = 0;
    loop {
        match make(done) {
            Ok((moved @ 1.., true)) => done += moved as usize,
            Ok((moved @ 1.., false)) => return Ok(done as isize + moved),
            // The next call of the program meets the error.
            _ if done > 0 => return Ok(done as isize),
            other => return other.map(|(result, _)| result),
        }
    }
}

/// Serves a transfer.
///
/// # Safety
/// The program asked for the effects of the call.
pub(super) unsafe fn transfer(call: &Call, way: Transfer) -> Result<isize, Errno> {
    let shape = shape(call.number);
    let bytes = call.arguments[shape.length];
    let is_large = bytes > PIECE && memory::is_managed(call.arguments[shape.buffer]);
    // SAFETY: the caller's premise.
    unsafe {
        match if is_large { pieces(call, way) } else { Pieces::None } {
            Pieces::None => one(call, &shape, way, whole(&shape, call.arguments)),
            Pieces::First => one(call, &shape, way, piece(&shape, call.arguments, 0)),
            Pieces::All => all(call, &shape, way),
        }
    }
}

/// The arguments of a transfer that is not made in pieces. A copy of its buffer has a limit, beyond which no message has bytes.
fn whole(shape: &Shape, arguments: [usize; 6]) -> [usize; 6] {
    let mut arguments = arguments;
    if memory::is_managed(arguments[shape.buffer]) {
        arguments[shape.length] = arguments[shape.length].min(MOST_COPIED - PAGE);
    }
    arguments
}

/// The arguments of the piece that begins after `done` bytes.
fn piece(shape: &Shape, arguments: [usize; 6], done: usize) -> [usize; 6] {
    let mut arguments = arguments;
    arguments[shape.buffer] = arguments[shape.buffer].wrapping_add(done);
    arguments[shape.length] = arguments[shape.length].saturating_sub(done).min(PIECE);
    if let Some(offset) = shape.offset {
        arguments[offset] = arguments[offset].wrapping_add(done);
    }
    arguments
}

/// Makes a transfer in pieces.
unsafe fn all(call: &Call, shape: &Shape, way: Transfer) -> Result<isize, Errno> {
    let mut arguments = call.arguments;
    arguments[shape.length] = arguments[shape.length].min(MOST_AT_ONCE);
    let bytes = arguments[shape.length];
    in_pieces(|done| {
        // SAFETY: the caller's premise.
        let moved = unsafe { one(call, shape, way, piece(shape, arguments, done)) }?;
        Ok((moved, moved == PIECE as isize && done + PIECE < bytes))
    })
}

/// Makes a transfer with its buffer pinned or copied.
unsafe fn one(call: &Call, shape: &Shape, way: Transfer, arguments: [usize; 6]) -> Result<isize, Errno> {
    let mut loan = Loan::new();
    let mut lent = plain::lend(&mut loan, arguments, shape.others)?;
    let (user, bytes) = (arguments[shape.buffer], arguments[shape.length]);
    lent[shape.buffer] = loan.lend(user, bytes, direction(way), manner(call, user, bytes))?;
    // SAFETY: the caller's premise.
    Ok(loan.settle(unsafe { call.make(lent) }))
}

fn direction(way: Transfer) -> Way {
    match way {
        Transfer::Out => Way::In,
        Transfer::In => Way::Returned(1),
    }
}

fn manner(call: &Call, user: usize, bytes: usize) -> Manner {
    let keeps_pages = call.number == libc::SYS_sendto && call.arguments[3] & libc::MSG_ZEROCOPY as usize != 0;
    match keeps_pages {
        true => Manner::Lasting,
        false if (user | bytes).is_multiple_of(SECTOR) && is_direct(call.arguments[0]) => Manner::InPlace,
        false => Manner::Any,
    }
}

/// Whether a transfer needs no pin: its bytes fit into a copy on the stack, and its other arguments are not in the arena.
pub(super) fn is_copied(call: &Call) -> bool {
    let shape = shape(call.number);
    let (user, bytes) = (call.arguments[shape.buffer], call.arguments[shape.length]);
    let is_other = |pointer: &Pointer| memory::is_managed(call.arguments[usize::from(pointer.argument)]);
    bytes <= loan::MOST_ON_STACK
        && !shape.others.iter().any(is_other)
        && manner(call, user, bytes) == Manner::Any
}

/// Whether the buffer of a transfer is present now.
pub(super) fn is_present(call: &Call) -> bool {
    let shape = shape(call.number);
    memory::can_kernel_read(call.arguments[shape.buffer], call.arguments[shape.length])
}

/// Whether the kernel may transfer bytes between a file and memory without the page cache.
fn is_direct(file: usize) -> bool {
    status_flags(file).is_some_and(|flags| flags & libc::O_DIRECT != 0)
}

/// The way in which the transfer of a large buffer may be made in pieces.
fn pieces(call: &Call, way: Transfer) -> Pieces {
    if call.number == libc::SYS_getrandom {
        return Pieces::All;
    }
    let file = call.arguments[0];
    let flags = match call.number {
        libc::SYS_recvfrom | libc::SYS_sendto => call.arguments[3] as i32,
        _ => 0,
    };
    match kind_of(file) {
        Some(libc::S_IFREG | libc::S_IFBLK) => Pieces::All,
        Some(libc::S_IFIFO) => of_stream(way, flags),
        Some(libc::S_IFSOCK) if is_stream(file) => of_stream(way, flags),
        _ => Pieces::None,
    }
}

fn of_stream(way: Transfer, flags: i32) -> Pieces {
    match way {
        Transfer::Out => Pieces::All,
        Transfer::In if flags & libc::MSG_WAITALL != 0 && flags & libc::MSG_PEEK == 0 => Pieces::All,
        Transfer::In => Pieces::First,
    }
}

/// The kind of a file, as the bits of its mode.
fn kind_of(file: usize) -> Option<u32> {
    let mut status = MaybeUninit::<libc::stat>::zeroed();
    let call = Call::new(libc::SYS_fstat, [file, status.as_mut_ptr() as usize, 0, 0, 0, 0]);
    // SAFETY: the kernel writes the status, which is valid as zeroes too.
    let mode = unsafe { (call.make(call.arguments) == 0).then(|| status.assume_init().st_mode) };
    mode.map(|mode| mode & libc::S_IFMT)
}

/// Whether a file is open for reads alone.
pub(super) fn is_read_only(file: usize) -> bool {
    status_flags(file).is_some_and(|flags| flags & libc::O_ACCMODE == libc::O_RDONLY)
}

/// Whether calls on a file do not wait.
pub(super) fn does_not_block(file: usize) -> bool {
    status_flags(file).is_some_and(|flags| flags & libc::O_NONBLOCK != 0)
}

/// The mode of access and the status of an open file (`F_GETFL`).
fn status_flags(file: usize) -> Option<i32> {
    let arguments = [file, libc::F_GETFL as usize, 0, 0, 0, 0];
    // SAFETY: the call takes no memory.
    let flags = unsafe { trampoline::call(libc::SYS_fcntl, arguments) };
    i32::try_from(flags).ok().filter(|flags| *flags >= 0)
}

/// Whether a write to a file may wait after it has taken bytes.
pub(super) fn takes_parts(file: usize) -> bool {
    match kind_of(file) {
        Some(libc::S_IFIFO) => true,
        Some(libc::S_IFSOCK) => is_stream(file),
        Some(libc::S_IFCHR) => is_terminal(file),
        _ => false,
    }
}

fn is_terminal(file: usize) -> bool {
    // More than the kernel's `struct termios`.
    let mut settings = [0u64; 16];
    let arguments = [
        file,
        libc::TCGETS as usize,
        settings.as_mut_ptr() as usize,
        0,
        0,
        0,
    ];
    let call = Call::new(libc::SYS_ioctl, arguments);
    // SAFETY: the kernel writes the settings.
    unsafe { call.make(arguments) == 0 }
}

/// Whether a socket has no messages.
pub(super) fn is_stream(socket: usize) -> bool {
    let mut kind: libc::c_int = 0;
    let mut bytes = size_of_val(&kind) as libc::socklen_t;
    let arguments = [
        socket,
        libc::SOL_SOCKET as usize,
        libc::SO_TYPE as usize,
        (&raw mut kind) as usize,
        (&raw mut bytes) as usize,
        0,
    ];
    let call = Call::new(libc::SYS_getsockopt, arguments);
    // SAFETY: the kernel writes both numbers.
    unsafe { call.make(arguments) == 0 && kind == libc::SOCK_STREAM }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, SeekFrom, Write};
    use std::os::fd::AsRawFd;

    use super::super::testing::Pages;
    use super::*;

    #[test]
    fn pieces_cover_a_transfer_once() {
        let shape = shape(libc::SYS_pread64);
        let total = 2 * PIECE + 5;
        let arguments = [3, 1 << 44, total, 1000, 0, 0];
        let mut done = 0;
        let mut seen = Vec::new();
        while done < total {
            let [file, buffer, length, offset, ..] = piece(&shape, arguments, done);
            assert_eq!((file, buffer, offset), (3, (1 << 44) + done, 1000 + done));
            seen.push(length);
            done += length;
        }
        assert_eq!(seen, [PIECE, PIECE, 5]);
        assert_eq!(
            piece(&shape, [0, usize::MAX, usize::MAX, usize::MAX, 0, 0], 2)[1..4],
            [1, PIECE, 1]
        );
        assert_eq!(piece(&shape, arguments, usize::MAX)[2], 0);
    }

    #[test]
    fn kinds_of_files_decide_on_pieces() {
        crate::trampoline::map().expect("free addresses");
        let of = |file: i32, number, way| {
            let call = Call::new(number, [file as usize, 0, 0, 0, 0, 0]);
            pieces(&call, way)
        };
        let file = tempfile();
        assert_eq!(of(file.as_raw_fd(), libc::SYS_read, Transfer::In), Pieces::All);
        let (reader, writer) = std::io::pipe().expect("a pipe");
        assert_eq!(
            of(reader.as_raw_fd(), libc::SYS_read, Transfer::In),
            Pieces::First
        );
        assert_eq!(
            of(writer.as_raw_fd(), libc::SYS_write, Transfer::Out),
            Pieces::All
        );
        let (datagrams, _other) = std::os::unix::net::UnixDatagram::pair().expect("sockets");
        assert_eq!(
            of(datagrams.as_raw_fd(), libc::SYS_recvfrom, Transfer::In),
            Pieces::None
        );
        let (stream, _other) = std::os::unix::net::UnixStream::pair().expect("sockets");
        assert_eq!(
            of(stream.as_raw_fd(), libc::SYS_recvfrom, Transfer::In),
            Pieces::First
        );
        let null = std::fs::File::open("/dev/null").expect("a device");
        assert_eq!(of(null.as_raw_fd(), libc::SYS_read, Transfer::In), Pieces::None);
        assert_eq!(of(-1, libc::SYS_read, Transfer::In), Pieces::None);
    }

    fn tempfile() -> std::fs::File {
        let name = c"test";
        // SAFETY: a new descriptor, which the file owns.
        unsafe {
            let file = libc::memfd_create(name.as_ptr(), 0);
            std::os::fd::FromRawFd::from_raw_fd(file)
        }
    }

    #[test]
    fn large_transfers_are_as_one_call_would_make_them() {
        check_large_transfers();
    }

    /// Calls of other threads may have pinned all that the budget allows.
    #[test]
    fn large_transfers_without_pins_are_the_same() {
        let _refused = super::super::testing::without_pins();
        check_large_transfers();
    }

    #[test]
    fn short_transfers_of_the_buffer_alone_have_a_copy() {
        crate::trampoline::map().expect("free addresses");
        let pages = Pages::of_arena(4);
        let file = tempfile();
        let is_copied = |number, offset, bytes| {
            let arguments = [
                file.as_raw_fd() as usize,
                pages.start() + offset,
                bytes,
                0,
                pages.start(),
                0,
            ];
            is_copied(&Call::new(number, arguments))
        };
        for number in [libc::SYS_read, libc::SYS_pwrite64] {
            assert!(is_copied(number, PAGE - 1, 4096) && is_copied(number, 0, 4096));
            assert!(!is_copied(number, 0, loan::MOST_ON_STACK + 1));
        }
        // Its address is in the arena too.
        assert!(!is_copied(libc::SYS_recvfrom, 0, 10));
        // As if it were absent.
        pages.forbid(1);
        let is_present = |bytes| {
            let arguments = [0, pages.start() + PAGE - 1, bytes, 0, 0, 0];
            is_present(&Call::new(libc::SYS_read, arguments))
        };
        assert!(is_present(1) && !is_present(2));
    }

    #[test]
    fn direct_transfers_are_in_place() {
        use std::os::unix::fs::OpenOptionsExt;
        crate::trampoline::map().expect("free addresses");
        let path = std::env::temp_dir().join(format!("direct-{}", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).custom_flags(libc::O_DIRECT);
        let opened = options.open(&path);
        let _ = std::fs::remove_file(&path);
        // A file system without direct I/O (tmpfs of old kernels) refuses.
        let Ok(file) = opened else { return };
        let pages = Pages::of_arena(1);
        let arguments = [file.as_raw_fd() as usize, pages.start(), 4096, 0, 0, 0];
        let call = Call::new(libc::SYS_pwrite64, arguments);
        assert_eq!(manner(&call, pages.start(), 4096), Manner::InPlace);
        assert!(!is_copied(&call));
        assert_eq!(manner(&call, pages.start() + 1, 4096), Manner::Any);
    }

    /// Its buffer had to be pinned, and the call failed with `ENOMEM`.
    #[test]
    fn a_transfer_to_a_device_that_is_longer_than_any_copy_takes_a_part() {
        crate::trampoline::map().expect("free addresses");
        let _refused = super::super::testing::without_pins();
        let count = MOST_COPIED / PAGE + 10;
        let pages = Pages::of_arena(count);
        let zero = std::fs::File::open("/dev/zero").expect("a device");
        pages.fill(0, b"x");
        let arguments = [zero.as_raw_fd() as usize, pages.start(), count * PAGE, 0, 0, 0];
        // SAFETY: the kernel writes to the test's pages.
        let read = unsafe { super::super::serve(Call::new(libc::SYS_read, arguments)) };
        assert_eq!(read, (MOST_COPIED - PAGE) as isize);
        assert_eq!(pages.bytes(0, 1), b"\0");
    }

    fn check_large_transfers() {
        crate::trampoline::map().expect("free addresses");
        let pages = Pages::of_arena(1024);
        let bytes: Vec<u8> = (0..3 * PIECE + 77).map(|number| (number % 251) as u8).collect();
        pages.fill(3, &bytes);
        let mut file = tempfile();
        let call = |number, length, offset| {
            Call::new(
                number,
                [file.as_raw_fd() as usize, pages.start() + 3, length, offset, 0, 0],
            )
        };
        let total = bytes.len();
        // SAFETY: the kernel reads and writes the test's pages.
        unsafe {
            assert_eq!(
                super::super::serve(call(libc::SYS_write, total, 0)),
                total as isize
            );
            pages.fill(3, &vec![0; total]);
            assert_eq!(
                super::super::serve(call(libc::SYS_pread64, total + 500, 10)),
                total as isize - 10
            );
        }
        assert_eq!(pages.bytes(3, total - 10), bytes[10..]);
        let mut written = Vec::new();
        file.seek(SeekFrom::Start(0)).expect("a file");
        file.read_to_end(&mut written).expect("a file");
        assert!(written == bytes);
        file.flush().expect("a file");
    }
}
