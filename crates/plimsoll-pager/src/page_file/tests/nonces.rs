//! Nonces. Encrypted zeros are the key stream, so blocks with the same nonce begin with the same bytes.

use std::sync::Arc;

use plimsoll_os::Errno;

use super::faulty::{Fault, Faulty};
use super::*;

#[test]
fn no_two_blocks_are_encrypted_with_the_same_nonce() {
    let file = Arc::new(Faulty::new(24));
    let (pages, mut writer) = page_file(&file, 24);
    let zeros: Box<Segment> = vec![0; SLOT_BYTES].try_into().unwrap();
    let mut written = Vec::new();
    let mut blocks = 0;
    let mut state = 1_u64;
    for round in 0..2000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let random = (state >> 33) as usize;
        if round % 7 == 0 {
            let next = file.state().writes;
            let fault = match random % 3 {
                0 => Fault::Refuse(Errno::INTR),
                1 => Fault::Short(random % (2 * SLOT_BYTES) + 4096),
                _ => Fault::Short(BLOCK_BYTES),
            };
            file.state().write_faults.insert(next, fault);
        }
        let count = random % 16 + 1;
        while written.len() + count > 24 * 16 {
            let slot: Slot = written.swap_remove(random % written.len());
            pages.free(slot).unwrap();
        }
        written.extend(write(&mut writer, &vec![&*zeros; count]).unwrap().iter());
        blocks += count * BLOCKS_PER_SLOT;
        if round % 100 == 0 {
            writer.rest();
        }
    }
    let state = file.state();
    assert!(blocks > 60_000, "{blocks}");
    assert!(pages.stats().repeated_operations > 200);
    assert_eq!(state.beginnings.len(), blocks, "as many beginnings as blocks");
    assert_eq!(state.repeated_beginnings, 0);
}

#[test]
fn writes_in_flight_have_different_nonces() {
    let file = Arc::new(Faulty::new(16));
    let (pages, mut writer) = page_file(&file, 16);
    let zeros: Box<Segment> = vec![0; SLOT_BYTES].try_into().unwrap();
    // The second write ends early, and its rest fails.
    file.state().write_faults.insert(1, Fault::Short(BLOCK_BYTES));
    file.state().write_faults.insert(4, Fault::Refuse(Errno::IO));
    for _ in 0..4 {
        writer.start(&[&zeros]).unwrap();
    }
    while writer.complete(true).is_some() {}
    assert!(matches!(pages.state(), State::Failed(_)));
    let state = file.state();
    assert_eq!((state.beginnings.len(), state.repeated_beginnings), (16, 0));
}

#[test]
fn two_page_files_have_different_keys() {
    let zeros: Box<Segment> = vec![0; SLOT_BYTES].try_into().unwrap();
    let beginnings = [(); 2].map(|()| {
        let file = Arc::new(Faulty::new(1));
        let (_pages, mut writer) = page_file(&file, 1);
        write(&mut writer, &[&zeros]).unwrap();
        let state = file.state();
        state.bytes[..64].to_vec()
    });
    assert_ne!(beginnings[0], beginnings[1]);
}
