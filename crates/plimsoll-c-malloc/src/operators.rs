//! C++'s operators new, by their mangled names.
//!
//! Without memory, the throwing operators follow the standard: they call the new handler and try again until there is
//! none (`std::get_new_handler`), and then throw `std::bad_alloc`. Both are functions of the C++ runtime, which this
//! library finds if it was loaded with the program or before this library; without it the process aborts with a
//! message. The operators that do not throw return null at once: they call no handler, as a handler may throw.
//!
//! An exception must not pass through a frame of Rust. So the throwing operators are naked functions: they jump to the
//! throwing function with the stack as the caller left it, and the loop that calls handlers describes its frame to the
//! unwinder.
#![allow(
    unsafe_code,
    reason = "exported symbols, in the module in which the macro is expanded"
)]

use crate::standard_error::fatal;

/// The address of `std::nothrow`.
pub type Nothrow = *const u8;

/// The end of an operator new that must throw and cannot.
pub extern "C" fn no_runtime() -> ! {
    fatal("operator new: no memory is left, and there is no C++ runtime to throw std::bad_alloc")
}

/// Defines the operators new over `$source`, an expression of a [`Source`](crate::Source), in a module that allows unsafe code.
#[macro_export]
macro_rules! operators_new {
    ($source:expr) => {
        extern "C" fn allocate(size: usize) -> *mut u8 {
            $crate::Source::allocate_or($source, size, || ())
        }

        extern "C" fn allocate_aligned(size: usize, align: usize) -> *mut u8 {
            match align.is_power_of_two() {
                true => $crate::Source::allocate_aligned($source, align, size),
                false => ::core::ptr::null_mut(),
            }
        }

        /// `operator new(std::size_t)`
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub extern "C" fn _Znwm(size: usize) -> *mut u8 {
            #[cfg(target_arch = "x86_64")]
            ::core::arch::naked_asm!(
                ".cfi_startproc",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "call {allocate}",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                "test rax, rax",
                "jz 2f",
                "ret",
                "2:",
                "mov esi, 16",
                "jmp {failed}",
                ".cfi_endproc",
                allocate = sym allocate,
                failed = sym failed,
            );
            #[cfg(target_arch = "aarch64")]
            ::core::arch::naked_asm!(
                ".cfi_startproc",
                "stp x29, x30, [sp, #-32]!",
                ".cfi_adjust_cfa_offset 32",
                "str x0, [sp, #16]",
                "bl {allocate}",
                "ldr x2, [sp, #16]",
                "ldp x29, x30, [sp], #32",
                ".cfi_adjust_cfa_offset -32",
                "cbz x0, 2f",
                "ret",
                "2:",
                "mov x0, x2",
                "mov x1, #16",
                "b {failed}",
                ".cfi_endproc",
                allocate = sym allocate,
                failed = sym failed,
            );
        }

        /// `operator new(std::size_t, std::align_val_t)`
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub extern "C" fn _ZnwmSt11align_val_t(size: usize, align: usize) -> *mut u8 {
            #[cfg(target_arch = "x86_64")]
            ::core::arch::naked_asm!(
                ".cfi_startproc",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "push rsi",
                ".cfi_adjust_cfa_offset 8",
                "sub rsp, 8",
                ".cfi_adjust_cfa_offset 8",
                "call {allocate}",
                "add rsp, 8",
                ".cfi_adjust_cfa_offset -8",
                "pop rsi",
                ".cfi_adjust_cfa_offset -8",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                "test rax, rax",
                "jz 2f",
                "ret",
                "2:",
                "jmp {failed}",
                ".cfi_endproc",
                allocate = sym allocate_aligned,
                failed = sym failed,
            );
            #[cfg(target_arch = "aarch64")]
            ::core::arch::naked_asm!(
                ".cfi_startproc",
                "stp x29, x30, [sp, #-32]!",
                ".cfi_adjust_cfa_offset 32",
                "stp x0, x1, [sp, #16]",
                "bl {allocate}",
                "ldp x2, x3, [sp, #16]",
                "ldp x29, x30, [sp], #32",
                ".cfi_adjust_cfa_offset -32",
                "cbz x0, 2f",
                "ret",
                "2:",
                "mov x0, x2",
                "mov x1, x3",
                "b {failed}",
                ".cfi_endproc",
                allocate = sym allocate_aligned,
                failed = sym failed,
            );
        }

        /// `operator new[](std::size_t)`
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub extern "C" fn _Znam(size: usize) -> *mut u8 {
            #[cfg(target_arch = "x86_64")]
            ::core::arch::naked_asm!("jmp {new}", new = sym _Znwm);
            #[cfg(target_arch = "aarch64")]
            ::core::arch::naked_asm!("b {new}", new = sym _Znwm);
        }

        /// `operator new[](std::size_t, std::align_val_t)`
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub extern "C" fn _ZnamSt11align_val_t(size: usize, align: usize) -> *mut u8 {
            #[cfg(target_arch = "x86_64")]
            ::core::arch::naked_asm!("jmp {new}", new = sym _ZnwmSt11align_val_t);
            #[cfg(target_arch = "aarch64")]
            ::core::arch::naked_asm!("b {new}", new = sym _ZnwmSt11align_val_t);
        }

        /// The target of a jump after a first attempt without memory: calls the new handler and tries again, until there is no
        /// handler; then jumps to the function that throws `std::bad_alloc`.
        #[unsafe(naked)]
        extern "C" fn failed(size: usize, align: usize) -> *mut u8 {
            #[cfg(target_arch = "x86_64")]
            ::core::arch::naked_asm!(
                ".cfi_startproc",
                "push rbx",
                ".cfi_adjust_cfa_offset 8",
                ".cfi_rel_offset rbx, 0",
                "push r12",
                ".cfi_adjust_cfa_offset 8",
                ".cfi_rel_offset r12, 0",
                "sub rsp, 8",
                ".cfi_adjust_cfa_offset 8",
                "mov rbx, rdi",
                "mov r12, rsi",
                "2:",
                ".weak _ZSt15get_new_handlerv",
                "mov rax, [rip + _ZSt15get_new_handlerv@GOTPCREL]",
                "test rax, rax",
                "jz 3f",
                "call rax",
                "test rax, rax",
                "jz 3f",
                "call rax",
                "mov rdi, rbx",
                "mov rsi, r12",
                "call {allocate}",
                "test rax, rax",
                "jz 2b",
                "3:",
                "add rsp, 8",
                ".cfi_adjust_cfa_offset -8",
                "pop r12",
                ".cfi_adjust_cfa_offset -8",
                ".cfi_restore r12",
                "pop rbx",
                ".cfi_adjust_cfa_offset -8",
                ".cfi_restore rbx",
                "test rax, rax",
                "jz 4f",
                "ret",
                "4:",
                ".weak _ZSt17__throw_bad_allocv",
                "mov rax, [rip + _ZSt17__throw_bad_allocv@GOTPCREL]",
                "test rax, rax",
                "jz 5f",
                "jmp rax",
                "5:",
                "jmp {no_runtime}",
                ".cfi_endproc",
                allocate = sym allocate_aligned,
                no_runtime = sym $crate::no_runtime,
            );
            #[cfg(target_arch = "aarch64")]
            ::core::arch::naked_asm!(
                ".cfi_startproc",
                "stp x29, x30, [sp, #-32]!",
                ".cfi_adjust_cfa_offset 32",
                ".cfi_rel_offset x29, 0",
                ".cfi_rel_offset x30, 8",
                "stp x19, x20, [sp, #16]",
                ".cfi_rel_offset x19, 16",
                ".cfi_rel_offset x20, 24",
                "mov x19, x0",
                "mov x20, x1",
                "2:",
                ".weak _ZSt15get_new_handlerv",
                "adrp x0, :got:_ZSt15get_new_handlerv",
                "ldr x0, [x0, :got_lo12:_ZSt15get_new_handlerv]",
                "cbz x0, 3f",
                "blr x0",
                "cbz x0, 3f",
                "blr x0",
                "mov x0, x19",
                "mov x1, x20",
                "bl {allocate}",
                "cbz x0, 2b",
                "3:",
                "ldp x19, x20, [sp, #16]",
                ".cfi_restore x19",
                ".cfi_restore x20",
                "ldp x29, x30, [sp], #32",
                ".cfi_adjust_cfa_offset -32",
                ".cfi_restore x29",
                ".cfi_restore x30",
                "cbz x0, 4f",
                "ret",
                "4:",
                ".weak _ZSt17__throw_bad_allocv",
                "adrp x1, :got:_ZSt17__throw_bad_allocv",
                "ldr x1, [x1, :got_lo12:_ZSt17__throw_bad_allocv]",
                "cbz x1, 5f",
                "br x1",
                "5:",
                "b {no_runtime}",
                ".cfi_endproc",
                allocate = sym allocate_aligned,
                no_runtime = sym $crate::no_runtime,
            );
        }

        /// `operator new(std::size_t, std::nothrow_t const&)`
        #[unsafe(no_mangle)]
        pub extern "C" fn _ZnwmRKSt9nothrow_t(size: usize, _: $crate::Nothrow) -> *mut u8 {
            allocate(size)
        }

        /// `operator new[](std::size_t, std::nothrow_t const&)`
        #[unsafe(no_mangle)]
        pub extern "C" fn _ZnamRKSt9nothrow_t(size: usize, _: $crate::Nothrow) -> *mut u8 {
            allocate(size)
        }

        /// `operator new(std::size_t, std::align_val_t, std::nothrow_t const&)`
        #[unsafe(no_mangle)]
        pub extern "C" fn _ZnwmSt11align_val_tRKSt9nothrow_t(size: usize, align: usize, _: $crate::Nothrow) -> *mut u8 {
            allocate_aligned(size, align)
        }

        /// `operator new[](std::size_t, std::align_val_t, std::nothrow_t const&)`
        #[unsafe(no_mangle)]
        pub extern "C" fn _ZnamSt11align_val_tRKSt9nothrow_t(size: usize, align: usize, _: $crate::Nothrow) -> *mut u8 {
            allocate_aligned(size, align)
        }
    };
}
