//! A histogram of all latencies: a mean hides the long ones.

use base64::Engine;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

/// Longest latency of the histogram in nanoseconds: an hour. A longer one counts as an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Significant digits: percentiles are right to 1%.
const DIGITS: u8 = 2;
/// Most bytes of a text that is read: a full histogram takes some tens of kilobytes.
const MAX_TEXT: usize = 4 << 20;

/// A histogram of latencies in nanoseconds, right to 1%.
#[derive(Debug, Clone)]
pub struct Latencies(Histogram<u64>);

/// A text that holds no histogram.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot decode a histogram of latencies: {0}")]
pub struct NoLatencies(String);

impl Latencies {
    pub fn new() -> Latencies {
        // The bounds are constants that the library takes: 1 <= low, 2 low <= high, digits 0 to 5.
        match Histogram::new_with_bounds(1, LONGEST_NS, DIGITS) {
            Ok(histogram) => Latencies(histogram),
            Err(error) => unreachable!("constant bounds: {error}"),
        }
    }

    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns.max(1));
    }

    /// Counts `count` latencies of the same length.
    pub fn record_many(&mut self, ns: u64, count: u64) {
        self.0.saturating_record_n(ns.max(1), count);
    }

    /// Counts one latency of work that should have begun every `interval_ns`: the work that could not begin while this
    /// one took its time waited as well, and is counted as if it had been measured (coordinated omission).
    pub fn record_corrected(&mut self, ns: u64, interval_ns: u64) {
        // Fails only above the longest, which is cut here.
        let _ = self.0.record_correct(ns.clamp(1, LONGEST_NS), interval_ns);
    }

    /// Counts all of another histogram too.
    pub fn merge(&mut self, other: &Latencies) {
        // Both have the same bounds, so that nothing can be too large.
        let _ = self.0.add(&other.0);
    }

    /// Forgets all of them. Writes the whole of its memory, so that counting does not fault any of it in.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// How many were counted, corrected ones included.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency in nanoseconds that `percent` of all do not exceed; none of an empty histogram.
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        (!self.0.is_empty()).then(|| self.0.value_at_percentile(percent))
    }

    /// The longest, in nanoseconds; none of an empty histogram.
    pub fn max(&self) -> Option<u64> {
        (!self.0.is_empty()).then(|| self.0.max())
    }

    /// As text: HdrHistogram's V2 encoding, deflated, in base64, which the library's tools in other languages read.
    pub fn to_text(&self) -> String {
        let mut bytes = Vec::new();
        match V2DeflateSerializer::new().serialize(&self.0, &mut bytes) {
            Ok(_) => base64::engine::general_purpose::STANDARD.encode(bytes),
            // Writing to memory fails for no histogram of these bounds; an empty text is read as none.
            Err(_) => String::new(),
        }
    }

    /// Parses the text of [`Latencies::to_text`].
    ///
    /// # Errors
    /// An error for any other text.
    pub fn from_text(text: &str) -> Result<Latencies, NoLatencies> {
        if text.len() > MAX_TEXT {
            return Err(NoLatencies(format!("{} bytes are too many", text.len())));
        }
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(text)
            .map_err(|error| NoLatencies(error.to_string()))?;
        let found: Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| NoLatencies(error.to_string()))?;
        let mut latencies = Latencies::new();
        // Another program's bounds may be wider.
        for step in found.iter_recorded() {
            latencies
                .0
                .saturating_record_n(step.value_iterated_to().max(1), step.count_since_last_iteration());
        }
        Ok(latencies)
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_text_of_a_histogram_round_trips(values in prop::collection::vec(1u64..10_000_000_000_000, 0..200)) {
            let mut latencies = Latencies::new();
            for value in &values {
                latencies.record(*value);
            }
            let back = Latencies::from_text(&latencies.to_text()).unwrap();
            prop_assert_eq!(back.count(), values.len() as u64);
            for percent in [0.0, 50.0, 99.0, 99.9, 100.0] {
                prop_assert_eq!(back.percentile(percent), latencies.percentile(percent));
            }
        }

        #[test]
        fn percentiles_are_within_one_percent(mut values in prop::collection::vec(1u64..1_000_000_000, 1..200)) {
            let mut latencies = Latencies::new();
            for value in &values {
                latencies.record(*value);
            }
            values.sort_unstable();
            let place = (values.len() - 1) / 2;
            let half = 100.0 * (place + 1) as f64 / values.len() as f64;
            let found = latencies.percentile(half).unwrap() as f64;
            // The percentage of a place may be rounded up to the next one.
            let near = values[place..].iter().take(2).map(|&exact| exact as f64);
            let right = |exact: f64| (found - exact).abs() <= exact * 0.011 + 1.0;
            prop_assert!(near.clone().any(right), "{} for {:?}", found, near.collect::<Vec<_>>());
        }

        #[test]
        fn arbitrary_text_never_panics(text in ".{0,200}") {
            let _ = Latencies::from_text(&text);
        }
    }

    #[test]
    fn work_queued_behind_a_long_one_is_counted() {
        let mut latencies = Latencies::new();
        for _ in 0..99 {
            latencies.record_corrected(1_000, 1_000_000);
        }
        latencies.record_corrected(100_000_000, 1_000_000);
        // 100 ms in the way of one a millisecond: 99 more that waited 99, 98, ... ms.
        assert_eq!(latencies.count(), 199);
        assert!(latencies.percentile(75.0).unwrap() > 45_000_000);
    }

    #[test]
    fn an_empty_histogram_has_no_percentiles() {
        let latencies = Latencies::new();
        assert_eq!((latencies.percentile(50.0), latencies.max()), (None, None));
        assert_eq!(Latencies::from_text(&latencies.to_text()).unwrap().count(), 0);
    }
}
