//! The program that a command starts: its file, and the facts of the file that decide whether the dynamic linker would
//! preload a library into it.

mod image;
mod locate;

pub use image::{Image, Kind};
pub use locate::locate;
