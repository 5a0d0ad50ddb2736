//! One process after the other: working set, swap, faults, caps, and the fault-storm detector.
