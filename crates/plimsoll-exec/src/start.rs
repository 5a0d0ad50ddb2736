//! The start of the library, before the program's own code: settings, pager, arena, heap.
//!
//! The dynamic linker and the C library call malloc before, and constructors of other libraries may: their blocks are
//! unmanaged, and stay so.
#![allow(
    unsafe_code,
    reason = "the heap's memory is set once, and the constructor is placed in a section"
)]

use std::fmt::Display;
use std::os::unix::ffi::OsStrExt;

use plimsoll_lfh::Heap;
use plimsoll_os::{UffdFeatures, UffdMode, api_handshake, open_from_device, open_userfaultfd, write_error};
use plimsoll_pager::{BuildError, FaultMode, Pager};

use crate::arena::{ARENA, ARENA_BYTES, Arena};
use crate::configuration::{Configuration, PageFile, VARIABLE};
use crate::pool::Outside;
use crate::program_heap::ArenaMemory;
use crate::{background, blocks, callers, calls, pool, statistics};

/// The exit code of a program that cannot run as requested.
const CANNOT_RUN: i32 = 125;

/// Run by the dynamic linker when the library has been loaded.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

/// Starts the library. Without settings, it is a heap and nothing else.
#[cfg_attr(test, allow(dead_code, reason = "a test has its own malloc"))]
extern "C" fn start() {
    callers::find();
    #[cfg(not(test))]
    crate::symbols::prepare();
    let others = background::count_threads();
    if let Some(text) = std::env::var_os(VARIABLE) {
        match Configuration::parse(text.as_bytes()) {
            Ok(configuration) => {
                // The heap registers for it at its first block. With the pager's threads, the kernel would wait for all
                // processors (10-20 ms). Without it, the heap does without.
                let _ = plimsoll_os::prepare_to_restart_sequences();
                #[cfg(not(test))]
                let low = crate::symbols::LowNumbers::occupy();
                #[cfg(not(test))]
                plimsoll_pager::use_descriptors_from(low.first());
                open(&configuration);
                #[cfg(not(test))]
                low.free();
                #[cfg(not(test))]
                for inherited in configuration.inherited().filter(|file| pool::is_open(*file)) {
                    crate::symbols::protect(inherited.descriptor);
                }
            }
            Err(mistake) => fail(format_args!("cannot read {VARIABLE}: {mistake}")),
        }
    }
    blocks::open();
    Heap::prepare_for_forks();
    background::start(others);
}

/// Ends the process, whose program must not run without the requested limits.
fn fail(reason: impl Display) -> ! {
    write_error(format!("plimsoll exec: {reason}\n").as_bytes());
    // SAFETY: the call ends the process.
    unsafe { libc::_exit(CANNOT_RUN) }
}

/// Opens the arena, and has the heap use it.
fn open(configuration: &Configuration) {
    let mode = configuration.faults.unwrap_or_else(best_mode);
    let by_signal = mode == FaultMode::Signal;
    let serves_calls = by_signal || calls::may_be_filtered();
    if serves_calls && let Err(error) = calls::prepare() {
        fail(format_args!("cannot serve system calls: {error:?}"));
    }
    let pager = build(configuration, mode).unwrap_or_else(|error| fail(error));
    if mode == FaultMode::Thread && !pager.serves_system_calls() {
        fail(
            "cannot serve system calls by a thread: the system allows it to root, with vm.unprivileged_userfaultfd=1, or \
             with access to /dev/userfaultfd; take faults=signal",
        );
    }
    let region = match pager.map(ARENA_BYTES) {
        Ok(region) if region.as_ptr() as usize == ARENA => region,
        Ok(_) => fail("cannot map the arena: the pager has another address; please report it"),
        Err(error) => fail(error),
    };
    let arena = Arena::open(pager, region);
    pool::note_process();
    if let Err(errno) = arena.close_addresses() {
        fail(format_args!("cannot map the arena: {errno}"));
    }
    // SAFETY: no thread has used the heap, whose blocks are not open; the memory uses no heap.
    unsafe { plimsoll_lfh::set_memory(&ArenaMemory) };
    if serves_calls && let Err(error) = calls::start(by_signal) {
        fail(format_args!("cannot serve system calls: {error:?}"));
    }
    if let Some(file) = configuration.stats {
        statistics::start(file);
        // SAFETY: the function is of a library that is never unloaded. If it cannot be registered, there is no report.
        unsafe { libc::atexit(statistics::report) };
    }
}

