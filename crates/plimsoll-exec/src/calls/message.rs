//! `sendmsg`, `recvmsg`, and their like for several messages.
#![allow(unsafe_code, reason = "headers of messages, and system calls")]

use std::mem::offset_of;

use libc::msghdr;
use plimsoll_os::Errno;

use super::Call;
use super::chunked;
use super::loan::{Loan, Manner, Way};
use super::memory;
use super::table::Transfer;
use super::vector::{Buffers, Demands};

/// The largest address of a socket.
const MOST_NAME: usize = 128;
/// The largest ancillary data of a message that are received. The kernel sends no more than 20 KiB.
const MOST_CONTROL: usize = 1 << 16;
/// Messages of a call: `UIO_MAXIOV` of the kernel.
const MOST_MESSAGES: usize = 1024;
/// Bytes of a `mmsghdr`, and the offset of its length.
const ENTRY: usize = size_of::<libc::mmsghdr>();
const ENTRY_LENGTH: usize = offset_of!(libc::mmsghdr, msg_len);

/// `sendmsg` and `recvmsg`.
///
/// # Safety
/// The program asked for the effects of the call.
pub(super) unsafe fn message(call: &Call, way: Transfer) -> Result<isize, Errno> {
    let [socket, header, flags, ..] = call.arguments;
    // SAFETY: the caller's premise.
    let done = unsafe { one(call, socket, header, flags, way) }?;
    Ok(done.result)
}

/// A call for one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Done {
    /// The result of the kernel.
    result: isize,
    /// Bytes of the program's buffers.
    bytes: usize,
}

/// Transfers the message with the header at `user`.
unsafe fn one(outer: &Call, socket: usize, user: usize, flags: usize, way: Transfer) -> Result<Done, Errno> {
    let kind = Kind::of(socket, flags, way);
    let mut bytes = 0;
    let result = chunked::in_pieces(|done| {
        // SAFETY: the caller's premise.
        let part = unsafe { part(outer, socket, user, flags, way, kind, done) }?;
        if done == 0 {
            bytes = part.bytes;
        }
        Ok((part.result, part.is_continued && kind.goes_on))
    })?;
    Ok(Done { result, bytes })
}

/// A part of a message.
struct Part {
    result: isize,
    /// Bytes of the program's buffers that were not done before.
    bytes: usize,
    /// All bytes of a message that was cut are transferred.
    is_continued: bool,
}

/// Transfers a message, or the part of it behind the bytes that are done, which has no control data.
unsafe fn part(
    outer: &Call,
    socket: usize,
    user: usize,
    flags: usize,
    way: Transfer,
    kind: Kind,
    done: usize,
) -> Result<Part, Errno> {
    let mut header: msghdr = memory::read(user)?;
    let mut flags = flags;
    if done > 0 {
        (header.msg_control, header.msg_controllen) = (std::ptr::null_mut(), 0);
        // The kernel sends none if it has taken a part of a message.
        flags |= libc::MSG_NOSIGNAL as usize;
    }
    let mut loan = Loan::new();
    let mut lent = header;
    lend_name(&mut loan, &header, &mut lent, way)?;
    lend_control(&mut loan, &header, &mut lent, way)?;
    let vector = header.msg_iov as usize;
    let buffers = Buffers::lend(&mut loan, vector, header.msg_iovlen, done, way, kind.demands)?;
    lent.msg_iov = buffers.address() as *mut libc::iovec;
    lent.msg_iovlen = buffers.count;
    let number = match way {
        Transfer::Out => libc::SYS_sendmsg,
        Transfer::In => libc::SYS_recvmsg,
    };
    let call = outer.inner(number, [socket, (&raw mut lent) as usize, flags, 0, 0, 0]);
    // SAFETY: the caller's premise.
    let result = unsafe { call.make(call.arguments) };
    if way == Transfer::In && result >= 0 {
        // SAFETY: the kernel would write these fields.
        unsafe { write_back(user, &lent) }?;
    }
    Ok(Part {
        is_continued: buffers.is_continued(result),
        result: loan.settle(buffers.settle(result)),
        bytes: buffers.bytes(),
    })
}

/// The way in which a call transfers messages.
#[derive(Debug, Clone, Copy)]
struct Kind {
    demands: Demands,
    /// A message that was cut goes on with its next part.
    goes_on: bool,
}

