//! What a run does to others: the heartbeat outside of its cgroup.
