//! Tables of texts, numbers, integers and flags as Parquet files, for data sets of many recordings.
//!
//! A text is an entry of a dictionary of its row group, because the texts of long tables repeat. Pages are not compressed.
//! Invariant: a file that [`Writer`] wrote reads back as the same rows, and damage of a file is an error. Checked by
//! `rows_read_back_as_they_were_written` and `damage_is_an_error_and_no_panic`.

mod reader;
mod writer;

pub use reader::{Reader, open};
pub use writer::Writer;

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
    /// Whether rows may lack a value.
    pub optional: bool,
    /// Unit of the values; empty for texts and flags.
    pub unit: &'static str,
    /// A sentence.
    pub meaning: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8.
    Text,
    /// 64-bit, signed.
    Integer,
    /// 64-bit floating point.
    Number,
    Flag,
}

/// A value of a row.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Value {
    #[default]
    Absent,
    Text(String),
    Integer(i64),
    Number(f64),
    Flag(bool),
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("it is {0}, not a regular file")]
    NotAFile(&'static str),
    #[error("its {0} bytes are more than a table may have")]
    TooLarge(u64),
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
    /// The file has no such column, or one of another type.
    #[error("it has no column `{0}` of the expected type")]
    Column(&'static str),
    /// A row that is to be written does not match the columns.
    #[error("a row lacks a value of column `{0}`, or has one of another type")]
    Row(&'static str),
}

/// Parquet's physical types and annotations.
mod format {
    pub(super) const BOOLEAN: i32 = 0;
    pub(super) const DOUBLE: i32 = 5;
    pub(super) const BYTES: i32 = 6;
    /// `ConvertedType::UTF8`.
    pub(super) const UTF8: i32 = 0;
    pub(super) const OPTIONAL: i32 = 1;
}

impl Kind {
    fn physical(self) -> i32 {
        match self {
            Kind::Text => format::BYTES,
            Kind::Integer => super::encode::INT64,
            Kind::Number => format::DOUBLE,
            Kind::Flag => format::BOOLEAN,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COLUMNS: &[Column] = &[
        column("name", Kind::Text, true),
        column("count", Kind::Integer, true),
        column("size", Kind::Number, false),
        column("good", Kind::Flag, true),
        column("place", Kind::Text, false),
    ];

    const fn column(name: &'static str, kind: Kind, optional: bool) -> Column {
        Column {
            name,
            kind,
            optional,
            unit: "",
            meaning: "A value.",
        }
    }

    fn written(rows: &[Vec<Value>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, COLUMNS).unwrap();
        for row in rows {
            writer.write(row.clone()).unwrap();
        }
        writer.close(&[("version", "1".to_owned())]).unwrap();
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Vec<Vec<Value>>, TableError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let mut rows = Vec::new();
        let mut reader = open(file.path(), COLUMNS)?;
        while let Some(group) = reader.next_group()? {
            rows.extend(group);
        }
        Ok(rows)
    }

    fn row(index: i64) -> Vec<Value> {
        let absent = |value: Value, rest: i64| if index % rest == 0 { Value::Absent } else { value };
        vec![
            absent(Value::Text(format!("name {}", index % 7)), 3),
            absent(Value::Integer(index * 1_000_003), 4),
            Value::Number(index as f64 / 3.0),
            absent(Value::Flag(index % 2 == 0), 5),
            Value::Text("one place".to_owned()),
        ]
    }

    #[test]
    fn rows_read_back_as_they_were_written() {
        for count in [0, 1, 2, 31, 33, 40_000] {
            let rows: Vec<Vec<Value>> = (0..count).map(row).collect();
            assert!(read(&written(&rows)).unwrap() == rows, "{count} rows");
        }
        let nothing = vec![
            Value::Absent,
            Value::Absent,
            Value::Number(f64::INFINITY),
            Value::Absent,
            Value::Text(String::new()),
        ];
        let rows = vec![nothing; 3];
        assert_eq!(read(&written(&rows)).unwrap(), rows);
    }

    #[test]
    fn rows_of_other_types_are_rejected() {
        let mut writer = Writer::new(Vec::new(), COLUMNS).unwrap();
        let mut wrong = row(1);
        wrong[2] = Value::Absent;
        let error = writer.write(wrong).unwrap_err();
        assert!(matches!(error, TableError::Row("size")), "{error}");
        let error = writer.write(vec![Value::Absent]).unwrap_err();
        assert!(matches!(error, TableError::Row(_)), "{error}");
    }

    #[test]
    fn columns_that_the_file_lacks_are_absent_if_they_may_be() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), written(&[row(1)])).unwrap();
        let wanted = [
            column("later", Kind::Text, true),
            column("size", Kind::Number, false),
        ];
        let rows = open(file.path(), leaked(&wanted))
            .unwrap()
            .next_group()
            .unwrap()
            .unwrap();
        assert_eq!(rows, [[Value::Absent, row(1)[2].clone()]]);
        for wanted in [
            column("later", Kind::Text, false),
            column("size", Kind::Text, true),
        ] {
            let error = open(file.path(), leaked(&[wanted])).err().unwrap();
            assert!(matches!(error, TableError::Column(_)), "{error}");
        }
    }

    fn leaked(columns: &[Column]) -> &'static [Column] {
        Box::leak(columns.to_vec().into_boxed_slice())
    }

    #[test]
    fn damage_is_an_error_and_no_panic() {
        let whole = written(&(0..9).map(row).collect::<Vec<_>>());
        for length in 0..whole.len() {
            assert!(read(&whole[..length]).is_err(), "cut to {length}");
        }
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            // A flipped bit of a value is another value.
            let _ = read(&bytes);
        }
        assert!(matches!(
            open(std::path::Path::new("/"), COLUMNS),
            Err(TableError::NotAFile(_))
        ));
    }

    proptest! {
        #[test]
        fn any_texts_and_numbers_read_back(
            values in prop::collection::vec((prop::option::of(".{0,9}"), prop::num::f64::NORMAL, any::<i64>()), 0..70),
        ) {
            let rows: Vec<Vec<Value>> = values
                .into_iter()
                .map(|(name, size, count)| vec![
                    name.clone().map_or(Value::Absent, Value::Text),
                    Value::Integer(count),
                    Value::Number(size),
                    Value::Flag(count > 0),
                    Value::Text(name.unwrap_or_default()),
                ])
                .collect();
            prop_assert_eq!(read(&written(&rows)).unwrap(), rows);
        }
    }
}
