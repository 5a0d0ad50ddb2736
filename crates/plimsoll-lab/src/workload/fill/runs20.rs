//! Blocks of 20 equal bytes: byte n of the random stream, 20 times.

use super::random::Source;

const RUN: usize = 20;

/// Writes the stream from `offset` on into all of `target`. Runs go on across pages and requests.
pub(super) fn write(source: &mut Source, mut offset: u64, mut target: &mut [u8]) {
    // The rest of a run that began before `offset`, or a run that ends after `target`, is written alone.
    while !target.is_empty() {
        let within = (offset % RUN as u64) as usize;
        let values = source.at(offset / RUN as u64);
        let written = if within != 0 || target.len() < RUN {
            let length = (RUN - within).min(target.len());
            target[..length].fill(values[0]);
            length
        } else {
            let (runs, _) = target.as_chunks_mut::<RUN>();
            for (run, value) in runs.iter_mut().zip(values) {
                *run = [*value; RUN];
            }
            runs.len().min(values.len()) * RUN
        };
        offset += written as u64;
        target = &mut target[written..];
    }
}
