//! `plimsoll run` without a name.
