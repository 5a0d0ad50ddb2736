//! The budget that the processes of a program share: a pool in memory, which they inherit as an open descriptor.

use std::fmt;
use std::io;

use plimsoll_pager::pool::Pool;

use super::inherited::Inherited;

/// A pool whose descriptor the program inherits. As text, it is `DESCRIPTOR,FILE`.
#[derive(Debug)]
pub struct SharedPool(Inherited);

impl SharedPool {
    /// Makes a pool of `bytes`.
    ///
    /// # Errors
    /// No descriptor or memory is left, or `/proc` is that of another namespace of processes.
    pub fn make(bytes: u64) -> io::Result<SharedPool> {
        let pool = Pool::in_memory(bytes).map_err(io::Error::other)?;
        Inherited::of(pool.descriptor()).map(SharedPool)
    }
}

impl fmt::Display for SharedPool {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(to)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn the_descriptor_is_that_of_the_pool() {
        let pool = SharedPool::make(64 << 20).expect("memory files are allowed");
        let again = pool.0.as_fd().try_clone_to_owned().expect("a descriptor is free");
        let opened = Pool::of_descriptor(again).expect("it is a pool");
        assert_eq!(opened.total(), 64 << 20);
    }
}
