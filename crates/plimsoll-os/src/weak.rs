//! Functions that may be there or not, decided by the dynamic linker when the library is loaded.
#![allow(unsafe_code)]

/// The address of a symbol of another library, 0 if no loaded library has it.
///
/// Rust has no stable weak symbols, and assumes that every declared function exists. A module that uses the macro
/// allows unsafe code.
#[macro_export]
macro_rules! weak {
    ($symbol:literal) => {{
        let address: usize;
        // SAFETY: reads the entry of the global offset table, which the linker makes for the reference.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            core::arch::asm!(
                concat!(".weak ", $symbol),
                concat!("mov {}, [rip + ", $symbol, "@GOTPCREL]"),
                out(reg) address,
                options(pure, nomem, nostack, preserves_flags),
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::asm!(
                concat!(".weak ", $symbol),
                concat!("adrp {0}, :got:", $symbol),
                concat!("ldr {0}, [{0}, :got_lo12:", $symbol, "]"),
                out(reg) address,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        address
    }};
}
