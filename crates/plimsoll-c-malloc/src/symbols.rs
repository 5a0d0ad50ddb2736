//! The lists of symbols. Each row is the number of arguments, a symbol, its arguments, and the function of this crate
//! that keeps its promise, which takes the source of blocks before them.

/// Calls the macro `$define` with every symbol that returns a block.
#[macro_export]
macro_rules! allocating_symbols {
    ($define:ident) => {
        $define! {
            /// A block of at least `size` bytes.
            [1] malloc(size: usize) -> *mut u8 = $crate::malloc;
            /// A block of `count` times `size` bytes that are zero.
            [2] calloc(count: usize, size: usize) -> *mut u8 = $crate::calloc;
            /// Makes a block `size` bytes long.
            [2] realloc(block: *mut u8, size: usize) -> *mut u8 = $crate::realloc;
            /// As `realloc`, of `count` times `size` bytes.
            [3] reallocarray(block: *mut u8, count: usize, size: usize) -> *mut u8 = $crate::reallocarray;
            /// `malloc` by the name that glibc has for replacements of malloc; programs call it too.
            [1] __libc_malloc(size: usize) -> *mut u8 = $crate::malloc;
            /// `calloc`, as `__libc_malloc`.
            [2] __libc_calloc(count: usize, size: usize) -> *mut u8 = $crate::calloc;
            /// `realloc`, as `__libc_malloc`.
            [2] __libc_realloc(block: *mut u8, size: usize) -> *mut u8 = $crate::realloc;
            /// `reallocarray`, as `__libc_malloc`.
            [3] __libc_reallocarray(block: *mut u8, count: usize, size: usize) -> *mut u8 = $crate::reallocarray;
            /// Writes a block at a multiple of `align` to `result`.
            [3] posix_memalign(result: *mut *mut u8, align: usize, size: usize) -> ::core::ffi::c_int
                = $crate::posix_memalign;
            /// `posix_memalign`, by the name of its definition in glibc. That does not export it; mimalloc and tcmalloc do.
            [3] __posix_memalign(result: *mut *mut u8, align: usize, size: usize) -> ::core::ffi::c_int
                = $crate::posix_memalign;
            /// A block at a multiple of `align`, a power of two.
            [2] aligned_alloc(align: usize, size: usize) -> *mut u8 = $crate::aligned_alloc;
            /// A block at a multiple of `align`, rounded up to a power of two.
            [2] memalign(align: usize, size: usize) -> *mut u8 = $crate::memalign;
            /// `memalign`, by the name that glibc has for it.
            [2] __libc_memalign(align: usize, size: usize) -> *mut u8 = $crate::memalign;
            /// A block at the start of a page.
            [1] valloc(size: usize) -> *mut u8 = $crate::valloc;
            /// `valloc`, by the name that glibc has for it.
            [1] __libc_valloc(size: usize) -> *mut u8 = $crate::valloc;
            /// A block of whole pages.
            [1] pvalloc(size: usize) -> *mut u8 = $crate::pvalloc;
            /// `pvalloc`, by the name that glibc has for it.
            [1] __libc_pvalloc(size: usize) -> *mut u8 = $crate::pvalloc;
        }
    };
}