impl Kind {
    /// A stream takes all bytes of a call that may wait, part by part, and gives all to one with `MSG_WAITALL`.
    fn of(socket: usize, flags: usize, way: Transfer) -> Kind {
        let has = |flag: libc::c_int| flags & flag as usize != 0;
        let is_stream = chunked::is_stream(socket);
        let is_out = way == Transfer::Out;
        // Each call has one notification.
        let is_lasting = is_out && has(libc::MSG_ZEROCOPY);
        Kind {
            demands: Demands {
                is_whole: !is_stream || is_lasting || (!is_out && has(libc::MSG_WAITALL)),
                is_lasting,
            },
            goes_on: is_out
                && is_stream
                && !is_lasting
                && !has(libc::MSG_DONTWAIT)
                && !chunked::does_not_block(socket),
        }
    }
}

fn lend_name(loan: &mut Loan, header: &msghdr, lent: &mut msghdr, way: Transfer) -> Result<(), Errno> {
    let bytes = (header.msg_namelen as usize).min(MOST_NAME);
    let way = match way {
        Transfer::Out => Way::In,
        Transfer::In => Way::Both,
    };
    lent.msg_name = loan.lend(header.msg_name as usize, bytes, way, Manner::Any)? as *mut libc::c_void;
    Ok(())
}

fn lend_control(loan: &mut Loan, header: &msghdr, lent: &mut msghdr, way: Transfer) -> Result<(), Errno> {
    let user = header.msg_control as usize;
    let way = match way {
        // The kernel refuses longer ones.
        Transfer::Out if header.msg_controllen > i32::MAX as usize => return Ok(()),
        Transfer::Out => Way::In,
        Transfer::In if memory::is_managed(user) => {
            lent.msg_controllen = header.msg_controllen.min(MOST_CONTROL);
            Way::Both
        }
        Transfer::In => return Ok(()),
    };
    lent.msg_control = loan.lend(user, lent.msg_controllen, way, Manner::Any)? as *mut libc::c_void;
    Ok(())
}

/// Writes the fields of a header that a received message changes.
unsafe fn write_back(user: usize, lent: &msghdr) -> Result<(), Errno> {
    // SAFETY: the caller's premise.
    unsafe {
        memory::write(user + offset_of!(msghdr, msg_namelen), &lent.msg_namelen)?;
        memory::write(user + offset_of!(msghdr, msg_controllen), &lent.msg_controllen)?;
        memory::write(user + offset_of!(msghdr, msg_flags), &(lent.msg_flags as u32))
    }
}

/// `sendmmsg` and `recvmmsg`: one message after the other.
///
/// # Safety
/// The program asked for the effects of the call.
pub(super) unsafe fn messages(call: &Call, way: Transfer) -> Result<isize, Errno> {
    let [socket, entries, count, flags, timeout, _] = call.arguments;
    let limit = match (way, timeout) {
        (Transfer::In, 1..) => Some(Limit::new(timeout)?),
        _ => None,
    };
    let mut flags = flags & !(libc::MSG_WAITFORONE as usize);
    let count = (count as u32 as usize).min(MOST_MESSAGES);
    for done in 0..count {
        let entry = entries.checked_add(done * ENTRY).ok_or(Errno::FAULT)?;
        // SAFETY: the caller's premise.
        let result = unsafe { one(call, socket, entry, flags, way) };
        match result {
            Ok(Done {
                result: moved @ 0..,
                bytes,
            }) => {
                // SAFETY: the kernel would write the length.
                unsafe { memory::write(entry + ENTRY_LENGTH, &(moved as u32)) }?;
                // The rest of a message comes before the next one.
                if way == Transfer::Out && (moved as usize) < bytes {
                    return Ok(done as isize + 1);
                }
            }
            // An error of a later message is that of the next call.
            _ if done > 0 => return Ok(done as isize),
            other => return other.map(|done| done.result),
        }
        if call.arguments[3] & libc::MSG_WAITFORONE as usize != 0 {
            flags |= libc::MSG_DONTWAIT as usize;
        }
        if limit.as_ref().is_some_and(Limit::is_over) {
            return Ok(done as isize + 1);
        }
    }
    Ok(count as isize)
}

/// The time for the messages of a call. As in the kernel, it is looked at after each message alone.
struct Limit(u128);

