//! Two programs and too little memory (Mangan, the last part): the first holds memory while the second requests more.

use serde::{Deserialize, Serialize};

use super::{Descriptor, Filling, Model, Settings, Subjects, Unfit, swap_holds_size};
use crate::quantity;
use crate::scenario::assignment::{Assignment, Key, Preset, key};
use crate::scenario::builtin::builtins;
use crate::scenario::error::Invalid;
use crate::scenario::kind::Kind;
use crate::scenario::model::Subject;
use crate::scenario::shared_keys::{self, CLASS, THP};
use crate::scenario::speed::SpeedHints;
use crate::scenario::value::Value;

/// Names of the findings of a request.
pub mod finding {
    /// RAM of the stores of both pagers; absent without pagers.
    pub const STORES: &str = "stores_bytes";
}

/// The bytes that the pager of each program always gets of the limit: its tables and some pages.
pub const LEAST_SHARE: u64 = 5 << 20;

/// Seconds in which the share of a suspended pager returns: rounds of its pool.
const POOL_SETTLES: f64 = 3.0;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contention {
    /// The memory of the first program, and the rest after its fill, which also follows each request.
    #[serde(flatten)]
    pub filling: Filling,
    /// Bytes that the second program allocates in each request.
    pub request: u64,
    /// Whether the first program is stopped (SIGSTOP) while the second program makes its requests.
    pub suspended: bool,
}

const KEYS: &[Key] = &[
    CLASS,
    shared_keys::size("bytes that the first program holds"),
    shared_keys::request(
        "bytes that the second program allocates and writes in each request, lowered to `size` if larger; four \
         requests of `25% size` equal the memory of the first program",
    ),
    shared_keys::limit(
        Preset::Of("`200% size`", |values| {
            Ok(values.bytes("size")?.checked_mul(2).map(Value::bytes))
        }),
        "limit of the memory cgroup that both programs run in",
    ),
    key(
        "suspended",
        Kind::Flag,
        Preset::Text("false"),
        "whether the first program is stopped (SIGSTOP) while the second program makes its requests",
    ),
    shared_keys::hold("rest after the fill and after each request"),
    THP,
];

impl Contention {
    /// Most bytes that the second program requests: the room beside those of the first. 0 where not even one
    /// request fits.
    pub fn most_asked(&self, settings: &Settings) -> u64 {
        let room = self.room(settings);
        let asks = room.saturating_sub(self.filling.size) / self.request.max(1);
        asks.saturating_mul(self.request)
    }
}

pub(super) const WORKLOAD: Descriptor = Descriptor {
    keys: KEYS,
    subjects: Subjects::SwapAndPagers,
    shrinks: true,
    scenarios: builtins! {
        "contention" "Two programs and too little memory: which one is trimmed, and when";
    },
};

/// Adds the codes of its statements to those of others.
macro_rules! statements {
    ($add:ident $($others:tt)*) => {
        $add! { {
            /// The memory demand, in percent of the limit, at which trimming of the first program began. It is `idle` or `stopped`.
            ContentionTrimmed values "groups" "low_trim_start_percent" "high_trim_start_percent" names "group" "trimmer" "state";
            /// The first program was never trimmed.
            ContentionNotTrimmed values "groups" names "group" "trimmer" "state";
            /// The bytes that the second program had requested when trimming began.
            ContentionRequested values "trim_start_bytes";
            /// The memory that each program had lost at the end.
            ContentionLost values "holder_lost_percent" "asker_lost_percent";
            /// The memory of the first program that was in swap, and the growth of the compressed store.
            ContentionSwapped values "holder_swapped_bytes" "compressed_growth_bytes";
            /// The memory of the first program that had no frame of its pager, and the growth of the compressed store.
            ContentionWithoutFrame values "holder_swapped_bytes" "compressed_growth_bytes";
            /// The slowest request, and its duration over that of requests before trimming.
            ContentionSlowest values "slowest_ask_s" "slowest_ask_ratio";
            /// All of these of one group.
            ContentionGroup values "trim_start_bytes" "trim_start_percent" "holder_lost_percent" "asker_lost_percent" "holder_swapped_bytes" "compressed_growth_bytes" "slowest_ask_s" "slowest_ask_ratio" names "group";
        } $($others)* }
    };
}
pub(crate) use statements;

impl Contention {
    /// Bytes that both programs hold at most, so that the OOM killer stays away: seven eighths of the limit, and nine tenths of
    /// the swap. The store of pagers is in the limit: three quarters of those seven eighths hold copies. A page file holds what
    /// they cannot. In both cases they hold at most twice the limit.
    fn room(&self, settings: &Settings) -> u64 {
        let ram = settings.limit / 8 * 7;
        let most = settings.limit.saturating_mul(2);
        match &settings.subject {
            Subject::Pager(options) if options.page_file_bytes(0).is_some() => most,
            Subject::Pager(_) => {
                let copies = ram / 4 * 3;
                let saved = copies as f64 / self.filling.class.stored_share();
                (ram - copies).saturating_add(saved as u64).min(most)
            }
            subject if subject.has_swap() => ram.saturating_add(settings.swap_size / 10 * 9),
            _ => ram,
        }
    }

    /// Whether the first program is stopped after its pager has returned its share.
    fn suspends_pager(&self, settings: &Settings) -> bool {
        self.suspended && settings.subject.pager().is_some()
    }
}

