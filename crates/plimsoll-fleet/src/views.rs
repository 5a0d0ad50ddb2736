//! Views of a data set for DuckDB.

/// Name of the file in a data set.
pub const FILE: &str = "views.sql";

/// Defines the views; paths in it are relative to the data set.
pub const SQL: &str = include_str!("views.sql");
