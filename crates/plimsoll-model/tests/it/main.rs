//! Integration tests of scenarios and recordings, one file a topic.

mod recording;
mod scenario;
