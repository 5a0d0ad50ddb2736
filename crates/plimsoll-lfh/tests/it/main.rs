//! The heap from outside, by topic.
//!
//! | module | what it tests |
//! |---|---|
//! | `model` | any sequence of calls against a map of the blocks in use, contents included |
//! | `edges` | what no program should ask for, and what many do |
//! | `inspect` | what is told of heaps, here and from another process, and what is found damaged |

mod edges;
mod inspect;
mod model;
