//! `/proc/PID/limits` (`proc_pid_limits(5)`): the soft limits that bear on memory.

use super::fields::{lines, number, words};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    Unlimited,
    Bytes(u64),
}

impl Limit {
    pub fn bytes(self) -> Option<u64> {
        match self {
            Limit::Unlimited => None,
            Limit::Bytes(bytes) => Some(bytes),
        }
    }
}

/// The soft limits; None where the file does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// `ulimit -v`: bytes of address space.
    pub address_space: Option<Limit>,
    /// `ulimit -d`: bytes of data.
    pub data: Option<Limit>,
    /// `ulimit -l`: bytes of locked memory.
    pub locked: Option<Limit>,
    /// `ulimit -m`: bytes of resident memory, which Linux does not enforce.
    pub resident: Option<Limit>,
}

impl Limits {
    pub fn parse(text: &[u8]) -> Limits {
        let soft = |name: &[u8]| {
            let rest = lines(text).find_map(|line| line.strip_prefix(name))?;
            match words(rest).next()? {
                b"unlimited" => Some(Limit::Unlimited),
                word => number(word).map(|bytes| Limit::Bytes(bytes.unsigned_abs())),
            }
        };
        Limits {
            address_space: soft(b"Max address space "),
            data: soft(b"Max data size "),
            locked: soft(b"Max locked memory "),
            resident: soft(b"Max resident set "),
        }
    }
}
