//! Reads in a signal handler.

use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

use plimsoll_pager::page_file::Block;

use super::*;

/// Bytes of the stack of the handler. The kernel's frame takes up to 4 KiB of it with AVX-512.
const STACK_BYTES: usize = 24 << 10;

/// All that the handler reads by and into.
struct Prepared {
    file: PageFile,
    block: Block,
    buffer: BlockBuffer,
}

static PREPARED: AtomicPtr<Prepared> = AtomicPtr::new(std::ptr::null_mut());
static READS: AtomicU32 = AtomicU32::new(0);
static ERRNO: AtomicI32 = AtomicI32::new(0);

extern "C" fn handler(_signal: libc::c_int) {
    // SAFETY: the test stored the pointer before it raised the signal, and takes it back afterwards; errno is this
    // thread's own.
    unsafe {
        let prepared = &mut *PREPARED.load(Ordering::Acquire);
        *libc::__errno_location() = 77;
        let read = prepared.file.read_block(prepared.block, &mut prepared.buffer);
        READS.fetch_add(u32::from(read.is_ok()), Ordering::AcqRel);
        ERRNO.store(*libc::__errno_location(), Ordering::Release);
    }
}

/// A fault handler has a small stack, and the faulting code its errno.
#[test]
fn a_signal_handler_with_a_small_stack_reads_a_block() {
    for options in all_options() {
        let folder = folder();
        let (file, mut writer) = PageFile::create(folder.path(), 1 << 20, options).unwrap();
        let data = segment(5);
        let slot = write(&mut writer, &[&data]).unwrap()[0];
        let block = slot.block_at(3 * BLOCK_BYTES).unwrap();
        let prepared = Box::into_raw(Box::new(Prepared {
            file,
            block,
            buffer: BlockBuffer::new(),
        }));
        PREPARED.store(prepared, Ordering::Release);
        on_small_stack(|| {
            // SAFETY: the handler is async-signal-safe, and the thread has its stack.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handler as extern "C" fn(libc::c_int) as usize;
                action.sa_flags = libc::SA_ONSTACK;
                assert_eq!(
                    libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()),
                    0
                );
                assert_eq!(libc::raise(libc::SIGUSR1), 0);
            }
        });
        // SAFETY: from `into_raw` above; no signal is raised any more.
        let prepared = unsafe { Box::from_raw(prepared) };
        assert_eq!(READS.swap(0, Ordering::AcqRel), 1, "{options:?}");
        assert_eq!(ERRNO.load(Ordering::Acquire), 77);
        assert_eq!(prepared.buffer.0[..], data[3 * BLOCK_BYTES..]);
    }
}

/// Runs `work` with a small stack for handlers, which ends at a page that cannot be touched.
fn on_small_stack(work: impl FnOnce()) {
    // SAFETY: a new mapping, which is unmapped after the thread no longer has it as its stack.
    unsafe {
        let length = STACK_BYTES + 4096;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let map = libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            -1,
            0,
        );
        assert_ne!(map, libc::MAP_FAILED);
        assert_eq!(libc::mprotect(map, 4096, libc::PROT_NONE), 0);
        let stack = libc::stack_t {
            ss_sp: map.byte_add(4096),
            ss_flags: 0,
            ss_size: STACK_BYTES,
        };
        let mut before = std::mem::zeroed();
        assert_eq!(libc::sigaltstack(&raw const stack, &raw mut before), 0);
        work();
        assert_eq!(libc::sigaltstack(&raw const before, std::ptr::null_mut()), 0);
        assert_eq!(libc::munmap(map, length), 0);
    }
}
