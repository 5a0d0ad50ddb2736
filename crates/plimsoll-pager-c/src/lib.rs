//! The C interface of [`plimsoll_pager`]; `include/plimsoll_pager.h` documents it.
//!
//! | module | content |
//! |---|---|
//! | `interface` | the C functions: pointers checked, codes returned |
//! | `handle` | a pager with its regions and pins |
//! | `failure` | codes, and the text of the last failure |
//! | `layout` | the structures of the header |

mod failure;
mod handle;
pub mod interface;
pub mod layout;
