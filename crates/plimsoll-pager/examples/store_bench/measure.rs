//! One tier of the store beside its codec.

use std::hint::black_box;

use plimsoll_pager::store::{FirstCodec, Idle, NoFile, PAGE, PageIndex, Place, Store, StoreOptions};

use crate::codecs::{Raw, cpu, pack, unpack};
use crate::data::Pages;

/// A state that pages of the store can be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tier {
    Lz4,
    ZstdFirst,
    Packed,
    Quads,
}

impl Tier {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Tier::Lz4 => "lz4",
            Tier::ZstdFirst => "zstd first",
            Tier::Packed => "zstd idle",
            Tier::Quads => "zstd quads",
        }
    }

    fn raw(self) -> Raw {
        match self {
            Tier::Lz4 => Raw::Lz4,
            Tier::ZstdFirst | Tier::Packed => Raw::Zstd,
            Tier::Quads => Raw::ZstdQuads,
        }
    }
}

/// MB/s of a raw codec and of the store, and the ratio of the two.
pub(crate) struct Pair {
    pub(crate) raw: f64,
    pub(crate) store: f64,
    pub(crate) ratio: f64,
}

/// Bytes of pages for each byte of RAM.
pub(crate) struct Result {
    pub(crate) pack: Pair,
    pub(crate) get: Pair,
    pub(crate) raw_density: f64,
    pub(crate) density: f64,
}

struct Filled {
    store: Store,
    places: Vec<Place>,
    seconds: f64,
}

/// Puts all pages and brings them to the tier.
fn fill(tier: Tier, pages: &Pages) -> Filled {
    let bytes = (pages.len() * PAGE) as u64 * 2 + (8 << 20);
    let options = StoreOptions {
        most: bytes,
        limit: bytes,
        first: if tier == Tier::ZstdFirst {
            FirstCodec::Zstd
        } else {
            FirstCodec::Lz4
        },
    };
    let store = Store::new(&options).expect("there is address space");
    let started = cpu();
    let mut places: Vec<Place> = (0..)
        .zip(pages)
        .map(|(number, page)| store.put(PageIndex::new(number), page).expect("there is room"))
        .collect();
    let mut seconds = cpu() - started;
    if tier == Tier::Packed || tier == Tier::Quads {
        store.close_segments();
        let idle = Idle {
            pages: 0,
            quads: if tier == Tier::Quads { 0 } else { u32::MAX },
        };
        let started = cpu();
        store
            .recompress(idle, u64::MAX, |page, _, new| {
                places[page.number() as usize] = new;
                true
            })
            .expect("a writer is free");
        seconds = cpu() - started;
        store.return_free();
    }
    Filled {
        store,
        places,
        seconds,
    }
}

/// Reads all pages in one run, as a stream of faults does.
fn read(filled: &Filled) -> f64 {
    let started = cpu();
    let mut sum = 0;
    let mut target = [0; PAGE];
    let mut run = filled.store.run();
    for (number, place) in (0..).zip(&filled.places) {
        run.get(PageIndex::new(number), *place, &NoFile, &mut target)
            .expect("it has a copy");
        sum += u64::from(target[number as usize % PAGE]);
    }
    black_box(sum);
    cpu() - started
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

pub(crate) fn measure(tier: Tier, pages: &Pages, rounds: usize) -> Result {
    let mut bodies = Vec::with_capacity(pages.len() * PAGE);
    let (mut raw_pack, mut raw_get, mut put, mut get) = (vec![], vec![], vec![], vec![]);
    let (mut raw_density, mut density) = (0.0, 0.0);
    for _ in 0..rounds {
        let started = cpu();
        let ends = pack(tier.raw(), pages, &mut bodies);
        raw_pack.push(cpu() - started);
        let filled = fill(tier, pages);
        put.push(filled.seconds);
        let started = cpu();
        black_box(unpack(tier.raw(), pages.len(), &bodies, &ends));
        raw_get.push(cpu() - started);
        get.push(read(&filled));
        let bytes = (pages.len() * PAGE) as f64;
        raw_density = bytes / bodies.len() as f64;
        density = bytes / filled.store.used_bytes() as f64;
        verify(&filled, pages);
    }
    let speed = |seconds: &[f64]| (pages.len() * PAGE) as f64 / 1e6 / median(seconds.to_vec());
    let pair = |raw: &[f64], store: &[f64]| Pair {
        raw: speed(raw),
        store: speed(store),
        ratio: median(raw.iter().zip(store).map(|(raw, store)| raw / store).collect()),
    };
    Result {
        pack: pair(&raw_pack, &put),
        get: pair(&raw_get, &get),
        raw_density,
        density,
    }
}

fn verify(filled: &Filled, pages: &Pages) {
    let mut target = [0; PAGE];
    for (number, (place, page)) in (0..).zip(filled.places.iter().zip(pages)) {
        let read = filled.store.get(PageIndex::new(number), *place, &mut target);
        assert!(read == Ok(()) && target == *page, "page {number}");
    }
}