impl Limit {
    fn new(timeout: usize) -> Result<Limit, Errno> {
        let time: libc::timespec = memory::read(timeout)?;
        match (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec)) {
            (Ok(seconds), Ok(nanos @ 0..1_000_000_000)) => Ok(Limit(
                now() + u128::from(seconds) * 1_000_000_000 + u128::from(nanos),
            )),
            _ => Err(Errno::INVAL),
        }
    }

    fn is_over(&self) -> bool {
        now() >= self.0
    }
}

/// Nanoseconds of the monotonic clock.
fn now() -> u128 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes the time to the variable.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.max(0) as u128 * 1_000_000_000 + time.tv_nsec.max(0) as u128
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixDatagram, UnixStream};
    use std::thread;

    use super::super::loan::MOST_COPIED;
    use super::super::testing::{Pages, while_pinned, without_pins};
    use super::*;

    /// Writes a header at `offset` of `pages`, with one buffer.
    fn header(pages: &Pages, offset: usize, buffer: usize, bytes: usize) {
        let vector = offset + 256;
        pages.fill(vector, &(pages.start() + buffer).to_ne_bytes());
        pages.fill(vector + 8, &bytes.to_ne_bytes());
        pages.fill(
            offset + offset_of!(msghdr, msg_iov),
            &(pages.start() + vector).to_ne_bytes(),
        );
        pages.fill(offset + offset_of!(msghdr, msg_iovlen), &1usize.to_ne_bytes());
    }

    #[test]
    fn messages_arrive_whole_and_headers_state_it() {
        crate::trampoline::map().expect("free addresses");
        let (sender, receiver) = UnixDatagram::pair().expect("sockets");
        let pages = Pages::of_arena(4);
        pages.fill(4096, b"a message");
        header(&pages, 0, 4096, 9);
        let call =
            |number, socket: i32, flags| Call::new(number, [socket as usize, pages.start(), 1, flags, 0, 0]);
        // SAFETY: the kernel reads and writes the test's pages.
        unsafe {
            let sent = call(libc::SYS_sendmmsg, sender.as_raw_fd(), 0);
            assert_eq!(super::super::serve(sent), 1);
            header(&pages, 0, 8192, 4);
            let received = call(
                libc::SYS_recvmmsg,
                receiver.as_raw_fd(),
                libc::MSG_DONTWAIT as usize,
            );
            assert_eq!(super::super::serve(received), 1);
        }
        assert_eq!(pages.bytes(8192, 5), b"a me\0");
        assert_eq!(pages.bytes(ENTRY_LENGTH, 4), 4u32.to_ne_bytes());
        let flags = pages.bytes(offset_of!(msghdr, msg_flags), 4);
        assert_eq!(flags, libc::MSG_TRUNC.to_ne_bytes());
    }

    /// A message of many buffers failed with `ENOMEM` if they could not be pinned: a call has eight mappings for copies.
    #[test]
    fn messages_of_many_buffers_arrive_whole_without_pins() {
        // Less than the 208 KiB that a datagram may have.
        const COUNT: usize = 12;
        const BYTES: usize = 4 * 4096 + 16;
        const BUFFERS: usize = 4096;
        crate::trampoline::map().expect("free addresses");
        let _refused = super::super::testing::without_pins();
        let (sender, receiver) = UnixDatagram::pair().expect("sockets");
        let pages = Pages::of_arena(1 + COUNT * BYTES / 4096 + 1);
        let sent: Vec<u8> = (0..COUNT * BYTES).map(|number| (number % 249) as u8).collect();
        for index in 0..COUNT {
            let base = pages.start() + BUFFERS + index * BYTES;
            pages.fill(
                1024 + index * 16,
                &[base.to_ne_bytes(), BYTES.to_ne_bytes()].concat(),
            );
        }
        pages.fill(offset_of!(msghdr, msg_iov), &(pages.start() + 1024).to_ne_bytes());
        pages.fill(offset_of!(msghdr, msg_iovlen), &COUNT.to_ne_bytes());
        pages.fill(BUFFERS, &sent);
        let call = |number, socket: i32| Call::new(number, [socket as usize, pages.start(), 0, 0, 0, 0]);
        // SAFETY: the kernel reads and writes the test's pages.
        let serve = |call| unsafe { super::super::serve(call) };
        let result = serve(call(libc::SYS_sendmsg, sender.as_raw_fd()));
        assert_eq!(result, sent.len() as isize);
        pages.fill(BUFFERS, &vec![0; sent.len()]);
        let result = serve(call(libc::SYS_recvmsg, receiver.as_raw_fd()));
        assert_eq!(result, sent.len() as isize);
        assert!(pages.bytes(BUFFERS, sent.len()) == sent);
    }

    /// The call returned after 1 MiB, though it waits until the socket has taken all.
    #[test]
    fn a_stream_takes_all_of_a_message_without_pins() {
        const BYTES: usize = 4 << 20;
        crate::trampoline::map().expect("free addresses");
        let _refused = without_pins();
        let (sender, mut receiver) = UnixStream::pair().expect("sockets");
        let pages = Pages::of_arena(1 + BYTES / 4096);
        let sent: Vec<u8> = (0..BYTES).map(|number| (number % 241) as u8).collect();
        pages.fill(4096, &sent);
        header(&pages, 0, 4096, BYTES);
        let reader = thread::spawn(move || {
            let mut received = Vec::new();
            receiver.read_to_end(&mut received).expect("a socket");
            received
        });
        let arguments = [sender.as_raw_fd() as usize, pages.start(), 0, 0, 0, 0];
        // SAFETY: the kernel reads the test's pages.
        let result = unsafe { super::super::serve(Call::new(libc::SYS_sendmsg, arguments)) };
        drop(sender);
        assert!(reader.join().expect("no panic") == sent);
        assert_eq!(result, BYTES as isize);
    }

    /// The call copied up to 256 MiB outside of the budget. Later, a part of a message would have had the descriptors of the first again.
    #[test]
    fn a_stream_takes_more_than_any_copy_and_descriptors_once() {
        const BYTES: usize = MOST_COPIED + 2 * 4096;
        crate::trampoline::map().expect("free addresses");
        let _refused = without_pins();
        let (sender, receiver) = UnixStream::pair().expect("sockets");
        let pages = Pages::of_arena(1 + BYTES / 4096);
        pages.fill(BYTES, b"the last page");
        header(&pages, 0, 4096, BYTES);
        let descriptors = libc::cmsghdr {
            cmsg_len: size_of::<libc::cmsghdr>() + size_of::<i32>(),
            cmsg_level: libc::SOL_SOCKET,
            cmsg_type: libc::SCM_RIGHTS,
        };
        // SAFETY: a structure without padding.
        let bytes = unsafe { std::mem::transmute::<libc::cmsghdr, [u8; 16]>(descriptors) };
        pages.fill(512, &bytes);
        pages.fill(528, &sender.as_raw_fd().to_ne_bytes());
        let control = (pages.start() + 512).to_ne_bytes();
        pages.fill(offset_of!(msghdr, msg_control), &control);
        pages.fill(offset_of!(msghdr, msg_controllen), &24usize.to_ne_bytes());
        let reader = thread::spawn(move || {
            let (mut received, mut descriptors, mut end) = (0, 0, Vec::new());
            loop {
                let (mut part, mut control) = (vec![0u8; 1 << 20], [0u64; 8]);
                let mut vector = libc::iovec {
                    iov_base: part.as_mut_ptr().cast(),
                    iov_len: part.len(),
                };
                // SAFETY: valid as zeroes.
                let mut header: msghdr = unsafe { std::mem::zeroed() };
                (header.msg_iov, header.msg_iovlen) = (&raw mut vector, 1);
                (header.msg_control, header.msg_controllen) = (control.as_mut_ptr().cast(), 64);
                // SAFETY: the kernel writes to the buffers above.
                let bytes = unsafe { libc::recvmsg(receiver.as_raw_fd(), &raw mut header, 0) };
                if header.msg_controllen > 0 {
                    descriptors += 1;
                    // SAFETY: a new descriptor, after the header of 16 bytes.
                    unsafe { libc::close(control[2] as i32) };
                }
                if bytes <= 0 {
                    return (received, descriptors, end);
                }
                received += bytes as usize;
                end = part[..bytes as usize].to_vec();
            }
        });
        let arguments = [sender.as_raw_fd() as usize, pages.start(), 0, 0, 0, 0];
        // SAFETY: the kernel reads the test's pages.
        let result = unsafe { super::super::serve(Call::new(libc::SYS_sendmsg, arguments)) };
        drop(sender);
        let (received, descriptors, end) = reader.join().expect("no panic");
        assert_eq!((result, received, descriptors), (BYTES as isize, BYTES, 1));
        assert!(end.windows(13).any(|bytes| bytes == b"the last page"));
    }

    /// The buffer had to be copied whole, and the call failed with `ENOMEM`.
    #[test]
    fn a_message_arrives_in_a_buffer_that_is_longer_than_any_copy() {
        const BYTES: usize = MOST_COPIED + 10 * 4096;
        crate::trampoline::map().expect("free addresses");
        let _refused = without_pins();
        let (sender, receiver) = UnixDatagram::pair().expect("sockets");
        let pages = Pages::of_arena(1 + BYTES / 4096);
        header(&pages, 0, 4096, BYTES);
        sender.send(b"a message").expect("room");
        let flags = libc::MSG_DONTWAIT as usize;
        let arguments = [receiver.as_raw_fd() as usize, pages.start(), flags, 0, 0, 0];
        // SAFETY: the kernel writes to the test's pages.
        let result = unsafe { super::super::serve(Call::new(libc::SYS_recvmsg, arguments)) };
        assert_eq!(result, 9);
        assert_eq!(pages.bytes(4096, 9), b"a message");
    }

    /// The next message followed the first part of a shortened one.
    #[test]
    fn no_message_follows_a_shortened_one() {
        const COUNT: usize = 100;
        const BYTES: usize = 20 << 10;
        crate::trampoline::map().expect("free addresses");
        let _refused = without_pins();
        let (sender, receiver) = UnixStream::pair().expect("sockets");
        receiver.set_nonblocking(true).expect("a socket");
        let pages = Pages::of_arena(1 + COUNT * BYTES / 4096);
        // The second entry: one byte.
        header(&pages, ENTRY, 4096, 1);
        for index in 0..COUNT {
            let base = pages.start() + 4096 + index * BYTES;
            let vector = [base.to_ne_bytes(), BYTES.to_ne_bytes()].concat();
            pages.fill(1024 + index * 16, &vector);
        }
        pages.fill(offset_of!(msghdr, msg_iov), &(pages.start() + 1024).to_ne_bytes());
        pages.fill(offset_of!(msghdr, msg_iovlen), &COUNT.to_ne_bytes());
        // The socket has room for each message.
        let _hook = while_pinned(move || {
            let mut part = [0; 4096];
            while (&receiver).read(&mut part).is_ok_and(|bytes| bytes > 0) {}
        });
        let flags = libc::MSG_DONTWAIT as usize;
        let arguments = [sender.as_raw_fd() as usize, pages.start(), 2, flags, 0, 0];
        // SAFETY: the kernel reads and writes the test's pages.
        let result = unsafe { super::super::serve(Call::new(libc::SYS_sendmmsg, arguments)) };
        assert_eq!(result, 1);
        let length = pages.bytes(ENTRY_LENGTH, 4);
        let length = u32::from_ne_bytes(length.try_into().expect("4 bytes"));
        assert!(length > 0 && (length as usize) < COUNT * BYTES, "{length}");
    }

    #[test]
    fn hostile_headers_are_refused() {
        let pages = Pages::of_arena(1);
        let start = pages.start();
        let outer = Call::new(libc::SYS_sendmsg, [0; 6]);
        // SAFETY: no socket has this number, and the buffers are the test's.
        let send = |user| unsafe { one(&outer, usize::MAX, user, 0, Transfer::Out) }.map(|done| done.result);
        assert_eq!(send(8), Err(Errno::FAULT));
        header(&pages, 0, 512, usize::MAX);
        assert_eq!(send(start), Err(Errno::INVAL));
        header(&pages, 0, 512, 10);
        pages.fill(offset_of!(msghdr, msg_iovlen), &usize::MAX.to_ne_bytes());
        assert_eq!(send(start), Err(Errno::INVAL));
        pages.fill(offset_of!(msghdr, msg_iovlen), &1usize.to_ne_bytes());
        pages.fill(offset_of!(msghdr, msg_name), &(start + 600).to_ne_bytes());
        pages.fill(offset_of!(msghdr, msg_namelen), &u32::MAX.to_ne_bytes());
        pages.fill(offset_of!(msghdr, msg_control), &(start + 800).to_ne_bytes());
        pages.fill(offset_of!(msghdr, msg_controllen), &usize::MAX.to_ne_bytes());
        assert_eq!(send(start), Ok(-(libc::EBADF as isize)));
    }
}
