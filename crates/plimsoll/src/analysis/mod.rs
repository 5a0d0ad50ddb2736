//! Recordings to numbers. Prints nothing, reads no system.
