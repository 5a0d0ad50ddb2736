//! `plimsoll compare` on recordings.

mod command;
