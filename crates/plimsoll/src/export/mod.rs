//! A recording in the forms of other programs.
