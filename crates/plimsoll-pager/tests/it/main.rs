//! The pager as an embedder uses it.
//!
//! | module | topic |
//! |---|---|
//! | `refused` | systems that refuse userfaultfd |
//! | `signals` | other handlers of SIGBUS, and forks |

mod refused;
mod signals;
