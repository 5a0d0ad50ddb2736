//! Tests of the `recording` room.
