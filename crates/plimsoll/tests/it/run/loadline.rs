//! `plimsoll run loadline` on real zram.
