//! The heap of this project under programs that know nothing of it: its library, and how a program is started with it.

mod launch;
mod library;
mod program;

pub use launch::{HeapFrontEnd, Launch};
pub use library::{LibraryError, unpack};
pub use program::{Program, ProgramError};
