//! The sampler on a swap device that a test sets up.

mod pressure;
