//! Output to the terminal, over a connection that may be slow, stopped or gone.

use std::io::{self, Write};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;

use plimsoll_sample::stop::Stop;

/// Bytes per write. A terminal that is ready accepts some hundred without blocking.
const CHUNK: usize = 1024;
/// Longest delay of the program's end by a stopped terminal (ctrl-s).
const PATIENCE_MS: u128 = 300;

/// Buffers a frame and writes it on flush.
pub(super) struct Link<'a> {
    frame: Vec<u8>,
    stop: &'a Stop,
}

impl Link<'_> {
    /// A link to standard output. It gives up soon after a stop is requested.
    pub(super) fn new(stop: &Stop) -> Link<'_> {
        Link {
            frame: Vec::with_capacity(64 * 1024),
            stop,
        }
    }

    fn hand_over(&self) -> io::Result<()> {
        let output = rustix::stdio::stdout();
        let mut rest = self.frame.as_slice();
        let mut waiting = Instant::now();
        while !rest.is_empty() {
            if !ready(output, 100)? {
                if self.stop.requested() && waiting.elapsed().as_millis() > PATIENCE_MS {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                continue;
            }
            match rustix::io::write(output, &rest[..rest.len().min(CHUNK)]) {
                Ok(written) => rest = &rest[written..],
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
            waiting = Instant::now();
        }
        Ok(())
    }
}

/// Whether the terminal accepts bytes within this many milliseconds.
pub(super) fn ready(output: BorrowedFd<'_>, milliseconds: i64) -> io::Result<bool> {
    let mut fds = [PollFd::new(&output, PollFlags::OUT)];
    match poll(&mut fds, Some(&milliseconds_of(milliseconds))) {
        Ok(0) | Err(rustix::io::Errno::INTR) => Ok(false),
        Ok(_) if fds[0].revents().contains(PollFlags::OUT) => Ok(true),
        Ok(_) => Err(io::ErrorKind::BrokenPipe.into()),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn milliseconds_of(milliseconds: i64) -> Timespec {
    Timespec {
        tv_sec: milliseconds / 1000,
        tv_nsec: milliseconds % 1000 * 1_000_000,
    }
}

impl Write for Link<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.frame.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let handed = self.hand_over();
        self.frame.clear();
        handed
    }
}
