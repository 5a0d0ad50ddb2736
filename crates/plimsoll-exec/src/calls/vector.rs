//! Vectors of buffers: `readv`, `writev` and their like, and those of messages.
#![allow(unsafe_code, reason = "vectors of the program, and system calls")]

use std::slice;

use libc::iovec;
use plimsoll_os::Errno;

use super::Call;
use super::chunked::{self, MOST_AT_ONCE};
use super::loan::{Loan, MOST_COPIED};
use super::memory;
use super::table::Transfer;
use crate::arena::PAGE;

/// Buffers of a vector: `UIO_MAXIOV` of the kernel.
const MOST_BUFFERS: usize = 1024;
/// Buffers up to here are copied, all of a vector into one piece of memory; larger ones are pinned.
const SMALL: usize = 4 * PAGE;
/// Bytes that are copied of buffers which cannot be pinned, if the call may transfer fewer.
const PIECE: usize = 1 << 20;
/// The same, if the call should transfer all of them. No message has more.
const MOST_WHOLE: usize = MOST_COPIED - PAGE;

/// The demands on the transfer of a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Demands {
    /// The call should transfer all bytes: a datagram, or a call that waits until they are transferred.
    pub(super) is_whole: bool,
    /// The kernel keeps the pages of the buffers.
    pub(super) is_lasting: bool,
}

impl Demands {
    /// Fewer bytes may be transferred, by the end of the call.
    const NONE: Demands = Demands {
        is_whole: false,
        is_lasting: false,
    };

    /// Bytes that are copied of buffers which cannot be pinned.
    fn most_copied(self) -> usize {
        match self.is_whole {
            true => MOST_WHOLE,
            false => PIECE,
        }
    }
}

/// A vector for the kernel in place of the program's.
pub(super) struct Buffers<'l> {
    program: &'l [iovec],
    kernel: &'l mut [iovec],
    /// Buffers that the call has; others are behind one that was cut.
    pub(super) count: usize,
    way: Transfer,
}

