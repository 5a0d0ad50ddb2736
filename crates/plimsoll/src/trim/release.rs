//! Releasing standby memory of the whole machine: caches that no working set holds.
//!
//! The kernel gives it back by itself when it is needed, so this makes nothing faster: what is dropped has to be read
//! again. It shows how much of "used" memory was cache, and makes experiments start alike.
