//! Tests of the `watch` room.

mod serve;