impl<'l> Buffers<'l> {
    /// Lends the buffers of the vector at `vector`, without its first `done` bytes.
    ///
    /// # Errors
    /// Those of the kernel: [`Errno::INVAL`] for too many buffers or too many bytes, [`Errno::FAULT`]; [`Errno::NOMEM`] if neither
    /// pins nor copies are possible.
    pub(super) fn lend(
        loan: &mut Loan,
        vector: usize,
        count: usize,
        done: usize,
        way: Transfer,
        demands: Demands,
    ) -> Result<Buffers<'l>, Errno> {
        if count > MOST_BUFFERS {
            return Err(Errno::INVAL);
        }
        let bytes = count * size_of::<iovec>();
        let memory = loan.take(2 * bytes)?;
        // SAFETY: the memory is the loan's, and holds two vectors of that length. Any bytes are values of them: they are set
        // before they are read.
        let (program, kernel) = unsafe {
            memory::copy_in(vector, memory as *mut u8, bytes)?;
            (
                slice::from_raw_parts_mut(memory as *mut iovec, count),
                slice::from_raw_parts_mut((memory + bytes) as *mut iovec, count),
            )
        };
        skip(program, done);
        kernel.copy_from_slice(program);
        let mut buffers = Buffers {
            program,
            kernel,
            count,
            way,
        };
        buffers.lend_all(loan, demands)?;
        Ok(buffers)
    }

    /// Bytes of the program's vector, as far as the kernel transfers them at once.
    pub(super) fn bytes(&self) -> usize {
        let lengths = self.program.iter().map(|buffer| buffer.iov_len);
        lengths.fold(0, usize::saturating_add).min(MOST_AT_ONCE)
    }

    /// Whether a call with this result has transferred all bytes that it had, of a vector that was cut.
    pub(super) fn is_continued(&self, result: isize) -> bool {
        let lengths = self.kernel[..self.count].iter().map(|buffer| buffer.iov_len);
        let lent = lengths.fold(0, usize::saturating_add);
        result == lent as isize && lent < self.bytes()
    }

    fn lend_all(&mut self, loan: &mut Loan, demands: Demands) -> Result<(), Errno> {
        let small = small_bytes(self.program)?;
        let mut copies = match demands.is_lasting || small == 0 {
            true => 0,
            false => loan.take(small)?,
        };
        let mut refused = [false; MOST_BUFFERS];
        for (index, is_refused) in refused.iter_mut().enumerate().take(self.count) {
            let buffer = self.program[index];
            if !is_absent(&buffer) {
                continue;
            }
            if !demands.is_lasting && buffer.iov_len <= SMALL {
                self.copy(index, copies, buffer.iov_len)?;
                copies += buffer.iov_len;
            } else {
                *is_refused = !loan.pin(buffer.iov_base as usize, buffer.iov_len);
            }
        }
        match refused.contains(&true) {
            true => self.copy_refused(loan, &refused, demands.most_copied()),
            false => Ok(()),
        }
    }

    /// Copies the buffers that are not pinned, all of them into one mapping. Cuts the vector behind `most` bytes of them.
    fn copy_refused(
        &mut self,
        loan: &mut Loan,
        refused: &[bool; MOST_BUFFERS],
        most: usize,
    ) -> Result<(), Errno> {
        let lengths = (0..self.count).filter(|index| refused[*index]);
        let bytes = lengths.fold(0, |sum: usize, index| {
            sum.saturating_add(self.program[index].iov_len)
        });
        let mut rest = bytes.min(most);
        let mut copies = loan.take_mapping(rest)?;
        for (index, _) in refused.iter().enumerate().filter(|(_, is_refused)| **is_refused) {
            let length = self.program[index].iov_len.min(rest);
            if length == 0 {
                self.count = index;
                break;
            }
            self.copy(index, copies, length)?;
            copies += length;
            rest -= length;
            if length < self.program[index].iov_len {
                self.count = index + 1;
                break;
            }
        }
        Ok(())
    }

    /// Has the kernel use `bytes` at `copy` for a buffer.
    fn copy(&mut self, index: usize, copy: usize, bytes: usize) -> Result<(), Errno> {
        let user = self.program[index].iov_base as usize;
        match self.way {
            // SAFETY: the copy is memory of the loan.
            Transfer::Out => unsafe { memory::copy_in(user, copy as *mut u8, bytes) }?,
            Transfer::In if !memory::is_readable(user, 1) => return Err(Errno::FAULT),
            Transfer::In => {}
        }
        self.kernel[index] = iovec {
            iov_base: copy as *mut libc::c_void,
            iov_len: bytes,
        };
        Ok(())
    }

    /// The vector for the kernel.
    pub(super) fn address(&self) -> usize {
        self.kernel.as_ptr() as usize
    }

    /// Copies to the program the bytes that a call with this result wrote into copies. Returns the result, or its error.
    pub(super) fn settle(&self, result: isize) -> isize {
        if self.way == Transfer::Out {
            return result;
        }
        let mut rest = usize::try_from(result).unwrap_or(0);
        for (program, kernel) in self.program.iter().zip(self.kernel.iter()).take(self.count) {
            let bytes = rest.min(kernel.iov_len);
            rest -= bytes;
            if bytes == 0 || program.iov_base == kernel.iov_base {
                continue;
            }
            // SAFETY: the copy is memory of the loan, and the program asked the kernel to write to its buffer.
            let copied =
                unsafe { memory::copy_out(kernel.iov_base.cast(), program.iov_base as usize, bytes) };
            if let Err(error) = copied {
                return -(error.raw() as isize);
            }
        }
        result
    }
}

/// Removes the first `bytes` of a vector.
fn skip(vector: &mut [iovec], mut bytes: usize) {
    for buffer in vector {
        let part = buffer.iov_len.min(bytes);
        buffer.iov_base = buffer.iov_base.wrapping_byte_add(part);
        buffer.iov_len -= part;
        bytes -= part;
    }
}

/// Whether a buffer has bytes in the arena.
fn is_absent(buffer: &iovec) -> bool {
    buffer.iov_len > 0 && memory::is_managed(buffer.iov_base as usize)
}

/// Bytes of the small buffers in the arena.
fn small_bytes(buffers: &[iovec]) -> Result<usize, Errno> {
    let mut small = 0;
    for buffer in buffers {
        if isize::try_from(buffer.iov_len).is_err() {
            return Err(Errno::INVAL);
        }
        if is_absent(buffer) && buffer.iov_len <= SMALL {
            // At most 1024 times 16 KiB.
            small += buffer.iov_len;
        }
    }
    Ok(small)
}

