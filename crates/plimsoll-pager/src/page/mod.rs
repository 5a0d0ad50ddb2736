//! Pages and their states.
//!
//! One 8-byte atomic [`Word`] a page holds its state, the place of its saved copy, its standby priority, and marks of the
//! trimmer. The words of all pages are one flat [`PageTable`], which the kernel maps lazily: an untouched page of the
//! arena costs no metadata.
//!
//! # States and transitions
//!
//! A page has an address in the **arena**, where the program uses it, and a **frame slot** in the shadow area, at the same
//! index, where a trimmed page stays in RAM without being mapped for the program.
//!
//! ```text
//!            fill_zero, adopt                 trim                   save, reset
//!    virgin ------------------> active -----------------> modified -----------------> standby
//!      ^                         ^ ^ ^                      |                          | |
//!      |                         | | '----- soft_fault -----'                          | |
//!      |                         | '--------------------- soft_fault ------------------' |
//!      | discard                 |                                                       | take_frame
//!      | (from every state)      |                hard_fault                             v
//!      |                         '---------------------------------------- compressed, page-file
//!      |                                                                    relocate (between the two,
//!      | reclaim                                                            and from place to place)
//!  surrendered
//!      ^
//!      | surrender (from every state)
//! ```
//!
//! | state | page in the arena | frame in the shadow | saved copy |
//! |---|---|---|---|
//! | virgin | absent, reads as zero (native chunk: as the kernel has it) | - | - |
//! | active | present | absent | - |
//! | modified | absent | present, the only copy | - |
//! | standby | absent | present, equal to the saved copy; free to take | in the store or the page file |
//! | standby of priority 0, after `reset` | absent | present, with contents that may be lost | zeros |
//! | compressed | absent | absent | in the store |
//! | page-file | absent | absent | in the page file |
//! | surrendered | the program's: another mapping, maybe | absent | - |
//! | busy | the lock: only its holder knows | | |
//!
//! Every transition locks the word first ([`PageWord::try_lock`]: any state to busy) and ends by a function of [`Locked`]
//! with the name in the diagram; [`Locked::keep`] restores the state of before. A thread that holds a busy page never waits
//! for another one, so that busy pages cannot deadlock. A fault on a busy page waits for its holder.

mod bits;
mod chunk;
mod index;
mod table;
mod validate;
pub(crate) mod word;

pub use chunk::{CHUNK_PAGES, Chunk, ChunkMode, ChunkTable};
pub use index::{PAGE_SIZE, Page, PageIndex, PageRange, ZERO_PAGE};
pub use table::PageTable;
pub use validate::Violation;
pub(crate) use validate::check_page;
pub(crate) use word::saved_state;
pub use word::{Locked, PageState, PageWord, Place, PlaceTooLarge, Tier, Word};
