//! Mistakes that the front end itself notices, each in a process of its own.
#![allow(unsafe_code)]

use super::*;
use crate::this_program::this_program;

/// What a process says that commits a mistake, and how it ends.
fn words_of(mistake: &str) -> std::string::String {
    use std::os::unix::process::ExitStatusExt;
    let output = this_program()
        .args([
            "--exact",
            "front_end::tests::mistakes::mistakes_end_the_process_and_are_named",
        ])
        .env("MISTAKE", mistake)
        .output()
        .unwrap();
    assert_eq!(output.status.signal(), Some(6), "{output:?}");
    std::string::String::from_utf8(output.stderr).unwrap()
}

#[test]
fn mistakes_end_the_process_and_are_named() {
    if let Ok(mistake) = std::env::var("MISTAKE") {
        return commit(&mistake);
    }
    for (mistake, words) in [
        (
            "double free",
            "double free of a block of 48 bytes (bucket 3): it is already free",
        ),
        (
            "double free later",
            "double free of a block of 48 bytes (bucket 3): it is already free",
        ),
        (
            "double free of an absent block",
            "double free of a block of 48 bytes (bucket 3): it is already free",
        ),
        (
            "free of a block that was never handed out",
            "invalid free of a block of 48 bytes (bucket 3): this heap never returned it",
        ),
        (
            "use after free",
            "damage to the free memory of a block of 48 bytes (bucket 3): it was written after it was freed",
        ),
        (
            "overrun",
            "damage to the free memory of a block of 48 bytes (bucket 3): it was written after it was freed",
        ),
    ] {
        let said = words_of(mistake);
        assert!(
            said.starts_with("plimsoll-malloc: 0x") && said.contains(words),
            "{mistake}: {said}"
        );
    }
}

/// In a process of its own.
fn commit(mistake: &str) {
    let ends = Ends::new();
    let bucket = Bucket::for_size(48).unwrap();
    let blocks: Vec<_> = (0..100).map(|_| ends.allocate(bucket)).collect();
    let neighbour = blocks[5] as usize + bucket.size();
    // SAFETY: none; this is what the test is about.
    unsafe {
        match mistake {
            "double free" => {
                ends.free(blocks[5]);
                ends.free(blocks[5]);
            }
            "double free later" => {
                blocks.iter().for_each(|block| ends.free(*block));
                ends.front_end.drain(&ends.backend, Idle::Whatever);
                ends.free(blocks[5]);
            }
            "free of a block that was never handed out" => {
                let subsegment = Subsegment::containing(blocks[0] as usize, bucket);
                ends.free(subsegment.block(subsegment.capacity() - 1));
                // It comes home behind others, which are blocks.
                ends.front_end.drain(&ends.backend, Idle::Whatever);
            }
            "double free of an absent block" => {
                let (_, absent) = sparse(&ends, bucket);
                ends.free(absent[200]);
            }
            "use after free" => {
                ends.free(blocks[5]);
                blocks[5].write_bytes(1, 48);
                ends.allocate(bucket);
            }
            "overrun" => {
                ends.free(neighbour as *mut u8);
                blocks[5].write_bytes(1, 48 + 16);
                ends.allocate(bucket);
            }
            other => panic!("no mistake is called {other}"),
        }
    }
}
