//! Mistakes with free blocks outside of slots; `tests/it/mistakes.rs` has the others.

use std::os::unix::process::ExitStatusExt;

use super::*;
use crate::integrity::Damage;
use plimsoll_testkit::{again, role};

#[test]
fn mistakes_with_free_blocks_end_the_process() {
    if let Some(mistake) = role() {
        return commit(&mistake);
    }
    let test = "front_end::tests::mistakes::mistakes_with_free_blocks_end_the_process";
    for (mistake, damage) in [
        ("double free later", Damage::DoubleFree),
        ("double free of an absent block", Damage::DoubleFree),
        ("free of a block that was never handed out", Damage::Foreign),
    ] {
        let output = again(test, mistake).output().unwrap();
        assert_eq!(output.status.signal(), Some(6), "{output:?}");
        let said = std::string::String::from_utf8(output.stderr).unwrap();
        // An emulator may add lines of its own.
        let line = said.lines().next().unwrap_or_default();
        assert!(
            line.starts_with("plimsoll-malloc: 0x") && line.ends_with(&std::format!("[{}]", damage.code())),
            "{mistake}: {said}"
        );
        assert!(line.contains("48 bytes (bucket 3)"), "{mistake}: {said}");
    }
}

/// In a process of its own.
fn commit(mistake: &str) {
    let ends = Ends::new();
    let bucket = Bucket::for_size(48).unwrap();
    match mistake {
        "double free later" => {
            let blocks: Vec<_> = (0..100).map(|_| ends.allocate(bucket)).collect();
            blocks.iter().for_each(|block| ends.free(*block));
            ends.front_end.flush_idle(&ends.backend, Idle::All);
            ends.free(blocks[5]);
        }
        "double free of an absent block" => {
            let (_, absent) = sparse(&ends, bucket);
            ends.free(absent[200]);
        }
        "free of a block that was never handed out" => {
            let blocks: Vec<_> = (0..100).map(|_| ends.allocate(bucket)).collect();
            let subsegment = Subsegment::containing(blocks[0] as usize, bucket);
            ends.free(subsegment.block(subsegment.capacity() - 1));
            // It is freed behind others, which are blocks.
            ends.front_end.flush_idle(&ends.backend, Idle::All);
        }
        other => panic!("no mistake is called {other}"),
    }
}
