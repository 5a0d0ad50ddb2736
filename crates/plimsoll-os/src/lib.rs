//! Raw Linux memory-management calls: `no_std`, and nothing here allocates.
//!
//! A file is a noun of the kernel's interface. Unsafe code is allowed per module; the exported functions are safe if no
//! call of them can make the kernel break Rust's memory rules.
#![warn(missing_docs)]
#![no_std]

pub mod address_space;
mod atomic_words;
mod backing_file;
mod clock;
mod environment;
mod errno;
mod fd;
mod file_capabilities;
mod file_space;
mod futex;
mod helper_thread;
mod identity;
mod interruption;
mod kernel_file;
mod last_words;
mod limits;
mod lock_range;
mod mappings;
mod nameless_file;
mod origin;
mod other_memory;
mod page_size;
mod pause;
mod perf;
mod prefetch;
mod process;
mod process_life;
mod random;
mod raw;
mod region;
mod restartable;
mod secret;
mod shared_words;
mod signals;
mod swap;
mod uffd;
mod vm;
mod weak;

pub use atomic_words::AtomicWords;
pub use backing_file::BackingFile;
pub use clock::{coarse_milliseconds, thread_time};
pub use environment::with_environment;
pub use errno::{Errno, thread_token};
pub use fd::{Fd, renumber, unshare_descriptors};
pub use file_capabilities::{FileCapabilities, ProcessCapabilities};
pub use file_space::allocate_file;
pub use futex::{futex_wait, futex_wake, own_page};
pub use helper_thread::{Helper, HelperState, Privileges, compare_privileges, start_helper_thread};
pub use identity::{has_threads, this_process, this_thread};
pub use interruption::repeat_interrupted;
pub use last_words::{abort, write_all, write_error};
pub use lock_range::lock_range_on_fault;
pub use mappings::{count_mappings, most_mappings};
pub use nameless_file::{FileStatus, Folder, NamelessFile, file_size_limit};
pub use origin::Origin;
pub use other_memory::{Memory, MemoryError, OtherProcess, read_other};
pub use page_size::page_size;
pub use pause::{sleep_briefly, yield_processor};
pub use perf::{PerfEvent, PerfScope, open_perf_event};
pub use prefetch::prefetch;
pub use process::{
    Ended, PageOutError, Pidfd, Range, ResourceUsage, UsageScope, resource_usage, set_parent_death_signal,
    wait,
};
pub use process_life::{ProcessLife, process_life};
pub use random::{fill_random, random_word};
pub use region::{Discard, Pages, Region};
pub use restartable::{
    MOST_PROCESSORS, allowed_processors, possible_processors, prepare_to_restart_sequences,
    restart_sequences, restartable_area,
};
pub use secret::Secret;
pub use shared_words::SharedWords;
pub use signals::{default_signals, is_ignored, restore_inherited_signals, take_over_signals};
pub use swap::{swap_off, swap_on};
pub use uffd::{
    FaultReader, MOST_FAULTS, RegisterMode, UffdApi, UffdFault, UffdFeatures, UffdMode, UffdProgress,
    api_handshake, api_handshake_with, open_from_device, open_userfaultfd, uffd_copy, uffd_move, uffd_poison,
    uffd_register, uffd_unregister, uffd_wake, uffd_write_protect, uffd_zero,
};
pub use vm::{Advice, Mapping, page_out, write_back};
