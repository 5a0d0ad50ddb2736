//! Taking pages out of working sets, and standby memory out of RAM, on demand.
