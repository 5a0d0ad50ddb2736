//! Samples on their way between files and memory: a schema, and batches of columns.

use std::sync::Arc;

use super::damage::Damage;

pub(super) const TIME: &str = "t_ns";

/// The columns of a file, the time among them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Schema {
    /// Version of the recording format that the file states.
    pub(super) version: Option<u32>,
    pub(super) fields: Vec<Field>,
    time: usize,
}

/// A column of 64-bit integers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) signed: bool,
    /// Unit, meaning and source, by name; empty in a schema that was read.
    pub(super) metadata: Vec<(&'static str, String)>,
}

impl Schema {
    /// # Errors
    /// [`Damage::NoTime`].
    pub(super) fn new(version: Option<u32>, fields: Vec<Field>) -> Result<Self, Damage> {
        let time = fields
            .iter()
            .position(|field| field.name == TIME && !field.signed)
            .ok_or(Damage::NoTime { name: TIME })?;
        Ok(Schema {
            version,
            fields,
            time,
        })
    }

    /// The schema of `fields`, of which the first is the time.
    pub(super) fn first_is_time(version: Option<u32>, fields: Vec<Field>) -> Self {
        Schema {
            version,
            fields,
            time: 0,
        }
    }

    pub(super) fn is_time(&self, index: usize) -> bool {
        index == self.time
    }

    /// The fields that hold values: all but the time.
    pub(super) fn value_fields(&self) -> impl Iterator<Item = &Field> {
        let fields = self.fields.iter().enumerate();
        fields
            .filter(|(index, _)| !self.is_time(*index))
            .map(|(_, field)| field)
    }

    /// Names of the columns that hold values.
    pub(super) fn value_names(&self) -> impl Iterator<Item = &str> {
        self.value_fields().map(|field| field.name.as_str())
    }

    /// Whether both have the same columns in the same order; descriptions may differ.
    pub(super) fn same_columns(&self, other: &Schema) -> bool {
        let columns = |schema: &Schema| -> Vec<(String, bool)> {
            let fields = schema.fields.iter();
            fields.map(|field| (field.name.clone(), field.signed)).collect()
        };
        columns(self) == columns(other)
    }
}

/// Some samples.
///
/// Invariant: `columns` follows [`Schema::value_fields`]; each column has a value, or its absence, for each time.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    pub(super) schema: Arc<Schema>,
    pub(super) times: Vec<u64>,
    pub(super) columns: Vec<Column>,
}

impl Batch {
    pub(super) fn empty(schema: Arc<Schema>) -> Self {
        Batch {
            times: Vec::new(),
            columns: vec![Column::default(); schema.value_fields().count()],
            schema,
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.times.len()
    }

    /// The column named `name`; the caller expects it at `hint`, which saves the search.
    pub(super) fn column(&self, name: &str, hint: usize) -> Option<&Column> {
        let at_hint = self.schema.value_names().nth(hint);
        let index = match at_hint == Some(name) {
            true => hint,
            false => self.schema.value_names().position(|other| other == name)?,
        };
        self.columns.get(index)
    }

    pub(super) fn slice(&self, range: std::ops::Range<usize>) -> Batch {
        Batch {
            schema: Arc::clone(&self.schema),
            times: self.times[range.clone()].to_vec(),
            columns: self
                .columns
                .iter()
                .map(|column| column.slice(range.clone()))
                .collect(),
        }
    }
}

/// One column. A column that is absent throughout stores nothing; one that is present throughout stores no mask.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Column {
    values: Vec<i64>,
    present: Option<Vec<bool>>,
}

impl Column {
    /// `values` of which those are absent that `present` has no `true` for; all are present without it.
    pub(super) fn new(values: Vec<i64>, present: Option<Vec<bool>>) -> Self {
        match present {
            Some(mask) if !mask.contains(&true) => Column::default(),
            Some(mask) if mask.contains(&false) => Column {
                values,
                present: Some(mask),
            },
            _ => Column {
                values,
                present: None,
            },
        }
    }

    /// Stored values, those of absent rows included; empty when all rows are absent.
    pub(super) fn values(&self) -> &[i64] {
        &self.values
    }

    /// The mask, where some rows are absent and others are present.
    pub(super) fn present(&self) -> Option<&[bool]> {
        self.present.as_deref()
    }

    pub(super) fn get(&self, index: usize) -> Option<i64> {
        let present = self.present.as_ref().is_none_or(|present| present[index]);
        self.values.get(index).copied().filter(|_| present)
    }

    /// Appends one value to a column of `before` rows.
    pub(super) fn push(&mut self, before: usize, value: Option<i64>) {
        match value {
            Some(value) => self.extend_present(before, &[value]),
            None => self.extend_absent(before, 1),
        }
    }

    /// Appends the `rows` rows of `other`, or as many absent ones, to a column of `before` rows.
    pub(super) fn extend(&mut self, before: usize, other: Option<&Column>, rows: usize) {
        match other.filter(|other| !other.values.is_empty()) {
            None => self.extend_absent(before, rows),
            Some(other) => {
                self.extend_present(before, &other.values);
                if let Some(mask) = &other.present {
                    let all = before + rows;
                    let present = self.present.get_or_insert_with(|| vec![true; all]);
                    present[before..].copy_from_slice(mask);
                }
            }
        }
    }

    fn extend_present(&mut self, before: usize, values: &[i64]) {
        if self.values.is_empty() && before > 0 {
            self.values = vec![0; before];
            self.present = Some(vec![false; before]);
        }
        self.values.extend_from_slice(values);
        if let Some(present) = &mut self.present {
            present.resize(before + values.len(), true);
        }
    }

    fn extend_absent(&mut self, before: usize, count: usize) {
        if self.values.is_empty() || count == 0 {
            return;
        }
        self.values.resize(before + count, 0);
        self.present
            .get_or_insert_with(|| vec![true; before])
            .resize(before + count, false);
    }

    /// Puts the rows in `order`, which names each row once.
    pub(super) fn reorder(&mut self, order: &[usize]) {
        if !self.values.is_empty() {
            self.values = order.iter().map(|&index| self.values[index]).collect();
        }
        if let Some(present) = &self.present {
            self.present = Some(order.iter().map(|&index| present[index]).collect());
        }
    }

    fn slice(&self, range: std::ops::Range<usize>) -> Column {
        match self.values.is_empty() {
            true => Column::default(),
            false => Column::new(
                self.values[range.clone()].to_vec(),
                self.present.as_ref().map(|present| present[range].to_vec()),
            ),
        }
    }
}
