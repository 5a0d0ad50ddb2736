//! The records that the kernel writes for perf events (`perf_event_open(2)`, "MMAP layout").

const LOST: u32 = 2;
const SAMPLE: u32 = 9;
/// From here on a number in a chain is no address, but says whose the next ones are (`PERF_CONTEXT_MAX`).
const FIRST_MARKER: u64 = -4095_i64 as u64;
/// The next addresses are in the kernel (`PERF_CONTEXT_KERNEL`).
const KERNEL: u64 = -128_i64 as u64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    Sample(Sample),
    /// Number of samples that the kernel dropped, for lack of space.
    Lost(u64),
    Other,
}

/// A sample: the instruction pointer and its callers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sample {
    chain: Vec<u64>,
}

impl Sample {
    /// The addresses in the kernel, the innermost first; none of a sample in user code.
    pub(super) fn kernel_frames(&self) -> impl Iterator<Item = u64> {
        let mut kernel = false;
        self.chain.iter().copied().filter(move |&word| {
            let is_marker = word >= FIRST_MARKER;
            if is_marker {
                kernel = word == KERNEL;
            }
            kernel && !is_marker && word > 0
        })
    }
}

/// Reads the body of a record of samples with `PERF_SAMPLE_IP` and `PERF_SAMPLE_CALLCHAIN`; nothing of one that is
/// not whole.
pub(super) fn entry(kind: u32, body: &[u8]) -> Option<Entry> {
    let mut words = body
        .chunks_exact(8)
        .filter_map(|word| Some(u64::from_ne_bytes(word.try_into().ok()?)));
    match kind {
        SAMPLE => {
            let (_ip, count) = (words.next()?, words.next()?);
            let count = usize::try_from(count).ok()?;
            let chain: Vec<u64> = words.take(count).collect();
            (chain.len() == count).then_some(Entry::Sample(Sample { chain }))
        }
        LOST => {
            let (_id, lost) = (words.next()?, words.next()?);
            Some(Entry::Lost(lost))
        }
        _ => Some(Entry::Other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn frames_are_those_of_the_kernel() {
        let user = -512_i64 as u64;
        let body = bytes(&[1, 6, KERNEL, 0xffff_0000, 0xffff_1000, user, 0x1000, 0x2000]);
        let Some(Entry::Sample(sample)) = entry(SAMPLE, &body) else {
            panic!("no sample");
        };
        assert_eq!(
            sample.kernel_frames().collect::<Vec<_>>(),
            [0xffff_0000, 0xffff_1000]
        );
    }

    #[test]
    fn an_incomplete_record_is_rejected() {
        let whole = bytes(&[1, 3, KERNEL, 5, 6]);
        assert!(entry(SAMPLE, &whole).is_some());
        for length in 0..whole.len() {
            assert_eq!(entry(SAMPLE, &whole[..length]), None, "{length} bytes");
        }
        assert_eq!(entry(SAMPLE, &bytes(&[1, u64::MAX, 2])), None);
        assert_eq!(entry(LOST, &[0; 15]), None);
        assert_eq!(entry(77, &[]), Some(Entry::Other));
    }

    proptest! {
        #[test]
        fn arbitrary_records_never_panic(
            kind in 0u32..20,
            body in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            if let Some(Entry::Sample(sample)) = entry(kind, &body) {
                prop_assert!(sample.kernel_frames().count() <= body.len() / 8);
            }
        }
    }
}
