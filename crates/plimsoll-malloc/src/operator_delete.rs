//! C++'s operators delete, by their mangled names. Sizes and alignments are those that were asked for; nothing depends on
//! them.
#![allow(unsafe_code)]

use plimsoll_lfh::Heap;

macro_rules! operators {
    ($($(#[$meaning:meta])* $symbol:ident($($ignored:ty),*);)*) => {$(
        $(#[$meaning])*
        ///
        /// # Safety
        /// `block` is null or was returned by this library and is in use; it is not used again.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $symbol(block: *mut u8 $(, _: $ignored)*) {
            // SAFETY: the caller's premise.
            unsafe { Heap::process().free(block) };
        }
    )*};
}

/// The address of `std::nothrow`.
type Nothrow = *const u8;

operators! {
    /// `operator delete(void*)`
    _ZdlPv();
    /// `operator delete[](void*)`
    _ZdaPv();
    /// `operator delete(void*, std::size_t)`
    _ZdlPvm(usize);
    /// `operator delete[](void*, std::size_t)`
    _ZdaPvm(usize);
    /// `operator delete(void*, std::align_val_t)`
    _ZdlPvSt11align_val_t(usize);
    /// `operator delete[](void*, std::align_val_t)`
    _ZdaPvSt11align_val_t(usize);
    /// `operator delete(void*, std::size_t, std::align_val_t)`
    _ZdlPvmSt11align_val_t(usize, usize);
    /// `operator delete[](void*, std::size_t, std::align_val_t)`
    _ZdaPvmSt11align_val_t(usize, usize);
    /// `operator delete(void*, std::nothrow_t const&)`
    _ZdlPvRKSt9nothrow_t(Nothrow);
    /// `operator delete[](void*, std::nothrow_t const&)`
    _ZdaPvRKSt9nothrow_t(Nothrow);
    /// `operator delete(void*, std::align_val_t, std::nothrow_t const&)`
    _ZdlPvSt11align_val_tRKSt9nothrow_t(usize, Nothrow);
    /// `operator delete[](void*, std::align_val_t, std::nothrow_t const&)`
    _ZdaPvSt11align_val_tRKSt9nothrow_t(usize, Nothrow);
}
