//! Patches of a sound heap, and the faults that a walk must find then.

use super::*;

/// A patch, the fault that a walk must find then, and its address.
pub(super) struct Row {
    pub(super) patches: Vec<Patch>,
    pub(super) is_it: fn(&Fault) -> bool,
    pub(super) address: usize,
}

fn row(patches: Vec<Patch>, address: usize, is_it: fn(&Fault) -> bool) -> Row {
    Row {
        patches,
        is_it,
        address,
    }
}

/// Faults of descriptions.
pub(super) fn rows_of_runs(heaps: &Heaps) -> Vec<Row> {
    let [extent, _] = heaps.extents;
    let length = arena::unit(extent).length.load(Ordering::Relaxed);
    let last = extent + length - 1;
    let wide = Subsegment::containing(heaps.wide, Bucket::for_size(2000).expect("it has a bucket")).first;
    let large = heaps.large;
    let heap = heaps.plain.number();
    let segment = ptr::from_ref(arena::segment_of(large)).addr() + offset_of!(Segment, heap);
    let at = arena::address_of;
    let apart = vec![
        length_of_unit(extent, length - 1),
        of_unit(last - 1, offset_of!(Unit, kind), &[UnitKind::Free as u8]),
        of_unit(last - 1, offset_of!(Unit, heap), &heap.to_ne_bytes()),
        first_of_unit(last - 1, extent),
        length_of_unit(last - 1, length - 1),
        first_of_unit(last, last),
        length_of_unit(last, 1),
    ];
    vec![
        row(
            vec![of_unit(large, offset_of!(Unit, kind), &[9])],
            at(large),
            |fault| matches!(fault, Fault::Description { kind: 9, .. }),
        ),
        row(
            vec![of_unit(large, offset_of!(Unit, kind), &[0])],
            at(large),
            |fault| matches!(fault, Fault::Hole { .. }),
        ),
        row(vec![(segment, 99_u16.to_ne_bytes().to_vec())], 0, |fault| {
            matches!(fault, Fault::Owner { segment: 99 })
        }),
        row(vec![first_of_unit(wide + 1, 7)], at(wide), |fault| {
            matches!(fault, Fault::Inner { first: 7, .. })
        }),
        row(vec![length_of_unit(last, 3)], at(extent), |fault| {
            matches!(fault, Fault::Tail { .. })
        }),
        row(apart, at(extent), |fault| matches!(fault, Fault::Apart { .. })),
        row(
            vec![of_unit(extent, offset_of!(Unit, next), &large.to_ne_bytes())],
            0,
            |fault| matches!(fault, Fault::List { .. }),
        ),
        row(
            vec![of_unit(wide, offset_of!(Unit, bucket), &[200])],
            at(wide),
            |fault| matches!(fault, Fault::NoBucket { number: 200 }),
        ),
        row(
            vec![of_unit(wide, offset_of!(Unit, split), &u16::MAX.to_ne_bytes())],
            at(wide),
            |fault| matches!(fault, Fault::Count { .. }),
        ),
    ]
}

/// Faults of free blocks.
pub(super) fn rows_of_lists(heaps: &Heaps) -> Vec<Row> {
    let bucket = Bucket::for_size(SMALL).expect("it has a bucket");
    let (subsegment, head) = heaps.listed(heaps.small[0], bucket);
    let block = subsegment.block(head - 1) as usize;
    let tag = tag_by(arena::directory().key.load(Ordering::Relaxed), block);
    let link = |next: u16| {
        let word = u64::from(next) ^ tag.rotate_left(32);
        vec![(block, word.to_ne_bytes().to_vec())]
    };
    let split = subsegment.unit().split.load(Ordering::Relaxed);
    vec![
        row(link(split + 1), block, |fault| {
            matches!(fault, Fault::Link { .. })
        }),
        row(link(0), block, |fault| matches!(fault, Fault::Length { .. })),
        row(link(head), block, |fault| matches!(fault, Fault::Twice { .. })),
        row(vec![(block, vec![0x41; 8])], block, |fault| {
            matches!(
                fault,
                Fault::Mark {
                    found: 0x4141_4141_4141_4141,
                    ..
                }
            )
        }),
        row(vec![(block + 8, vec![0x41; 8])], block, |fault| {
            matches!(
                fault,
                Fault::Mark {
                    found: 0x4141_4141_4141_4141,
                    ..
                }
            )
        }),
    ]
}

/// Faults of slots and of Standard.
pub(super) fn rows_of_others(heaps: &Heaps) -> Vec<Row> {
    let bucket = Bucket::for_size(80).expect("it has a bucket");
    let in_use = heaps.small[0];
    let filled = |[begin, end, current]: [u16; 3]| begin < end && begin < current;
    let slot = Heaps::slot(&heaps.plain, filled, bucket.index());
    let end = begin(bucket) + most_pointers(bucket) + 1;
    let header = heaps.standard[5] - 8;
    vec![
        row(
            vec![(
                slot + begin(bucket) as usize * STEP,
                in_use.to_ne_bytes().to_vec(),
            )],
            in_use,
            |fault| matches!(fault, Fault::Slot { .. }),
        ),
        row(
            vec![(slot + bucket.index() * 8 + 2, end.to_ne_bytes().to_vec())],
            slot,
            |fault| matches!(fault, Fault::Header { .. }),
        ),
        row(vec![(header, vec![0x41; 8])], heaps.standard[5], |fault| {
            matches!(fault, Fault::Standard { .. })
        }),
    ]
}

/// Faults of hardened heaps.
pub(super) fn rows_of_hardened(heaps: &Heaps) -> Vec<Row> {
    let bucket = Bucket::for_size(100 + 8).expect("it has a bucket");
    let block = heaps.guarded[10];
    let (subsegment, head) = heaps.listed(heaps.guarded[0], bucket);
    let listed = subsegment.block(head - 1) as usize;
    let state = |block: usize| ptr::from_ref(arena::block_byte(block)).addr();
    let rests = |[begin, _, current]: [u16; 3]| begin == QUARANTINE && current > begin;
    let slot = Heaps::slot(&heaps.hardened, rests, 0);
    let mut pointer = [0; 8];
    ThisProcess
        .read(slot + QUARANTINE as usize * STEP, &mut pointer)
        .expect("it is a slot");
    let resting = usize::from_ne_bytes(pointer);
    let large = heaps.guarded_large;
    let slack = of_unit(unit_at(large), offset_of!(Unit, slack), &16_u32.to_ne_bytes());
    vec![
        row(vec![(block + 100, vec![0])], block, |fault| {
            matches!(fault, Fault::Canary { bucket: Some(_), .. })
        }),
        row(vec![(large + 100_000, vec![0])], large, |fault| {
            matches!(fault, Fault::Canary { bucket: None, .. })
        }),
        row(vec![slack], large, |fault| {
            matches!(fault, Fault::Slack { slack: 16 })
        }),
        // In use, and in a list.
        row(vec![(state(listed), vec![20])], listed, |fault| {
            matches!(fault, Fault::State { state: 20, .. })
        }),
        // In use, with less behind it than a canary.
        row(vec![(state(block), vec![4])], block, |fault| {
            matches!(fault, Fault::State { state: 4, .. })
        }),
        row(vec![(resting + 50, vec![1])], resting, |fault| {
            matches!(fault, Fault::Resting { .. })
        }),
        row(vec![(state(resting), vec![1])], resting, |fault| {
            matches!(fault, Fault::Resting { .. })
        }),
        row(vec![(slot + 2, vec![1, 0])], slot, |fault| {
            matches!(fault, Fault::Quarantine { .. })
        }),
    ]
}
