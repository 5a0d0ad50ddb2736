//! Samples on their way to the recording, in buffers that circulate.

use std::sync::mpsc::{self, Receiver, SyncSender};

use super::residency::{Span, span_of};
use plimsoll_model::columns::Row;

/// Seconds that all buffers together hold: the consumer may lag by two less before samples are lost.
const SECONDS: usize = 16;

/// Some samples in their order. Dropping it returns its buffer to the sampler.
#[derive(Debug)]
pub struct Batch {
    rows: Vec<Row>,
    home: SyncSender<Vec<Row>>,
}

impl Batch {
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let mut rows = std::mem::take(&mut self.rows);
        if rows.capacity() > 0 {
            rows.clear();
            // The sampler may have ended; it needs no buffer then.
            let _ = self.home.try_send(rows);
        }
    }
}

/// The sampling thread's end: collects rows and sends them off, and neither waits nor allocates.
///
/// Invariant: each channel has capacity for all buffers, so neither is ever full.
pub(crate) struct Outbox {
    out: SyncSender<Batch>,
    home: SyncSender<Vec<Row>>,
    free: Receiver<Vec<Row>>,
    current: Option<Vec<Row>>,
    rows_per_batch: usize,
    sent_any: bool,
    spans: Vec<Span>,
    /// Rows without a free buffer or a receiver.
    pub(crate) dropped: u64,
}

impl Outbox {
    /// Allocates the buffers, of `rows_per_batch` rows each, for `hz` rows a second.
    pub(crate) fn new(rows_per_batch: usize, hz: u32) -> (Self, Receiver<Batch>) {
        let rows_per_batch = rows_per_batch.max(1);
        let buffers = (SECONDS * hz as usize).div_ceil(rows_per_batch).max(SECONDS);
        let (out, batches) = mpsc::sync_channel(buffers);
        let (home, free) = mpsc::sync_channel(buffers);
        let mut spans = Vec::with_capacity(buffers);
        for _ in 0..buffers {
            // Filled once, so that every page is there before the first tick.
            let mut rows = vec![Row::empty(0); rows_per_batch];
            spans.push(span_of(rows.as_slice()));
            rows.clear();
            let _ = home.try_send(rows);
        }
        let outbox = Outbox {
            out,
            home,
            free,
            current: None,
            rows_per_batch,
            sent_any: false,
            spans,
            dropped: 0,
        };
        (outbox, batches)
    }

    /// Where the buffers lie.
    pub(crate) fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Takes a row. The first one goes out at once, the others when a batch is full.
    pub(crate) fn push(&mut self, row: &Row) {
        let Some(mut rows) = self.current.take().or_else(|| self.free.try_recv().ok()) else {
            self.dropped += 1;
            return;
        };
        rows.push(*row);
        let full = rows.len() == self.rows_per_batch;
        self.current = Some(rows);
        if full || !self.sent_any {
            self.flush();
        }
    }

    pub(crate) fn flush(&mut self) {
        let Some(rows) = self.current.take() else {
            return;
        };
        let count = rows.len() as u64;
        let batch = Batch {
            rows,
            home: self.home.clone(),
        };
        match self.out.try_send(batch) {
            Ok(()) => self.sent_any = true,
            // The batch is dropped here, which brings its buffer home.
            Err(_) => self.dropped += count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(outbox: &mut Outbox, times: std::ops::Range<u64>) {
        for t_ns in times {
            outbox.push(&Row::empty(t_ns));
        }
    }

    #[test]
    fn the_first_row_is_sent_alone_and_the_others_in_batches() {
        let (mut outbox, batches) = Outbox::new(3, 3);
        push(&mut outbox, 0..5);
        outbox.flush();
        drop(outbox);
        let times: Vec<Vec<u64>> = batches
            .iter()
            .map(|batch| batch.rows().iter().map(|row| row.t_ns).collect())
            .collect();
        assert_eq!(times, [vec![0], vec![1, 2, 3], vec![4]]);
    }

    #[test]
    fn rows_are_counted_as_dropped_while_the_consumer_lags_and_not_after() {
        let (mut outbox, batches) = Outbox::new(10, 10);
        // One row in the first batch, ten in each of the fifteen others.
        push(&mut outbox, 0..151);
        assert_eq!(outbox.dropped, 0);
        push(&mut outbox, 151..158);
        assert_eq!(outbox.dropped, 7);
        drop(batches.recv().unwrap());
        push(&mut outbox, 158..168);
        assert_eq!(outbox.dropped, 7);
        drop(outbox);
        let last = batches.iter().last().unwrap();
        assert_eq!(last.rows().len(), 10);
        assert_eq!(last.rows()[0].t_ns, 158);
    }

    #[test]
    fn rows_without_a_receiver_count_as_dropped() {
        let (mut outbox, batches) = Outbox::new(1, 1);
        drop(batches);
        push(&mut outbox, 0..40);
        assert_eq!(outbox.dropped, 40);
    }
}
