//! Tests of the whole manager: over the simulated driver, and on real memory.
//!
//! | module | topic |
//! |---|---|
//! | `modes` | the tests of `real` again: without `UFFDIO_MOVE`, and with a thread that resolves faults |
//! | `real` | the manager on real memory |
//! | `simulated` | the manager over a model of memory with injected errors |
//! | `unmoved` | the same on a kernel that cannot move pages; pages that a kernel does not move |

mod modes;
mod real;
mod resize;
mod simulated;
mod unmoved;
