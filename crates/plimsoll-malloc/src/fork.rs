//! Forks find the heap whole from the library's start on, so that no thread of the program comes before.
#![allow(unsafe_code)]

use plimsoll_lfh::Heap;

/// The first call of the heap does it too, but the program decides when that is: it may fork before.
extern "C" fn prepare() {
    Heap::prepare_for_forks();
}

/// Run by the dynamic linker when the library has been loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static PREPARE: extern "C" fn() = prepare;