/// Calls the macro `$define` with every symbol that returns no block: those that free one, C++'s operators delete among them,
/// and those on statistics and options. Sizes and alignments of operators delete are those that were asked for; nothing
/// depends on them.
#[macro_export]
macro_rules! other_symbols {
    ($define:ident) => {
        $define! {
            /// Frees a block.
            [1] free(block: *mut u8) -> () = $crate::free;
            /// `free`, by its old name.
            [1] cfree(block: *mut u8) -> () = $crate::free;
            /// As `free`; C23. The size is the one that was asked for.
            [2] free_sized(block: *mut u8, size: usize) -> () = $crate::free_with;
            /// As `free`, of a block of `aligned_alloc`; C23.
            [3] free_aligned_sized(block: *mut u8, align: usize, size: usize) -> () = $crate::free_with_two;
            /// `free`, by the name that glibc has for replacements of malloc; programs call it too.
            [1] __libc_free(block: *mut u8) -> () = $crate::free;
            /// `cfree`, as `__libc_free`.
            [1] __libc_cfree(block: *mut u8) -> () = $crate::free;
            /// Bytes of a block.
            [1] malloc_usable_size(block: *mut u8) -> usize = $crate::information::malloc_usable_size;
            /// Returns free memory to the kernel.
            [1] malloc_trim(pad: usize) -> ::core::ffi::c_int = $crate::information::malloc_trim;
            /// Sets a parameter: none has a meaning.
            [2] mallopt(parameter: ::core::ffi::c_int, value: ::core::ffi::c_int) -> ::core::ffi::c_int
                = $crate::information::mallopt;
            /// `mallopt`, by the name that glibc has for it.
            [2] __libc_mallopt(parameter: ::core::ffi::c_int, value: ::core::ffi::c_int) -> ::core::ffi::c_int
                = $crate::information::mallopt;
            /// The contents of the heap.
            [0] mallinfo2() -> $crate::information::MallocInformation<usize> = $crate::information::mallinfo2;
            /// The contents of the heap, in small numbers.
            [0] mallinfo() -> $crate::information::MallocInformation<::core::ffi::c_int>
                = $crate::information::mallinfo;
            /// `mallinfo`, by the name that glibc has for it.
            [0] __libc_mallinfo() -> $crate::information::MallocInformation<::core::ffi::c_int>
                = $crate::information::mallinfo;
            /// Writes the contents of the heap to standard error.
            [0] malloc_stats() -> () = $crate::information::malloc_stats;
            /// Writes the contents of the heap to a stream as XML.
            [2] malloc_info(options: ::core::ffi::c_int, stream: *mut ::core::ffi::c_void) -> ::core::ffi::c_int
                = $crate::information::malloc_info;
            /// `operator delete(void*)`
            [1] _ZdlPv(block: *mut u8) -> () = $crate::free;
            /// `operator delete[](void*)`
            [1] _ZdaPv(block: *mut u8) -> () = $crate::free;
            /// `operator delete(void*, std::size_t)`
            [2] _ZdlPvm(block: *mut u8, size: usize) -> () = $crate::free_with;
            /// `operator delete[](void*, std::size_t)`
            [2] _ZdaPvm(block: *mut u8, size: usize) -> () = $crate::free_with;
            /// `operator delete(void*, std::align_val_t)`
            [2] _ZdlPvSt11align_val_t(block: *mut u8, align: usize) -> () = $crate::free_with;
            /// `operator delete[](void*, std::align_val_t)`
            [2] _ZdaPvSt11align_val_t(block: *mut u8, align: usize) -> () = $crate::free_with;
            /// `operator delete(void*, std::size_t, std::align_val_t)`
            [3] _ZdlPvmSt11align_val_t(block: *mut u8, size: usize, align: usize) -> () = $crate::free_with_two;
            /// `operator delete[](void*, std::size_t, std::align_val_t)`
            [3] _ZdaPvmSt11align_val_t(block: *mut u8, size: usize, align: usize) -> () = $crate::free_with_two;
            /// `operator delete(void*, std::nothrow_t const&)`
            [2] _ZdlPvRKSt9nothrow_t(block: *mut u8, tag: $crate::Nothrow) -> () = $crate::free_with;
            /// `operator delete[](void*, std::nothrow_t const&)`
            [2] _ZdaPvRKSt9nothrow_t(block: *mut u8, tag: $crate::Nothrow) -> () = $crate::free_with;
            /// `operator delete(void*, std::align_val_t, std::nothrow_t const&)`
            [3] _ZdlPvSt11align_val_tRKSt9nothrow_t(block: *mut u8, align: usize, tag: $crate::Nothrow) -> ()
                = $crate::free_with_two;
            /// `operator delete[](void*, std::align_val_t, std::nothrow_t const&)`
            [3] _ZdaPvSt11align_val_tRKSt9nothrow_t(block: *mut u8, align: usize, tag: $crate::Nothrow) -> ()
                = $crate::free_with_two;
        }
    };
}