impl Model for Contention {
    fn read(values: &Assignment<'_>) -> Result<Self, Box<Invalid>> {
        Ok(Contention {
            filling: Filling::read(values)?,
            request: values.bytes("request")?,
            suspended: values.flag("suspended")?,
        })
    }

    fn size(&self, _: &Settings) -> u64 {
        self.filling.size
    }

    /// The second program makes requests until RAM and swap are nearly full.
    fn total(&self, settings: &Settings) -> u64 {
        self.filling.size.saturating_add(self.most_asked(settings))
    }

    fn filling(&self) -> Option<&Filling> {
        Some(&self.filling)
    }

    /// All is filled once and read twice, and the part over the limit goes to swap and back both times. A rest
    /// follows each request.
    fn seconds(&self, settings: &Settings, hints: &SpeedHints) -> f64 {
        let total = self.total(settings);
        let asks = (total - self.filling.size) / self.request.max(1);
        let (of_suspended, settles) = match self.suspends_pager(settings) {
            true => (self.filling.size, POOL_SETTLES),
            false => (0, 0.0),
        };
        let over = total.saturating_sub(settings.limit).max(of_suspended);
        settles
            + 3.0 * (hints.setup_s + hints.once_seconds(&settings.subject, &self.filling.class, over))
            + hints.fill_seconds(total)
            + hints.verify_seconds(total)
            + self.filling.hold * (asks + 1) as f64
    }

    /// The store holds only the part over the limit.
    fn stored(&self, settings: &Settings) -> u64 {
        let over = self.total(settings).saturating_sub(settings.limit);
        (over as f64 * self.filling.class.stored_share()) as u64
    }

    /// Rejects settings that leave no memory for one request of the second program: the OOM killer would end it.
    fn check(&self, settings: &Settings) -> Result<(), Unfit> {
        if settings.subject.pager().is_some() && settings.limit < 2 * LEAST_SHARE {
            return Err(Unfit::new(format!(
                "`limit` is {}, and the pagers of both programs need {} each; raise `limit`",
                quantity::bytes(settings.limit as f64),
                quantity::bytes(LEAST_SHARE as f64),
            )));
        }
        if self.most_asked(settings) > 0 {
            return swap_holds_size(settings);
        }
        let bytes = |bytes: u64| quantity::bytes(bytes as f64);
        let (swap, raise) = match settings.subject {
            Subject::NoSwap => (String::new(), "`limit`"),
            Subject::Pager(_) => (
                format!(
                    ", three quarters of them with copies of `class` (`{}`)",
                    self.filling.class
                ),
                "`limit`",
            ),
            _ => (
                format!(" and nine tenths of `swap-size` ({})", bytes(settings.swap_size)),
                "`limit` or `swap-size`",
            ),
        };
        Err(Unfit::new(format!(
            "the first program holds {}, and a request of {} more does not fit seven eighths of `limit` ({}){swap}, so that \
             {end} raise {raise}, or lower `size` or `request`",
            bytes(self.filling.size),
            bytes(self.request),
            bytes(settings.limit),
            end = match settings.subject {
                Subject::Pager(_) => "the pagers would exceed it;",
                _ => "the OOM killer would end it;",
            },
        )))
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::{AllocatorSet, Document, Machine, Overrides, Workload, find};

    const MIB: u64 = 1 << 20;

    /// The most bytes that the second program requests beside 64 MiB, under a limit of 128 MiB; or the refusal.
    fn asked(subject: &str, class: &str, limit: &str) -> Result<u64, String> {
        let machine = Machine {
            ram: 8 << 30,
            available: 6 << 30,
            cgroup_limit: None,
            cpus: 2,
            allocators: AllocatorSet::default(),
        };
        let set = [
            format!("subject={subject}"),
            format!("class={class}"),
            format!("limit={limit}"),
            "size=64M".to_owned(),
            "suspended=true".to_owned(),
        ];
        let overrides = Overrides {
            set: set.into(),
            repeat: Some(1),
            ..Overrides::default()
        };
        let document = Document::parse(&find("contention").unwrap()).unwrap();
        let plan = document.resolve(&machine, &overrides).unwrap();
        let settings = &plan.trials[0].settings;
        settings.check().map_err(|unfit| unfit.to_string())?;
        let Workload::Contention(contention) = &settings.workload else {
            panic!("another workload");
        };
        assert!(plan.bounds().memory_limit >= settings.total());
        Ok(contention.most_asked(settings))
    }

    /// 112 MiB of the limit, in requests of 16 MiB; 84 MiB of it hold copies.
    #[test]
    fn the_room_of_pagers_follows_from_their_data() {
        assert_eq!(asked("pager", "random", "128M"), Ok(48 * MIB));
        assert_eq!(asked("pager", "ratio=2.5", "128M"), Ok(160 * MIB));
        assert_eq!(
            asked("pager", "constant", "128M"),
            Ok(192 * MIB),
            "twice the limit"
        );
        assert_eq!(asked("\"pager,pagefile\"", "random", "128M"), Ok(192 * MIB));
        assert_eq!(asked("zram", "random", "128M"), Ok(112 * MIB), "as before");
    }

    #[test]
    fn limits_without_room_for_two_pagers_are_refused() {
        let refused = |class, limit, word: &str| {
            let message = asked("pager", class, limit).unwrap_err();
            assert!(message.contains("`limit`") && message.contains(word), "{message}");
        };
        refused("random", "80M", "`random`");
        refused("constant", "9M", "5.00 MiB");
    }
}
