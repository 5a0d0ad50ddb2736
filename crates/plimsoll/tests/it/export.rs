//! `plimsoll export`.

mod command;
