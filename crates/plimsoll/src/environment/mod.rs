//! What a run is done to: cgroup, swap devices, sysctls; set up, journalled first, undone after.