/// Builds the pager, with the page file if that is possible or required.
fn build(configuration: &Configuration, mode: FaultMode) -> Result<Pager, BuildError> {
    let file = configuration.page_file.as_ref();
    match build_with(file, configuration, mode) {
        // The program changed its root, or its user.
        Err(BuildError::PageFile(_)) if file.is_some_and(|file| !file.is_required) => {
            build_with(None, configuration, mode)
        }
        built => built,
    }
}

/// Builds the pager: on a share of the pool, or on a budget of its own.
fn build_with(
    file: Option<&PageFile>,
    configuration: &Configuration,
    mode: FaultMode,
) -> Result<Pager, BuildError> {
    let builder = || {
        let builder = Pager::builder()
            .ram(configuration.ram)
            .forks_outside_of_pool(pool::LEAST)
            .address_space(ARENA_BYTES as u64)
            .arena_at(ARENA)
            .codec(configuration.codec)
            .fault_mode(mode);
        match file {
            // `plimsoll exec` has tested the folder. Most processes end before the pager writes to the file.
            Some(file) => builder.page_file(&file.path, file.bytes).defer_page_file(),
            None => builder,
        }
    };
    let outside = match configuration.pool.map(pool::join) {
        None => return builder().build(),
        Some(Err(outside)) => outside,
        Some(Ok(member)) => match builder().pool(member).build() {
            // Stopped processes do not give their pages back.
            Err(BuildError::GrantTooSmall { .. } | BuildError::Membership) => Outside::Full,
            built => return built,
        },
    };
    statistics::note_outside(outside);
    builder().ram(pool::LEAST.min(configuration.ram)).build()
}

/// The mode of faults that this system allows.
fn best_mode() -> FaultMode {
    let by_call = || open_userfaultfd(UffdMode::Full).ok();
    let by_device = || {
        use std::os::fd::AsRawFd;
        let device = std::fs::File::open("/dev/userfaultfd").ok()?;
        open_from_device(device.as_raw_fd(), UffdMode::Full).ok()
    };
    let full = by_call().or_else(by_device);
    mode_with(
        full.and_then(|uffd| api_handshake(&uffd).ok())
            .map(|api| UffdFeatures(api.features)),
    )
}

/// A thread for faults, if the system allows that it serves those of system calls (it has a userfaultfd for them, with
/// `features`), and moves pages. A pager that copies pages does not notice that a device still writes to a page (direct reads,
/// io_uring), and drops it with the data. Only the mode of signals pins the pages of system calls, and refuses io_uring.
fn mode_with(features: Option<UffdFeatures>) -> FaultMode {
    match features {
        Some(features) if features.has(UffdFeatures::MOVE) => FaultMode::Thread,
        _ => FaultMode::Signal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On Linux 6.1, as root, `dd iflag=direct` into a block that is larger than the budget returned other bytes than the
    /// file's: a thread served the faults, and the pager dropped pages that the disk still wrote to.
    #[test]
    fn a_kernel_that_moves_no_pages_has_no_thread_for_faults() {
        let of_linux_6_1 = UffdFeatures::WRITE_PROTECT.with(UffdFeatures::SIGBUS);
        assert_eq!(mode_with(Some(of_linux_6_1)), FaultMode::Signal);
        assert_eq!(
            mode_with(Some(of_linux_6_1.with(UffdFeatures::MOVE))),
            FaultMode::Thread
        );
        assert_eq!(mode_with(None), FaultMode::Signal);
    }
}
