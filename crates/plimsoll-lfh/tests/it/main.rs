//! The heap from outside, by topic.
//!
//! | module | what it tests |
//! |---|---|
//! | `model` | any sequence of calls against a map of the blocks in use, contents included |
//! | `edges` | what no program should ask for, and what many do |

mod edges;
mod model;
