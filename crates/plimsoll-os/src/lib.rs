//! Raw Linux memory-management calls: `no_std`, and nothing here allocates.
#![no_std]
