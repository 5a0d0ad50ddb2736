//! Damage of a file of samples, as its readers find it.

/// The reason why samples cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    #[error("it has no column `{name}` of unsigned 64-bit integers")]
    NoTime { name: &'static str },
    #[error("a column has no name")]
    UnnamedColumn,
    #[error("column `{column}` is not of 64-bit integers")]
    ColumnType { column: String },
    /// In the stream of an unfinished recording.
    #[error(transparent)]
    Stream(#[from] StreamDamage),
    /// In the Parquet file of a finished recording.
    #[error(transparent)]
    Parquet(#[from] ParquetDamage),
}

/// Damage of an Arrow IPC stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamDamage {
    #[error("it was cut to {length} bytes after {read} had been read")]
    Shortened { length: u64, read: u64 },
    #[error("no Arrow message begins here")]
    NoMessage,
    #[error("{0} bytes of metadata cannot be")]
    MetadataLength(usize),
    #[error("unreadable message")]
    Message,
    #[error("a batch of {0} bytes cannot be")]
    BatchLength(u64),
    #[error("the length of its body is negative")]
    BodyLength,
    #[error("the schema is cut off")]
    SchemaCutOff,
    #[error("the first message is no schema")]
    NoSchema,
    #[error("the schema has no fields")]
    NoFields,
    #[error("{0} columns cannot be")]
    ColumnCount(usize),
    #[error("a column cannot be read")]
    UnreadableColumn,
    #[error("a message is not a record batch")]
    NoBatch,
    #[error("it is compressed, which no version of plimsoll writes")]
    Compressed,
    #[error("a negative number of rows")]
    NegativeRows,
    #[error("too many rows")]
    TooManyRows,
    #[error("a record batch has no columns")]
    NoColumns,
    #[error("a record batch has no buffers")]
    NoBuffers,
    #[error("a record batch does not have the columns of the schema")]
    OtherColumns,
    #[error("column `{column}` has another number of rows")]
    OtherRows { column: String },
    #[error("column `{column}` is too short")]
    ShortColumn { column: String },
    #[error("the mask of column `{column}` is too short")]
    ShortMask { column: String },
    #[error("a column lies outside its message")]
    OutsideMessage,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParquetDamage {
    #[error("its checksum is {found}, the manifest says {expected}")]
    Checksum { found: String, expected: String },
    #[error("it is too short")]
    TooShort,
    #[error("it does not end as Parquet does")]
    End,
    #[error("its metadata has an impossible length")]
    MetadataLength,
    #[error("its metadata cannot be read")]
    Metadata,
    #[error("it has no number of rows")]
    NoRows,
    #[error("it has {found} rows and states {stated}")]
    OtherRows { found: usize, stated: usize },
    #[error("a group has an impossible shape")]
    GroupShape,
    #[error("it has {0} columns")]
    ColumnCount(usize),
    #[error("a column has a name that no version gives, or that another column has")]
    ColumnName,
    #[error("a column of {0} bytes in one group cannot be")]
    ColumnLength(u64),
    #[error("a sample has no time")]
    SampleWithoutTime,
    #[error("column `{column}`: {damage}")]
    Column { column: String, damage: ColumnDamage },
}

/// Damage of one column in a row group of a Parquet file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnDamage {
    #[error("it is not described")]
    NotDescribed,
    #[error("it names no codec")]
    NoCodec,
    #[error("plimsoll does not compress with codec {0}")]
    UnknownCodec(i32),
    #[error("the head of a page cannot be read")]
    PageHead,
    #[error("a page is cut off")]
    PageCutOff,
    #[error("a page has no length")]
    PageWithoutLength,
    #[error("a page of {0} bytes cannot be")]
    PageLength(usize),
    #[error("a page holds {found} bytes, not {stated}")]
    OtherPageLength { found: usize, stated: usize },
    /// The page is no frame of zstd.
    #[error("a page cannot be decompressed: {0}")]
    Decompress(String),
    #[error("plimsoll writes no pages of type {0:?}")]
    PageType(Option<i32>),
    #[error("a page is not described")]
    PageNotDescribed,
    #[error("a page has an impossible number of rows")]
    PageRows,
    #[error("a mask is damaged")]
    Mask,
    #[error("a page has no encoding")]
    NoEncoding,
    #[error("a page of encoding {0} is damaged, or not plimsoll's")]
    Encoding(i32),
}
