//! Tests of the `workload` room.
