//! Counters that no single atomic of the manager holds, as words of the record that other processes read.

use plimsoll_os::Errno;

use crate::backing::PageFileUse;
use crate::manager::{AgeingState, ThrashStats, ThrashStep};
use crate::page_file::{State, WriteFailure};

/// Counters that no single atomic of the manager holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Derived {
    pub(crate) store_bytes: u64,
    pub(crate) metadata_bytes: u64,
    pub(crate) suspended_pages: u64,
    pub(crate) refaults: u64,
    pub(crate) stall_us: u64,
    pub(crate) ageing: AgeingState,
    pub(crate) ageing_windows: u64,
    pub(crate) ageing_us: u64,
    pub(crate) heat_chunks: [u64; 8],
    pub(crate) thrash: ThrashStats,
    pub(crate) page_file: Option<PageFileUse>,
}

/// Codes of a page file's state in the record.
const ABSENT: u64 = 0;
const WRITABLE: u64 = 1;
const LIMITED: u64 = 2;
const REFUSED: u64 = 3;
const SHORT: u64 = 4;
const KEY_WORN: u64 = 5;
const OF_PARENT: u64 = 6;

impl Derived {
    /// The number of its words.
    pub(crate) const COUNT: usize = 37;

    /// The counters, in a fixed order.
    pub(crate) fn words(&self) -> [u64; Derived::COUNT] {
        let [code, first, second, third] = self
            .page_file
            .map_or([ABSENT, 0, 0, 0], |file| state_words(file.state));
        let sizes = self.page_file.map_or([0; 7], |file| {
            [
                file.bytes,
                file.used_bytes,
                file.allocated_bytes,
                file.written_bytes,
                file.read_bytes,
                file.write_failures,
                file.read_failures,
            ]
        });
        let [
            bytes,
            used,
            allocated,
            written,
            read,
            write_failures,
            read_failures,
        ] = sizes;
        let [h0, h1, h2, h3, h4, h5, h6, h7] = self.heat_chunks;
        let thrash = &self.thrash;
        let [s0, s1, s2, s3, s4] = thrash.step_us;
        [
            self.store_bytes,
            self.metadata_bytes,
            self.suspended_pages,
            self.refaults,
            self.stall_us,
            self.ageing as u64,
            self.ageing_windows,
            self.ageing_us,
            h0,
            h1,
            h2,
            h3,
            h4,
            h5,
            h6,
            h7,
            thrash.step as u64,
            s0,
            s1,
            s2,
            s3,
            s4,
            thrash.throttled_us,
            thrash.worst_percent,
            thrash.trials,
            thrash.kept,
            code,
            first,
            second,
            third,
            bytes,
            used,
            allocated,
            written,
            read,
            write_failures,
            read_failures,
        ]
    }

    /// The inverse of [`Derived::words`]. Unknown codes of a state are no page file.
    pub(crate) fn of_words(words: [u64; Derived::COUNT]) -> Derived {
        let [
            store_bytes,
            metadata_bytes,
            suspended_pages,
            refaults,
            stall_us,
            ageing,
            ageing_windows,
            ageing_us,
            rest @ ..,
        ] = words;
        let [h0, h1, h2, h3, h4, h5, h6, h7, rest @ ..] = rest;
        let [step, s0, s1, s2, s3, s4, rest @ ..] = rest;
        let [throttled_us, worst_percent, trials, kept, rest @ ..] = rest;
        let [code, first, second, third, sizes @ ..] = rest;
        let [
            bytes,
            used_bytes,
            allocated_bytes,
            written_bytes,
            read_bytes,
            write_failures,
            read_failures,
        ] = sizes;
        let page_file = state_of([code, first, second, third]).map(|state| PageFileUse {
            state,
            bytes,
            used_bytes,
            allocated_bytes,
            written_bytes,
            read_bytes,
            write_failures,
            read_failures,
        });
        Derived {
            store_bytes,
            metadata_bytes,
            suspended_pages,
            refaults,
            stall_us,
            ageing: AgeingState::of_number(ageing),
            ageing_windows,
            ageing_us,
            heat_chunks: [h0, h1, h2, h3, h4, h5, h6, h7],
            thrash: ThrashStats {
                step: ThrashStep::of_number(step),
                step_us: [s0, s1, s2, s3, s4],
                throttled_us,
                worst_percent: worst_percent.min(100),
                trials,
                kept,
            },
            page_file,
        }
    }
}