/// `readv`, `writev`, and their like.
///
/// # Safety
/// The program asked for the effects of the call.
pub(super) unsafe fn vector(call: &Call, way: Transfer) -> Result<isize, Errno> {
    let [file, vector, count, offset, upper, flags] = call.arguments;
    chunked::in_pieces(|done| {
        let mut loan = Loan::new();
        let buffers = Buffers::lend(&mut loan, vector, count, done, way, Demands::NONE)?;
        let offset = match offset {
            // The place of the descriptor, which each piece changes.
            usize::MAX => offset,
            _ => offset.wrapping_add(done),
        };
        // SAFETY: the caller's premise.
        let result = unsafe { call.make([file, buffers.address(), buffers.count, offset, upper, flags]) };
        let goes_on = buffers.is_continued(result) && chunked::goes_on(call, way);
        Ok((buffers.settle(result), goes_on))
    })
}

/// `vmsplice`. At the end of a pipe for writes the kernel keeps the pages, or those of a copy; at the other end it copies the bytes
/// of the pipe to the buffers.
///
/// # Safety
/// The program asked for the effects of the call.
pub(super) unsafe fn splice(call: &Call) -> Result<isize, Errno> {
    let mut loan = Loan::new();
    let [file, vector, count, flags, ..] = call.arguments;
    let way = match chunked::is_read_only(file) {
        true => Transfer::In,
        false => Transfer::Out,
    };
    let demands = Demands {
        is_whole: false,
        is_lasting: way == Transfer::Out,
    };
    let buffers = Buffers::lend(&mut loan, vector, count, 0, way, demands)?;
    // SAFETY: the caller's premise.
    let result = unsafe { call.make([file, buffers.address(), buffers.count, flags, 0, 0]) };
    Ok(buffers.settle(result))
}

