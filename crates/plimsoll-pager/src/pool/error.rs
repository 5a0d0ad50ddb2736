//! Errors of a pool.

use std::io;
use std::path::PathBuf;

use super::table::Damage;

/// An operation on a pool that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names of the fields describe them")]
pub enum PoolError {
    /// A call of the system failed.
    #[error("cannot {doing} {}: {source}", object.display())]
    Io {
        /// The failed operation: a verb whose object is the path.
        doing: &'static str,
        /// The file or folder.
        object: PathBuf,
        source: io::Error,
    },
    /// The file is not a pool that this process may use.
    #[error("cannot use {} as a pool: {defect}", file.display())]
    Refused { file: PathBuf, defect: Defect },
    /// The contents of the file are inconsistent.
    #[error("cannot read the pool {}: {damage}; end its members and remove the file", file.display())]
    Damaged { file: PathBuf, damage: Damage },
    /// Other members changed the pool during each try.
    #[error("cannot change the pool: other members changed it during each try; try again")]
    Busy,
    /// The size of a pool is none.
    #[error("cannot make a pool of {bytes} bytes: it must have from 4 KiB to 2 PiB; pass such a size")]
    TotalOutOfRange { bytes: u64 },
    /// The limits of a member are out of order.
    #[error(
        "cannot set the limits of a member: the minimum of {minimum} bytes is above the maximum of {maximum} bytes; lower the minimum"
    )]
    LimitsOutOfOrder {
        /// The minimum in bytes.
        minimum: u64,
        /// The maximum in bytes, which is the total of the pool if the given one is larger.
        maximum: u64,
    },
    /// The minima of all members together would not fit the total.
    #[error(
        "cannot promise a minimum of {minimum} bytes: the minima of the other members leave {left} bytes of the pool; lower the minimum or make a larger pool"
    )]
    MinimumTooLarge {
        /// The minimum in bytes.
        minimum: u64,
        /// The bytes that are not promised.
        left: u64,
    },
    /// The pool has as many members as it can have.
    #[error(
        "cannot join the pool: it has {} members; let one leave first",
        super::MOST_MEMBERS
    )]
    Full,
    #[error("cannot join the pool: this process is a member; use that membership")]
    AlreadyMember,
    /// The pool is about to be removed.
    #[error(
        "cannot join the pool: a process removes it; open it again, or remove its file if the error stays"
    )]
    Closed,
    /// The pool has members.
    #[error("cannot remove the pool: it has {members} members; let them leave first")]
    InUse { members: usize },
    /// The membership is that of the process from which this one was forked.
    #[error("cannot use this membership: it is that of the parent process; join as a child")]
    Forked,
    /// The pool has no share of this member.
    #[error("cannot use this membership: the pool has no share of it; join again")]
    Lost,
    /// A member acknowledged more bytes than it may use.
    #[error("cannot acknowledge {bytes} bytes: the member may use {allowed} bytes; trim first")]
    AboveCharge {
        /// The acknowledged bytes.
        bytes: u64,
        /// The most bytes that the member may use now.
        allowed: u64,
    },
    /// The identity of this process is unknown.
    #[error("cannot find the start of this process: {source}; mount /proc of this PID namespace")]
    Identity { source: io::Error },
}

/// The reason for which a file is not a usable pool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names of the fields describe them")]
pub enum Defect {
    /// Another user owns the file or its folder. Users never share a pool.
    #[error("{} belongs to user {owner}, and this process runs as user {user}; name a file in a folder of user {user}", path.display())]
    OtherUser {
        /// The file or folder.
        path: PathBuf,
        owner: u32,
        /// The effective user of this process.
        user: u32,
    },
    /// Other users can write to the file or its folder.
    #[error("the mode of {} is {mode:03o}, which lets other users in; use a folder of mode 700, and files that Plimsoll makes", path.display())]
    Mode {
        /// The file or folder.
        path: PathBuf,
        mode: u32,
    },
    /// The path is that of a symbolic link, a folder, a pipe or a device.
    #[error("it is not a regular file; name another file")]
    NoRegularFile,
    /// The file has more than one name.
    #[error("it has {links} names (hard links); remove the file")]
    HardLinks { links: u64 },
    /// The file has another size than a pool.
    #[error("it has {bytes} bytes and not {}; name another file", super::FILE_BYTES)]
    Size { bytes: u64 },
    /// The file does not begin as a pool does.
    #[error("it does not begin as a pool does; name another file")]
    NoPool,
    /// Another version of Plimsoll made the pool.
    #[error("its format is {found} and not {known}; use one version of Plimsoll for all members")]
    Format {
        /// The format of the file.
        found: u32,
        /// The format of this version.
        known: u32,
    },
    /// The header is damaged.
    #[error("its header is damaged; remove the file")]
    Header,
    /// The numbers of its members mean other processes here.
    #[error(
        "it was made before the last boot, or in another PID or time namespace, so that process numbers have another meaning; remove the file, or name another one"
    )]
    OtherPlace,
    /// The pool has another total.
    #[error("its total is {found} bytes and not {asked}; pass the same total in all processes")]
    OtherTotal {
        /// The total of the pool.
        found: u64,
        /// The total that the caller asked for.
        asked: u64,
    },
    /// The descriptor is not that of a sealed file in memory.
    #[error("it is not a file in memory whose size is sealed; pass the descriptor of a pool")]
    NotSealed,
}
