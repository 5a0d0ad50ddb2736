//! The symbols of malloc and C++'s operators new and delete over the process's heap; `dlopen` and `dlmopen`.
#![allow(unsafe_code)]

use plimsoll_lfh::Heap;

macro_rules! symbols {
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
                $promise(Heap::process(), $($argument),*)
            }
        }
    )*};
}

plimsoll_c_malloc::allocating_symbols!(symbols);
plimsoll_c_malloc::other_symbols!(symbols);
plimsoll_c_malloc::operators_new!(Heap::process());
plimsoll_c_malloc::dynamic_loading_symbols!();
