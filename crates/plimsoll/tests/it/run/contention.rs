//! `plimsoll run contention` on a real cgroup.
