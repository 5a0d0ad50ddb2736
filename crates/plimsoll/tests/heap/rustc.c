// rustc without a malloc of its own. RUSTC_MAIN is the name of `rustc_driver_impl::main` in the library that has all of it.
void rustc_main(void) __asm__(RUSTC_MAIN);

int main(void) {
    rustc_main();
}
