//! `dlopen` and `dlmopen` without `RTLD_DEEPBIND`.
//!
//! A library that is opened with this flag finds the C library's `malloc` and `free` before those of a preloaded one, and
//! passes blocks of the one to the other: PHP, which opens its extensions so, crashed at its start. The sanitizers of
//! compilers take the flag away too. What else it is for, a library's own version of a symbol that the program has as
//! well, is lost.
//!
//! The C library looks for the library where the caller says (`DT_RUNPATH`), and finds the caller by its return address:
//! so these functions are assembly that ends in a jump, which leaves the address as it is. [`dynamic_loading_symbols`] defines
//! them.
//!
//! [`dynamic_loading_symbols`]: crate::dynamic_loading_symbols
#![allow(unsafe_code, reason = "the C library's dlsym, and functions of assembly")]

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

/// The function of the next library of that name, or else a function that returns null.
fn next(name: &CStr, known: &AtomicUsize) -> usize {
    match known.load(Ordering::Relaxed) {
        0 => {
            let found = match find(name) {
                0 => nothing as *const () as usize,
                found => found,
            };
            known.store(found, Ordering::Relaxed);
            found
        }
        found => found,
    }
}

/// The address of the C library's `dlsym`, 0 if no loaded library has it.
#[cfg(target_env = "gnu")]
#[inline(never)]
fn dlsym() -> usize {
    let address: usize;
    // SAFETY: reads the entry of the global offset table, which the linker makes for the reference. Its version is the
    // first that glibc had: that of today would be demanded of each system that loads the library.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!(
            ".weak plimsoll_dlsym",
            ".symver plimsoll_dlsym, dlsym@GLIBC_2.2.5",
            "mov {}, [rip + plimsoll_dlsym@GOTPCREL]",
            out(reg) address,
            options(pure, nomem, nostack, preserves_flags),
        );
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!(
            ".weak plimsoll_dlsym",
            ".symver plimsoll_dlsym, dlsym@GLIBC_2.17",
            "adrp {0}, :got:plimsoll_dlsym",
            "ldr {0}, [{0}, :got_lo12:plimsoll_dlsym]",
            out(reg) address,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    address
}

/// The address of the C library's `dlsym`, 0 if no loaded library has it.
#[cfg(not(target_env = "gnu"))]
fn dlsym() -> usize {
    plimsoll_os::weak!("dlsym")
}

fn find(name: &CStr) -> usize {
    /// The libraries after that of the caller.
    const RTLD_NEXT: *mut c_void = ptr::without_provenance_mut(usize::MAX);
    type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
    match dlsym() {
        0 => 0,
        // SAFETY: the address is that of the C library's function, whose type this is, and the name ends with NUL.
        dlsym => unsafe {
            let dlsym = core::mem::transmute::<*const (), Dlsym>(ptr::with_exposed_provenance(dlsym));
            dlsym(RTLD_NEXT, name.as_ptr()) as usize
        },
    }
}

/// In place of a function that no library has: nothing can be opened.
extern "C" fn nothing() -> *mut c_void {
    ptr::null_mut()
}

/// The address of the next `dlopen`.
pub extern "C" fn next_dlopen() -> usize {
    static KNOWN: AtomicUsize = AtomicUsize::new(0);
    next(c"dlopen", &KNOWN)
}

/// The address of the next `dlmopen`.
pub extern "C" fn next_dlmopen() -> usize {
    static KNOWN: AtomicUsize = AtomicUsize::new(0);
    next(c"dlmopen", &KNOWN)
}

/// Every bit of the flags but `RTLD_DEEPBIND`.
pub const KEPT: c_int = !8;

/// Saves the arguments, finds the next function, takes the flag out of its register, and jumps.
#[cfg(target_arch = "x86_64")]
#[doc(hidden)]
#[macro_export]
macro_rules! without_deepbind {
    ($flags:literal, $next:ident) => {
        ::core::arch::naked_asm!(
            "push rdi",
            "push rsi",
            "push rdx",
            "call {next}",
            "pop rdx",
            "pop rsi",
            "pop rdi",
            concat!("and ", $flags, ", {kept}"),
            "jmp rax",
            next = sym $crate::dynamic_loading::$next,
            kept = const $crate::dynamic_loading::KEPT,
        )
    };
}

/// Saves the arguments, finds the next function, takes the flag out of its register, and jumps.
#[cfg(target_arch = "aarch64")]
#[doc(hidden)]
#[macro_export]
macro_rules! without_deepbind {
    ($flags:literal, $next:ident) => {
        ::core::arch::naked_asm!(
            "stp x29, x30, [sp, #-48]!",
            "mov x29, sp",
            "stp x0, x1, [sp, #16]",
            "str x2, [sp, #32]",
            "bl {next}",
            "mov x16, x0",
            "ldr x2, [sp, #32]",
            "ldp x0, x1, [sp, #16]",
            "ldp x29, x30, [sp], #48",
            concat!("and ", $flags, ", ", $flags, ", #0xfffffff7"),
            "br x16",
            next = sym $crate::dynamic_loading::$next,
        )
    };
}

#[cfg(target_arch = "aarch64")]
const _: () = assert!(KEPT as u32 == 0xffff_fff7);

/// Defines `dlopen` and `dlmopen`, in a module that allows unsafe code.
#[macro_export]
macro_rules! dynamic_loading_symbols {
    () => {
        /// Opens a library, as the C library does but for `RTLD_DEEPBIND`.
        ///
        /// # Safety
        /// As for `dlopen(3)`: the library's code runs.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn dlopen(
            path: *const ::core::ffi::c_char,
            flags: ::core::ffi::c_int,
        ) -> *mut ::core::ffi::c_void {
            #[cfg(target_arch = "x86_64")]
            $crate::without_deepbind!("esi", next_dlopen);
            #[cfg(target_arch = "aarch64")]
            $crate::without_deepbind!("w1", next_dlopen);
        }

        /// Opens a library in a namespace, as the C library does but for `RTLD_DEEPBIND`.
        ///
        /// # Safety
        /// As for `dlmopen(3)`: the library's code runs.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn dlmopen(
            namespace: ::core::ffi::c_long,
            path: *const ::core::ffi::c_char,
            flags: ::core::ffi::c_int,
        ) -> *mut ::core::ffi::c_void {
            #[cfg(target_arch = "x86_64")]
            $crate::without_deepbind!("edx", next_dlmopen);
            #[cfg(target_arch = "aarch64")]
            $crate::without_deepbind!("w2", next_dlmopen);
        }
    };
}
