//! Samples in memory, column by column.

use std::collections::HashMap;

use super::batch::{Batch, Column};
use crate::columns::{COLUMNS, Row};

/// The samples of a recording: times and columns, by name.
///
/// Columns that this program knows and the recording lacks have no values; columns that it does not know stay
/// under their name.
///
/// Invariants: times never decrease; every stored column has a value, or its absence, for each time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples {
    t_ns: Vec<u64>,
    columns: Vec<Column>,
    by_name: HashMap<String, usize>,
    /// For each of [`COLUMNS`], its place in `columns`.
    known: Vec<Option<usize>>,
}

#[derive(Debug, Clone, Copy)]
pub struct ColumnView<'a> {
    values: &'a [i64],
    present: Option<&'a [bool]>,
    length: usize,
}

impl Samples {
    /// Rows as samples, as if they had been recorded and read back.
    pub fn from_rows(rows: &[Row]) -> Self {
        let mut samples = Samples::default();
        samples.declare(COLUMNS.iter().map(|column| column.name));
        for (index, stored) in samples.columns.iter_mut().enumerate() {
            for (before, row) in rows.iter().enumerate() {
                stored.push(before, row.get(index));
            }
        }
        samples.t_ns = rows.iter().map(|row| row.t_ns).collect();
        samples.sort();
        samples
    }

    pub fn len(&self) -> usize {
        self.t_ns.len()
    }

    pub fn is_empty(&self) -> bool {
        self.t_ns.is_empty()
    }

    /// Times in nanoseconds since the start of the recording; they never decrease.
    pub fn t_ns(&self) -> &[u64] {
        &self.t_ns
    }

    /// Names of the columns that the recording has.
    pub fn column_names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// The column of that name, if the recording has it.
    pub fn column(&self, name: &str) -> Option<ColumnView<'_>> {
        let stored = &self.columns[*self.by_name.get(name)?];
        Some(ColumnView {
            values: stored.values(),
            present: stored.present(),
            length: self.t_ns.len(),
        })
    }

    /// Sample `index` as a row of the known columns.
    ///
    /// # Panics
    /// When there is no such sample.
    pub fn row(&self, index: usize) -> Row {
        let mut row = Row::empty(self.t_ns[index]);
        self.fill(index, &mut row, 0..COLUMNS.len());
        row
    }

    /// Sample `index` with only `columns` (indices into [`COLUMNS`]) filled in: for loops over many samples.
    ///
    /// # Panics
    /// When there is no such sample or column.
    pub fn row_of(&self, index: usize, columns: &[usize]) -> Row {
        let mut row = Row::empty(self.t_ns[index]);
        self.fill(index, &mut row, columns.iter().copied());
        row
    }

    fn fill(&self, index: usize, row: &mut Row, columns: impl Iterator<Item = usize>) {
        for column in columns {
            let stored = self
                .known
                .get(column)
                .copied()
                .flatten()
                .map(|at| &self.columns[at]);
            if let Some(value) = stored.and_then(|stored| stored.get(index)) {
                row.set(column, value);
            }
        }
    }

    /// Index of the last sample at or before `t_ns`.
    pub fn at_or_before(&self, t_ns: u64) -> Option<usize> {
        self.t_ns.partition_point(|&t| t <= t_ns).checked_sub(1)
    }

    /// Index of the first sample at or after `t_ns`.
    pub fn at_or_after(&self, t_ns: u64) -> Option<usize> {
        let index = self.t_ns.partition_point(|&t| t < t_ns);
        (index < self.t_ns.len()).then_some(index)
    }

    /// Names the columns, once, before the first [`Samples::append`].
    pub(super) fn declare<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        for name in names {
            self.by_name.insert(name.to_owned(), self.columns.len());
            self.columns.push(Column::default());
        }
        self.known = COLUMNS
            .iter()
            .map(|column| self.by_name.get(column.name).copied())
            .collect();
    }

    /// Appends a batch. Columns that were not declared are left out.
    pub(super) fn append(&mut self, batch: &Batch) {
        let before = self.t_ns.len();
        self.t_ns.extend(&batch.times);
        for (name, &at) in &self.by_name {
            self.columns[at].extend(before, batch.column(name, at), batch.rows());
        }
    }

    /// Puts the samples in the order of their times, should a writer not have done so.
    pub(super) fn sort(&mut self) {
        if self.t_ns.is_sorted() {
            return;
        }
        let mut order: Vec<usize> = (0..self.t_ns.len()).collect();
        order.sort_by_key(|&index| self.t_ns[index]);
        for column in &mut self.columns {
            column.reorder(&order);
        }
        self.t_ns = order.iter().map(|&index| self.t_ns[index]).collect();
    }
}

impl<'a> ColumnView<'a> {
    /// Value of sample `index`, if the system said.
    pub fn get(&self, index: usize) -> Option<i64> {
        let present = self
            .present
            .is_none_or(|present| present.get(index) == Some(&true));
        self.values.get(index).copied().filter(|_| present)
    }

    pub fn iter(&self) -> impl Iterator<Item = Option<i64>> + 'a {
        let column = *self;
        (0..column.length).map(move |index| column.get(index))
    }

    /// The greatest value; `None` if all are absent.
    pub fn max(&self) -> Option<i64> {
        self.iter().flatten().max()
    }

    /// Growth of a counter from sample `from` to sample `to`; `None` if one of them is absent or the counter decreased.
    pub fn growth(&self, from: usize, to: usize) -> Option<i64> {
        self.get(to)?
            .checked_sub(self.get(from)?)
            .filter(|&growth| growth >= 0)
    }
}
