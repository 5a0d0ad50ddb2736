//! Entries whose checksums are right and whose bodies are not: of another version, or an attacker with the page file.

use proptest::prelude::*;

use super::content::{CLASSES, Numbers, page_of};
use super::entry::{Codec, HEADER, LONGEST};
use super::writer::Target;
use super::*;

/// Appends an entry with that body as if it were the copy of page 4, or of pages 4 to 7.
fn forge(store: &Store, codec: Codec, present: u8, body: &[u8]) -> Place {
    let mut writer = store
        .writers
        .lease(&store.space.memory)
        .expect("a writer is free");
    writer.entry[HEADER..HEADER + body.len()].copy_from_slice(body);
    let header = Header {
        length: body.len(),
        codec,
        present,
        live: present,
        quad: 1,
    };
    let to = Target {
        content: Content::Fresh,
        epoch: 0,
        purpose: Purpose::Put,
    };
    Place::in_memory(writer.append(&store.space, &header, to).expect("there is room"))
}

/// Reads the forged pages: any page or an error, without a write past the target, which Miri and ASan would show, and
/// whose neighbours this does.
fn read_all(store: &Store, present: u8, place: Place) {
    for bit in relocation::bits(present) {
        let mut around = [[0xa5; PAGE]; 3];
        let _ = store.get(page(4 + bit.trailing_zeros()), place, &mut around[1]);
        assert!(
            around[0] == [0xa5; PAGE] && around[2] == [0xa5; PAGE],
            "written past the page"
        );
    }
    let mut run = store.run();
    for bit in relocation::bits(present) {
        let _ = run.get(page(4 + bit.trailing_zeros()), place, &NoFile, &mut [0; PAGE]);
    }
}

/// The body of a real entry.
fn body(numbers: &mut Numbers, codec: Codec, present: u8) -> Vec<u8> {
    let store = store();
    let class = CLASSES[numbers.below(CLASSES.len() as u64) as usize];
    let mut writer = store
        .writers
        .lease(&store.space.memory)
        .expect("a writer is free");
    let seed = numbers.next();
    let length = match codec {
        Codec::Lz4 => Some(writer.pack_fast(&store.space, &page_of(class, seed)).1),
        _ => {
            let pages = present.count_ones() as usize;
            (0..pages).for_each(|position| {
                *writer.plain_page(&store.space, position) = page_of(class, seed + position as u64);
            });
            if pages > 1 {
                writer.pack_plain_pages(pages)
            } else {
                writer.pack_plain_page(0)
            }
        }
    };
    let length = length.unwrap_or(100).min(LONGEST - HEADER);
    writer.entry[HEADER..HEADER + length].to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn changed_bodies_yield_a_page_or_an_error(seed: u64, is_lz4: bool, present in 1u8..16, changes in 1usize..20) {
        let mut numbers = Numbers(seed);
        let (codec, present) = if is_lz4 { (Codec::Lz4, 1) } else { (Codec::Zstd, present) };
        let mut body = body(&mut numbers, codec, present);
        for _ in 0..changes {
            let at = numbers.below(body.len() as u64) as usize;
            match numbers.below(4) {
                0 => body[at] ^= 1 << numbers.below(8),
                1 => body[at] = 0xff,
                2 => body.truncate(at.max(1)),
                _ => body[at] = numbers.next() as u8,
            }
        }
        body.truncate(3 << 10);
        let store = store();
        let place = forge(&store, codec, present, &body);
        read_all(&store, present, place);
    }

    #[test]
    fn random_bodies_yield_a_page_or_an_error(body in prop::collection::vec(any::<u8>(), 1..3000), present in 1u8..16) {
        let store = store();
        read_all(&store, 1, forge(&store, Codec::Lz4, 1, &body));
        read_all(&store, present, forge(&store, Codec::Zstd, present, &body));
    }

    /// Any bytes in place of a segment.
    #[test]
    fn random_segments_yield_errors(words in prop::collection::vec(any::<u64>(), 1..100), unit in 0u32..8200) {
        let store = store();
        let text = page_of(super::content::Class::Text, 1);
        let place = store.put(page(4), &text).expect("there is room");
        for (target, word) in store.space.words(0).iter().zip(words.iter().cycle()) {
            target.store(*word, Ordering::Relaxed);
        }
        for unit in [0, unit % 8192] {
            let place = Place::in_memory(Spot { segment: 0, unit });
            prop_assert!(read(&store, 4, place).is_err());
            prop_assert!(store.free(page(4), place).is_err());
        }
        prop_assert!(read(&store, 4, place).is_err());
    }
}

/// A frame that decompresses to more than a page, and to less.
#[test]
fn frames_of_another_size_are_refused() {
    let store = store();
    let mut numbers = Numbers(1);
    let quad = body(&mut numbers, Codec::Zstd, 0b1111);
    let place = forge(&store, Codec::Zstd, 0b1, &quad[..quad.len().min(3 << 10)]);
    assert_eq!(read(&store, 4, place), Err(Flaw::Body));
    let pair = body(&mut numbers, Codec::Zstd, 0b11);
    let place = forge(&store, Codec::Zstd, 0b1111, &pair);
    for number in 4..8 {
        assert_eq!(read(&store, number, place), Err(Flaw::Body));
    }
}
