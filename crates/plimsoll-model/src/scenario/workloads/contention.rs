//! Two programs and too little memory (Mangan, the last part): one holds memory while the other asks for more.

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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contention {
    /// The memory of the first program; it rests after each ask too.
    #[serde(flatten)]
    pub filling: Filling,
    /// Bytes by which the second program's asks grow.
    pub request: u64,
    /// Whether the program that holds memory is stopped (SIGSTOP) while the other one asks.
    pub suspended: bool,
}

const KEYS: &[Key] = &[
    CLASS,
    shared_keys::size("bytes that the first program holds"),
    shared_keys::request("by how much the second program's asks grow; more than `size` means `size`"),
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
        "whether the program that holds memory is stopped while the other one asks",
    ),
    shared_keys::hold("rest after the fill and after each ask"),
    THP,
];

impl Contention {
    /// Most bytes that the second program requests: the limit and the swap without those of the first,
    /// less a tenth of the swap and an eighth of the limit, so that the OOM killer stays away. 0 where not even one
    /// request fits.
    pub fn most_asked(&self, settings: &Settings) -> u64 {
        let swap = match settings.subject.has_swap() {
            true => settings.swap_size / 10 * 9,
            false => 0,
        };
        let room = (settings.limit / 8 * 7).saturating_add(swap);
        let asks = room.saturating_sub(self.filling.size) / self.request.max(1);
        asks.saturating_mul(self.request)
    }
}

pub(super) const WORKLOAD: Descriptor = Descriptor {
    keys: KEYS,
    subjects: Subjects::Swap,
    shrinks: true,
    scenarios: builtins! {
        "contention" "Two programs and too little memory: which one the kernel trims, and when";
    },
};

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

    /// They ask until RAM and swap are nearly full.
    fn total(&self, settings: &Settings) -> u64 {
        self.filling.size.saturating_add(self.most_asked(settings))
    }

    fn filling(&self) -> Option<&Filling> {
        Some(&self.filling)
    }

    /// All is filled once and read twice, and the part over the limit goes to swap and back both times. A rest
    /// follows each ask.
    fn seconds(&self, settings: &Settings, hints: &SpeedHints) -> f64 {
        let total = self.total(settings);
        let asks = (total - self.filling.size) / self.request.max(1);
        let over = total.saturating_sub(settings.limit);
        3.0 * (hints.setup_s + hints.once_seconds(&settings.subject, &self.filling.class, over))
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
        if self.most_asked(settings) > 0 {
            return swap_holds_size(settings);
        }
        let bytes = |bytes: u64| quantity::bytes(bytes as f64);
        let (swap, raise) = match settings.subject {
            Subject::NoSwap => (String::new(), "`limit`"),
            _ => (
                format!(" and nine tenths of `swap-size` ({})", bytes(settings.swap_size)),
                "`limit` or `swap-size`",
            ),
        };
        Err(Unfit::new(format!(
            "the first program holds {}, and an ask of {} more does not fit seven eighths of `limit` ({}){swap}, so that \
             the OOM killer would end it; raise {raise}, or lower `size` or `request`",
            bytes(self.filling.size),
            bytes(self.request),
            bytes(settings.limit),
        )))
    }
}
