//! The pager as an embedder uses it.
//!
//! | module | topic |
//! |---|---|
//! | `cap` | the budget as the kernel counts it |
//! | `refused` | systems that refuse userfaultfd |
//! | `signals` | other handlers of SIGBUS, and forks |

mod cap;
mod refused;
mod signals;
