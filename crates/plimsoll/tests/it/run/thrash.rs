//! `plimsoll run thrash` on real zram.
