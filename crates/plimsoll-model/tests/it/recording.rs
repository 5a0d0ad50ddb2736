//! Recordings that are followed, resumed, and written on a full disk.

mod follow;
mod full_disk;
mod resume;
