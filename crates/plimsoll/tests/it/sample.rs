//! Tests of the `sample` room.