/// `process_vm_readv` and `process_vm_writev`: buffers of this process, and addresses of another one.
///
/// # Safety
/// The program asked for the effects of the call.
pub(super) unsafe fn other_memory(call: &Call, way: Transfer) -> Result<isize, Errno> {
    let mut loan = Loan::new();
    let [process, own, own_count, other, other_count, flags] = call.arguments;
    if other_count > MOST_BUFFERS {
        return Err(Errno::INVAL);
    }
    let buffers = Buffers::lend(&mut loan, own, own_count, 0, way, Demands::NONE)?;
    let bytes = other_count * size_of::<iovec>();
    let copy = loan.take(bytes)?;
    // SAFETY: the copy is memory of the loan; the rest is the caller's premise.
    let result = unsafe {
        memory::copy_in(other, copy as *mut u8, bytes)?;
        // The other process may be this one.
        super::plain::bring_targets(copy, bytes);
        call.make([
            process,
            buffers.address(),
            buffers.count,
            copy,
            other_count,
            flags,
        ])
    };
    Ok(buffers.settle(result))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::super::testing::Pages;
    use super::*;

    fn buffer(base: usize, len: usize) -> iovec {
        iovec {
            iov_base: base as *mut libc::c_void,
            iov_len: len,
        }
    }

    #[test]
    fn hostile_vectors_are_refused_as_the_kernel_does() {
        let mut loan = Loan::new();
        let lend = |loan: &mut Loan, vector: &[iovec], count| {
            Buffers::lend(
                loan,
                vector.as_ptr() as usize,
                count,
                0,
                Transfer::Out,
                Demands::NONE,
            )
            .err()
        };
        assert_eq!(lend(&mut loan, &[], usize::MAX), Some(Errno::INVAL));
        assert_eq!(lend(&mut loan, &[], 1025), Some(Errno::INVAL));
        let long = [buffer(8, usize::MAX)];
        assert_eq!(lend(&mut loan, &long, 1), Some(Errno::INVAL));
        let wrong = Buffers::lend(&mut loan, 8, 1, 0, Transfer::Out, Demands::NONE).err();
        assert_eq!(wrong, Some(Errno::FAULT));
        let pages = Pages::of_arena(1);
        pages.forbid(0);
        let forbidden = [buffer(pages.start(), 10)];
        assert_eq!(lend(&mut loan, &forbidden, 1), Some(Errno::FAULT));
    }

    #[test]
    fn a_vector_is_gathered_and_scattered_in_order() {
        crate::trampoline::map().expect("free addresses");
        let pages = Pages::of_arena(12);
        let own = *b"-own-";
        pages.fill(0, b"first");
        pages.fill(4096, &[b'x'; 5 * 4096]);
        let parts = [
            buffer(pages.start(), 5),
            buffer(own.as_ptr() as usize, 5),
            buffer(pages.start() + 4096, 5 * 4096),
        ];
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let call = |number, file: i32, vector: &[iovec]| {
            Call::new(
                number,
                [file as usize, vector.as_ptr() as usize, vector.len(), 0, 0, 0],
            )
        };
        // SAFETY: the kernel reads the test's memory.
        let written = unsafe { super::super::serve(call(libc::SYS_writev, writer.as_raw_fd(), &parts)) };
        assert_eq!(written, 10 + 5 * 4096);
        let back = [
            buffer(pages.start() + 6 * 4096, 8),
            buffer(pages.start() + 7 * 4096, 5 * 4096),
        ];
        // SAFETY: the kernel writes to the test's pages.
        let read = unsafe { super::super::serve(call(libc::SYS_readv, reader.as_raw_fd(), &back)) };
        assert_eq!(read, 8 + 5 * 4096);
        assert_eq!(pages.bytes(6 * 4096, 9), b"first-ow\0");
        assert_eq!(pages.bytes(7 * 4096, 4), b"n-xx");
    }

    /// A vector of many large buffers failed with `ENOMEM` if they could not be pinned, and was cut at 1 MiB later: not all programs
    /// expect that of a file.
    #[test]
    fn vectors_of_many_large_buffers_are_served_without_pins() {
        const COUNT: usize = 100;
        const BYTES: usize = 5 * PAGE;
        crate::trampoline::map().expect("free addresses");
        let _refused = super::super::testing::without_pins();
        let pages = Pages::of_arena(COUNT * BYTES / PAGE);
        let sent: Vec<u8> = (0..COUNT * BYTES).map(|number| (number % 247) as u8).collect();
        pages.fill(0, &sent);
        let parts: Vec<_> = (0..COUNT)
            .map(|index| buffer(pages.start() + index * BYTES, BYTES))
            .collect();
        // SAFETY: a new descriptor.
        let file = unsafe { libc::memfd_create(c"test".as_ptr(), 0) } as usize;
        let call =
            |number, offset: usize| Call::new(number, [file, parts.as_ptr() as usize, COUNT, offset, 0, 0]);
        // SAFETY: the kernel reads and writes the test's memory.
        let serve = |call| unsafe { super::super::serve(call) };
        // In two pieces: the last buffer of the first one is cut. A file takes all.
        const { assert!(PIECE < COUNT * BYTES && !PIECE.is_multiple_of(BYTES)) };
        let seek = |offset| {
            // SAFETY: changes the test's file alone.
            let now = unsafe { libc::lseek(file as i32, offset, libc::SEEK_SET) };
            assert_eq!(now, offset);
        };
        for (write, read, offset) in [
            (libc::SYS_pwritev, libc::SYS_preadv, 77),
            (libc::SYS_pwritev2, libc::SYS_preadv2, usize::MAX),
            (libc::SYS_writev, libc::SYS_readv, 0),
        ] {
            pages.fill(0, &sent);
            seek(5);
            assert_eq!(serve(call(write, offset)), sent.len() as isize);
            pages.fill(0, &vec![0; COUNT * BYTES]);
            seek(5);
            assert_eq!(serve(call(read, offset)), sent.len() as isize);
            assert!(pages.bytes(0, COUNT * BYTES) == sent);
        }
        // A pipe without room for all takes a part of the first piece.
        let (reader, writer) = std::io::pipe().expect("a pipe");
        // SAFETY: changes the test's pipe alone.
        unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        let arguments = [
            writer.as_raw_fd() as usize,
            parts.as_ptr() as usize,
            COUNT,
            0,
            0,
            0,
        ];
        let part = serve(Call::new(libc::SYS_writev, arguments));
        assert!((1..PIECE as isize).contains(&part), "{part}");
        drop(reader);
        // SAFETY: the test's descriptor.
        unsafe { libc::close(file as i32) };
    }

    /// The kernel uses the pages of `vmsplice` after the call, when a copy on the stack is gone.
    #[test]
    fn pages_of_a_splice_without_pins_outlive_the_call() {
        crate::trampoline::map().expect("free addresses");
        let _refused = super::super::testing::without_pins();
        let pages = Pages::of_arena(1);
        pages.fill(0, b"spliced");
        let parts = [buffer(pages.start(), 7)];
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let arguments = [writer.as_raw_fd() as usize, parts.as_ptr() as usize, 1, 0, 0, 0];
        // SAFETY: the kernel reads the test's memory.
        let spliced = unsafe { super::super::serve(Call::new(libc::SYS_vmsplice, arguments)) };
        assert_eq!(spliced, 7);
        let mut read = [0; 7];
        std::io::Read::read_exact(&mut &reader, &mut read).expect("the pipe has them");
        assert_eq!(&read, b"spliced");
    }

    /// Sends `bytes` through a pipe, and has `vmsplice` at its end for reads distribute them to `buffers`.
    fn splice_from_pipe(bytes: &[u8], buffers: &[iovec]) -> isize {
        crate::trampoline::map().expect("free addresses");
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        std::io::Write::write_all(&mut writer, bytes).expect("less than a pipe takes");
        let arguments = [
            reader.as_raw_fd() as usize,
            buffers.as_ptr() as usize,
            buffers.len(),
            0,
            0,
            0,
        ];
        // SAFETY: the kernel writes to the test's pages.
        unsafe { super::super::serve(Call::new(libc::SYS_vmsplice, arguments)) }
    }

    /// The bytes of buffers that were not pinned were lost: 16 are pinned at most.
    #[test]
    fn a_splice_from_a_pipe_fills_many_small_buffers() {
        const COUNT: usize = 20;
        let pages = Pages::of_arena(COUNT);
        let sent: Vec<u8> = (0..COUNT as u8 * 7).map(|number| number + 1).collect();
        let parts: Vec<_> = (0..COUNT)
            .map(|index| buffer(pages.start() + index * PAGE, 7))
            .collect();
        assert_eq!(splice_from_pipe(&sent, &parts), sent.len() as isize);
        let received: Vec<u8> = (0..COUNT)
            .flat_map(|index| pages.bytes(index * PAGE, 7))
            .collect();
        assert_eq!(received, sent);
    }

    #[test]
    fn a_splice_from_a_pipe_fills_buffers_that_cannot_be_pinned() {
        const BYTES: usize = 6 * PAGE;
        let _refused = super::super::testing::without_pins();
        let pages = Pages::of_arena(BYTES / PAGE);
        let sent: Vec<u8> = (0..BYTES).map(|number| (number % 239) as u8).collect();
        let parts = [
            buffer(pages.start(), PAGE / 2),
            buffer(pages.start() + PAGE / 2, BYTES - PAGE / 2),
        ];
        assert_eq!(splice_from_pipe(&sent, &parts), BYTES as isize);
        assert!(pages.bytes(0, BYTES) == sent);
    }

    /// Each call copied all of the vector, though a pipe takes a part, and failed with `ENOMEM` above [`MOST_COPIED`].
    #[test]
    fn a_splice_of_more_than_any_copy_takes_a_part() {
        crate::trampoline::map().expect("free addresses");
        let _refused = super::super::testing::without_pins();
        let count = MOST_COPIED / PAGE + 10;
        let pages = Pages::of_arena(count);
        pages.fill(0, b"spliced");
        let parts = [buffer(pages.start(), count * PAGE)];
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let flags = libc::SPLICE_F_NONBLOCK as usize;
        let arguments = [
            writer.as_raw_fd() as usize,
            parts.as_ptr() as usize,
            1,
            flags,
            0,
            0,
        ];
        // SAFETY: the kernel reads the test's memory.
        let spliced = unsafe { super::super::serve(Call::new(libc::SYS_vmsplice, arguments)) };
        assert!((PAGE..=PIECE).contains(&(spliced as usize)), "{spliced}");
        let mut read = [0; 7];
        std::io::Read::read_exact(&mut &reader, &mut read).expect("the pipe has them");
        assert_eq!(&read, b"spliced");
    }
}
