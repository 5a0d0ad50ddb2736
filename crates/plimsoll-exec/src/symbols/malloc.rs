//! The symbols of malloc and C++'s operators new and delete; `dlopen` and `dlmopen`.
//!
//! A function that returns a block is assembly: it passes its return address on as a further argument, and jumps. The address
//! tells blocks of the C library from those of the program.
#![allow(unsafe_code, reason = "exported symbols")]

use crate::blocks::{FOR_PROGRAM, ForCaller};

/// The jump to a function with the return address as its last argument.
#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    (1, $function:ident) => { jump!("rsi", $function) };
    (2, $function:ident) => { jump!("rdx", $function) };
    (3, $function:ident) => { jump!("rcx", $function) };
    ($register:literal, $function:ident) => {
        ::core::arch::naked_asm!(
            concat!("mov ", $register, ", [rsp]"),
            "jmp {function}",
            function = sym $function,
        )
    };
}

/// The jump to a function with the return address as its last argument.
#[cfg(target_arch = "aarch64")]
macro_rules! jump {
    (1, $function:ident) => { jump!("x1", $function) };
    (2, $function:ident) => { jump!("x2", $function) };
    (3, $function:ident) => { jump!("x3", $function) };
    ($register:literal, $function:ident) => {
        ::core::arch::naked_asm!(
            concat!("mov ", $register, ", x30"),
            "b {function}",
            function = sym $function,
        )
    };
}

macro_rules! allocating {
    ($($(#[$meaning:meta])* [$arguments:tt] $symbol:ident($($argument:ident: $kind:ty),*) -> $result:ty
        = $promise:path;)*) => {$(
        const _: () = {
            unsafe extern "C" fn from_caller($($argument: $kind,)* caller: usize) -> $result {
                #[allow(unused_unsafe, reason = "some promises have no premise")]
                // SAFETY: the caller's premise.
                unsafe {
                    $promise(ForCaller(caller), $($argument),*)
                }
            }

            $(#[$meaning])*
            ///
            /// # Safety
            /// As the C library demands of the caller.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $symbol($($argument: $kind),*) -> $result {
                jump!($arguments, from_caller)
            }
        };
    )*};
}

macro_rules! others {
    ($($(#[$meaning:meta])* [$arguments:tt] $symbol:ident($($argument:ident: $kind:ty),*) -> $result:ty
        = $promise:path;)*) => {$(
        $(#[$meaning])*
        ///
        /// # Safety
        /// As the C library demands of the caller.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $symbol($($argument: $kind),*) -> $result {
            #[allow(unused_unsafe, reason = "some promises have no premise")]
            // SAFETY: the caller's premise.
            unsafe {
                $promise(FOR_PROGRAM, $($argument),*)
            }
        }
    )*};
}

plimsoll_c_malloc::allocating_symbols!(allocating);
plimsoll_c_malloc::other_symbols!(others);
plimsoll_c_malloc::operators_new!(FOR_PROGRAM);
plimsoll_c_malloc::dynamic_loading_symbols!();
