//! The end of a process in which the library made a mistake of its own.

#[cfg(panic = "abort")]
#[panic_handler]
fn panic(information: &core::panic::PanicInfo<'_>) -> ! {
    plimsoll_c_malloc::fatal(format_args!(
        "the heap's library made a mistake of its own, please report it: {information}"
    ))
}
