//! The thread that ends the periods of the heap's purge: free memory of an idle program leaves RAM.
//!
//! A heap over a pager has no helper of its own ([`Heap::end_purge_period`]). The thread is one of the C library's, as those of the
//! pager are: it touches managed memory, so a handler of faults runs on it. No handler of the program does.
#![allow(unsafe_code, reason = "the signal mask of the thread")]

use std::ops::ControlFlow;
use std::thread;
use std::time::Duration;

use plimsoll_lfh::Heap;
use plimsoll_os::processor_time;

use crate::trampoline;
