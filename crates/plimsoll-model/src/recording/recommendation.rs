//! Recommendations of a run, and the reasons for those that it withholds: a stable code for programs and a text for
//! people.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A setting of the machine that the metrics of a run support. Nothing applies it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recommendation {
    pub code: RecommendationCode,
    /// The setting: `swap`, `zram-size`, `vm.swappiness`, `vm.page-cluster`, `zswap.max_pool_percent`.
    pub setting: String,
    /// The recommended value: a subject, bytes, or a number.
    pub value: String,
    /// The value that it was compared with. Absent for a size, which follows from one measured ratio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
    pub workload: String,
    /// The parameters of the trials, by name: class of the data, pattern, load, ...
    pub conditions: BTreeMap<String, String>,
    /// The metric that it is based on.
    pub basis: String,
    /// The trustworthy repeats of the value that has the fewest.
    pub repeats: u32,
    pub worth: Worth,
    /// One sentence.
    pub text: String,
    /// Its premises and limits, a sentence each.
    #[serde(default)]
    pub premises: Vec<String>,
    /// Commands that apply it until the next start of the machine.
    #[serde(default)]
    pub commands: Vec<String>,
    /// The file that applies it at every start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent: Option<ConfigurationFile>,
}

/// The kind of a recommendation. The JSON name of a code never changes its meaning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RecommendationCode {
    /// The destination of swapped pages; `worth` is the basis of `value` over that of `against`.
    SwapSubject,
    /// Bytes of a zram device; `worth` is the memory that fits over RAM, once the device is full.
    ZramSize,
    /// A setting of the kernel; `worth` as of [`RecommendationCode::SwapSubject`].
    KernelSetting,
    /// The code of a later version.
    #[default]
    #[serde(other)]
    Other,
}

impl RecommendationCode {
    pub const ALL: [RecommendationCode; 4] = [
        RecommendationCode::SwapSubject,
        RecommendationCode::ZramSize,
        RecommendationCode::KernelSetting,
        RecommendationCode::Other,
    ];
}

/// A ratio with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Worth {
    pub median: f64,
    /// Lower end of the 95% interval.
    pub low: f64,
    /// Upper end of the 95% interval.
    pub high: f64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigurationFile {
    pub path: String,
    pub lines: Vec<String>,
}

/// A recommendation that a user may expect of a run, and that its metrics do not support.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Withheld {
    pub code: WithheldCode,
    /// As [`Recommendation::setting`].
    pub setting: String,
    pub workload: String,
    /// The reason and, if another run can help, that run; one sentence.
    pub text: String,
}

/// The reason for a withheld recommendation. The JSON name of a code never changes its meaning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum WithheldCode {
    /// Too few repeats for an interval.
    TooFewRepeats,
    /// The metric of a candidate is untrustworthy.
    Untrustworthy,
    /// A candidate lacks the metric in a repeat.
    NotMeasured,
    /// Chance can explain the differences, or they are below 5%.
    NotSeparated,
    /// The best candidate by one metric is worse by the other.
    TradeOff,
    /// The data are made up, and stand for no program's.
    MadeUpData,
    /// No candidate is better than none, or the data do not compress.
    NoGain,
    /// The run did not measure the present value of the machine.
    PresentNotMeasured,
    /// The present value of the machine is the best one.
    PresentIsBest,
    /// The best value endangers the machine.
    Unsafe,
    /// The setting chooses between anonymous memory and page cache, and the workload has no page cache.
    NoPageCache,
    /// The code of a later version.
    #[default]
    #[serde(other)]
    Other,
}

impl WithheldCode {
    pub const ALL: [WithheldCode; 12] = [
        WithheldCode::TooFewRepeats,
        WithheldCode::Untrustworthy,
        WithheldCode::NotMeasured,
        WithheldCode::NotSeparated,
        WithheldCode::TradeOff,
        WithheldCode::MadeUpData,
        WithheldCode::NoGain,
        WithheldCode::PresentNotMeasured,
        WithheldCode::PresentIsBest,
        WithheldCode::Unsafe,
        WithheldCode::NoPageCache,
        WithheldCode::Other,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back_and_one_of_a_later_version_reads_as_other() {
        for code in RecommendationCode::ALL {
            let text = serde_json::to_string(&code).unwrap();
            assert_eq!(serde_json::from_str::<RecommendationCode>(&text).unwrap(), code);
        }
        for code in WithheldCode::ALL {
            let text = serde_json::to_string(&code).unwrap();
            assert_eq!(serde_json::from_str::<WithheldCode>(&text).unwrap(), code);
        }
        let later: WithheldCode = serde_json::from_str("\"moon-phase\"").unwrap();
        assert_eq!(later, WithheldCode::Other);
    }
}
