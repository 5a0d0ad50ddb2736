//! Random sequences of calls against a model: a map from pages to contents.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::content::{CLASSES, Class, Numbers, page_of};
use super::spill::File;
use super::*;

/// Pages that the calls use: few, so that quads get full and pages are put again.
const PAGES: u32 = 300;

#[derive(Debug, Clone)]
enum Call {
    /// Puts pages from `first` on that have no copy.
    Put {
        first: u32,
        count: u32,
        class: Class,
        seed: u64,
    },
    Free {
        first: u32,
        count: u32,
        step: u32,
    },
    Read {
        number: u32,
    },
    /// Cleans, while some owners refuse: those whose draw is below `refusals` of 8.
    Clean {
        budget: u64,
        refusals: u64,
    },
    Recompress {
        pages: u32,
        quads: u32,
        refusals: u64,
    },
    /// Spills a segment, if the write succeeds.
    Spill {
        is_written: bool,
        refusals: u64,
    },
    Close,
    Return,
    Epoch,
    Limit {
        bytes: u64,
    },
}

fn call() -> impl Strategy<Value = Call> {
    let class = prop::sample::select(&CLASSES[..]);
    let refusals = prop_oneof![3 => Just(0u64), 1 => 1u64..9];
    prop_oneof![
        6 => (0..PAGES, 1u32..60, class, any::<u64>())
            .prop_map(|(first, count, class, seed)| Call::Put { first, count, class, seed }),
        3 => (0..PAGES, 1u32..60, 1u32..5).prop_map(|(first, count, step)| Call::Free { first, count, step }),
        2 => (0..PAGES).prop_map(|number| Call::Read { number }),
        2 => (prop_oneof![Just(u64::MAX), 1u64..200_000], refusals.clone())
            .prop_map(|(budget, refusals)| Call::Clean { budget, refusals }),
        2 => (0u32..3, 0u32..3, refusals.clone())
            .prop_map(|(pages, quads, refusals)| Call::Recompress { pages, quads, refusals }),
        1 => (any::<bool>(), refusals).prop_map(|(is_written, refusals)| Call::Spill { is_written, refusals }),
        2 => Just(Call::Close),
        1 => Just(Call::Return),
        1 => Just(Call::Epoch),
        1 => (LEAST_LIMIT..3 << 20).prop_map(|bytes| Call::Limit { bytes }),
    ]
}

struct Model {
    store: Store,
    pages: BTreeMap<u32, (Place, Page)>,
    file: File,
    numbers: Numbers,
}

/// The owner's answer, with refusals.
fn relocate(
    pages: &mut BTreeMap<u32, (Place, Page)>,
    numbers: &mut Numbers,
    refusals: u64,
) -> impl FnMut(PageIndex, Place, Place) -> bool {
    move |page, old, new| {
        let (place, _) = pages
            .get_mut(&page.number())
            .expect("a page that is asked for has a copy");
        assert_eq!(*place, old, "page {}", page.number());
        let agrees = numbers.below(8) >= refusals;
        if agrees {
            *place = new;
        }
        agrees
    }
}

impl Model {
    fn read(&self, number: u32) {
        let Some((place, bytes)) = self.pages.get(&number) else {
            return;
        };
        let read = match place.slot() {
            Some(_) => self
                .file
                .read(&self.store, number, *place)
                .expect("the file has it"),
            None => read(&self.store, number, *place).expect("RAM has it"),
        };
        assert!(read == *bytes, "page {number}");
    }

    fn call(&mut self, call: &Call) {
        let Model {
            store,
            pages,
            file,
            numbers,
        } = self;
        match *call {
            Call::Put {
                first,
                count,
                class,
                seed,
            } => {
                for number in (first..first + count).map(|number| number % PAGES) {
                    let bytes = page_of(class, seed + u64::from(number));
                    if let std::collections::btree_map::Entry::Vacant(entry) = pages.entry(number) {
                        match store.put(page(number), &bytes) {
                            Ok(place) => {
                                entry.insert((place, bytes));
                            }
                            Err(error) => assert!(matches!(error, PutError::Full { .. })),
                        }
                    }
                }
            }
            Call::Free { first, count, step } => {
                for number in (first..first + count)
                    .step_by(step as usize)
                    .map(|number| number % PAGES)
                {
                    let freed = pages.remove(&number).filter(|(place, _)| place.slot().is_none());
                    if let Some((place, _)) = freed {
                        store.free(page(number), place).expect("it has a copy");
                    }
                }
            }
            Call::Read { number } => self.read(number),
            Call::Clean { budget, refusals } => {
                store
                    .clean(budget, relocate(pages, numbers, refusals))
                    .expect("a writer is free");
            }
            Call::Recompress {
                pages: idle,
                quads,
                refusals,
            } => {
                let idle = Idle { pages: idle, quads };
                store
                    .recompress(idle, u64::MAX, relocate(pages, numbers, refusals))
                    .expect("a writer is free");
            }
            Call::Spill { is_written, refusals } => {
                let mut bytes = Box::new([0; SEGMENT]);
                if let Some(spill) = store.take_segment_for_spill(&mut bytes)
                    && is_written
                {
                    let slot = file.write(bytes);
                    let _ = spill.finish(slot, relocate(pages, numbers, refusals));
                }
            }
            Call::Close => store.close_segments(),
            Call::Return => {
                store.return_free();
            }
            Call::Epoch => store.advance_epoch(),
            Call::Limit { bytes } => store.set_limit(bytes),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_store_holds_what_the_model_holds(
        calls in prop::collection::vec(call(), 1..60),
        seed: u64,
        is_zstd_first: bool,
    ) {
        let options = StoreOptions {
            most: 16 << 20,
            limit: 3 << 20,
            first: if is_zstd_first { FirstCodec::Zstd } else { FirstCodec::Lz4 },
        };
        let mut model = Model {
            store: Store::new(&options).expect("there is address space"),
            pages: BTreeMap::new(),
            file: File::default(),
            numbers: Numbers(seed),
        };
        for call in &calls {
            model.call(call);
            model.store.validate().map_err(|violation| TestCaseError::fail(format!("{call:?}: {violation}")))?;
        }
        (0..PAGES).for_each(|number| model.read(number));
        let held = || model.pages.values().filter(|(place, _)| place.slot().is_none());
        let same_filled = held().filter(|(place, _)| place.is_same_filled()).count() as u64;
        let stats = model.store.stats();
        prop_assert_eq!(stats.same_filled_pages, same_filled);
        prop_assert_eq!(stats.pages, held().count() as u64 - same_filled);
        prop_assert_eq!(stats.damaged_pages, 0);
    }
}
