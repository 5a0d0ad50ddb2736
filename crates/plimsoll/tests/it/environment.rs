//! Tests of the `environment` room.