fn state_words(state: State) -> [u64; 4] {
    let number = |errno: Errno| u64::from(errno.raw().unsigned_abs());
    match state {
        State::Writable => [WRITABLE, 0, 0, 0],
        State::Limited { bytes, errno } => [LIMITED, bytes, number(errno), 0],
        State::Failed(WriteFailure::Write {
            position,
            length,
            errno,
        }) => [REFUSED, position, length as u64, number(errno)],
        State::Failed(WriteFailure::Short {
            position,
            length,
            written,
        }) => [SHORT, position, length as u64, written as u64],
        State::Failed(WriteFailure::KeyWorn) => [KEY_WORN, 0, 0, 0],
        State::OfParent => [OF_PARENT, 0, 0, 0],
    }
}

fn state_of([code, first, second, third]: [u64; 4]) -> Option<State> {
    let errno = |number: u64| Errno::of_number(number as u16 as i32);
    Some(match code {
        WRITABLE => State::Writable,
        LIMITED => State::Limited {
            bytes: first,
            errno: errno(second),
        },
        REFUSED => State::Failed(WriteFailure::Write {
            position: first,
            length: second as usize,
            errno: errno(third),
        }),
        SHORT => State::Failed(WriteFailure::Short {
            position: first,
            length: second as usize,
            written: third as usize,
        }),
        KEY_WORN => State::Failed(WriteFailure::KeyWorn),
        OF_PARENT => State::OfParent,
        _ => return None,
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_counter_returns_from_its_words_and_unknown_codes_are_harmless() {
        let errno = Errno::of_number(libc::ENOSPC);
        let states = [
            None,
            Some(State::Writable),
            Some(State::Limited { bytes: 77, errno }),
            Some(State::Failed(WriteFailure::Write {
                position: 5,
                length: 6,
                errno,
            })),
            Some(State::Failed(WriteFailure::Short {
                position: 5,
                length: 6,
                written: 4,
            })),
            Some(State::Failed(WriteFailure::KeyWorn)),
            Some(State::OfParent),
        ];
        for state in states {
            let derived = Derived {
                store_bytes: 1,
                metadata_bytes: 2,
                suspended_pages: 3,
                refaults: 4,
                stall_us: 5,
                ageing: AgeingState::Unsupported,
                ageing_windows: 13,
                ageing_us: 14,
                heat_chunks: [15, 16, 17, 18, 19, 20, 21, 22],
                thrash: ThrashStats {
                    step: ThrashStep::NoReadAhead,
                    step_us: [23, 24, 25, 26, 27],
                    throttled_us: 28,
                    worst_percent: 29,
                    trials: 30,
                    kept: 31,
                },
                page_file: state.map(|state| PageFileUse {
                    state,
                    bytes: 6,
                    used_bytes: 7,
                    allocated_bytes: 8,
                    written_bytes: 9,
                    read_bytes: 10,
                    write_failures: 11,
                    read_failures: 12,
                }),
            };
            assert_eq!(Derived::of_words(derived.words()), derived);
        }
        let mut unknown = Derived::default().words();
        // The step, the share of the worst thread, and the state of the page file.
        (unknown[16], unknown[23], unknown[26]) = (99, 0, 99);
        assert_eq!(Derived::of_words(unknown), Derived::default());
        unknown[23] = u64::MAX;
        assert_eq!(Derived::of_words(unknown).thrash.worst_percent, 100);
    }
}
