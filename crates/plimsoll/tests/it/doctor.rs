//! Tests of the `doctor` room.
