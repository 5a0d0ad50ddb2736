//! `plimsoll run map`.
