//! `plimsoll run wscap` on real zram.
