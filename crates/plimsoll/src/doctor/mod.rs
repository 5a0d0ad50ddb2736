//! What this machine allows, what is lost without it, and what enables it.
