//! How the library is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Unloaded, it would leave behind what the C library calls at a fork, what the kernel returns to within restartable
    // sequences, a thread, and every block of the program.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
