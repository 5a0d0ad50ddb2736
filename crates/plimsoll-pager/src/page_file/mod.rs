//! The page file: disk space for segments of the compressed store.
//!
//! A page file has no name: [`PageFile::create`] opens it without one, or removes the name at once. So its blocks
//! return to the file system when the process ends, after a `kill -9` too. It holds *slots* of 64 KiB, the size of a segment of
//! the store. A [`Writer`] encrypts up to 16 segments and writes them in one operation of 1 MiB where 16 free slots
//! lie side by side; several operations are in flight. [`PageFile::read_block`] reads and decrypts one *block* of 16
//! KiB and may be called in a signal handler.
//!
//! | module | content |
//! |---|---|
//! | `units` | slots, blocks, buffers |
//! | `error` | errors, and the state that they leave |
//! | `backing` | the open file |
//! | `cipher` | the key; encryption and authentication of a block |
//! | `seals` | nonce and tags of each slot |
//! | `slot_map` | free slots |
//! | `children` | slots that children of forks may still read |
//! | `space` | allocation of disk space in growing steps; holes |
//! | `queue`, `ring` | writes in flight: by `pwrite(2)`, by io_uring |
//! | `file`, `create` | the page file for readers, and its creation |
//! | `writer` | writes |
//!
//! # Slots
//!
//! ```text
//!  no space --grow--> free --start--> in flight --complete, written--> written --free--> free
//!     ^                 |                 |                              |
//!     +------rest-------+                 |                              +--free, a child may read it--> held --release--> free
//!                                         +----complete, failed----> free
//! ```
//!
//! | state | space on disk | bit in `slot_map` | nonce in `seals` |
//! |---|---|---|---|
//! | no space | no | 0 | 0 |
//! | free | yes | 1 | 0 |
//! | in flight | yes | 0 | 0 |
//! | written | yes | 0 | that of its first block |
//! | held | yes | 0, but 1 in that of `children` | 0 |
//!
//! Invariant: every slot has one of these states. [`Writer::validate`] checks it while nothing is in flight. Checked by
//! `the_page_file_equals_its_model`.
//!
//! # Errors
//!
//! The caller keeps a segment in RAM until [`Writer::complete`] reports it written. After a write error the page file
//! never writes again ([`State::Failed`]); written blocks stay readable. A full disk limits the file to the space
//! that it has ([`State::Limited`]); slots in it are used again. A block whose tag does not match is
//! [`ReadError::Damaged`] and its buffer is zero.
//!
//! # Encryption
//!
//! AES-256-GCM with a random key, one for each page file. The nonce of a block is a counter: no two encryptions of a
//! file have the same one. Tags and nonces are in RAM alone, so a block that was changed, exchanged or replaced by an
//! older version of itself does not pass. The key is in pages that core dumps leave out, that are locked in RAM if
//! RLIMIT_MEMLOCK allows it, and that are overwritten when the file is closed.
//!
//! A forked child shares the file but not the counter. It may read; it cannot write ([`StartError::Forked`],
//! [`State::OfParent`]). A child of [`Pager::fork`](crate::Pager::fork) finds every block as it was at the fork, as its parent
//! writes to no slot that the child may read; copies that the child saves go to a file of its own. For any other child, blocks
//! that the parent wrote since the fork are `Damaged` or `NotWritten`. A virtual machine that is resumed twice from one snapshot
//! encrypts different data with the same nonces: an attacker who has both disks learns the difference of such blocks, and can
//! forge others.

mod backing;
mod children;
mod cipher;
mod create;
mod error;
mod file;
mod queue;
mod ring;
mod seals;
mod slot_map;
mod space;
mod units;
mod writer;

pub(crate) use create::NewFile;
pub use create::PageFileOptions;
pub use error::{CreateError, NotWritten, ReadError, StartError, State, Violation, WriteFailure};
pub use file::{PageFile, PageFileStats};
pub use units::{
    BLOCK_BYTES, BLOCKS_PER_SLOT, Block, BlockBuffer, MOST_SLOTS, SLOT_BYTES, SLOTS_PER_WRITE, Segment, Slot,
    Slots,
};
pub use writer::{Batch, Completed, Writer};

/// The highest nonce that a block may have.
pub(crate) const MOST_NONCE: u64 = cipher::MOST_BLOCKS;

#[cfg(all(test, not(loom)))]
pub(crate) mod tests;
