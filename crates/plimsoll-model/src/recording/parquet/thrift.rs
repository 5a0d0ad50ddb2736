//! Thrift's compact protocol, in which Parquet keeps its metadata.

/// Deeper nesting than Parquet's metadata has is damage.
const DEPTH: usize = 16;

/// A value that was read, or is to be written.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Bool(bool),
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    Double(f64),
    Bytes(Vec<u8>),
    List(Vec<Value>),
    Struct(Struct),
}

/// Fields by their number, ascending.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Struct(Vec<(i16, Value)>);

impl Struct {
    /// Adds field `id`, which is larger than those before.
    pub(super) fn with(mut self, id: i16, value: impl Into<Value>) -> Self {
        self.0.push((id, value.into()));
        self
    }

    fn get(&self, id: i16) -> Option<&Value> {
        let field = self.0.iter().find(|(field, _)| *field == id)?;
        Some(&field.1)
    }

    pub(super) fn int(&self, id: i16) -> Option<i64> {
        match self.get(id)? {
            Value::I8(value) => Some((*value).into()),
            Value::I16(value) => Some((*value).into()),
            Value::I32(value) => Some((*value).into()),
            Value::I64(value) => Some(*value),
            _ => None,
        }
    }

    /// A member of an enumeration.
    pub(super) fn code(&self, id: i16) -> Option<i32> {
        self.int(id)?.try_into().ok()
    }

    pub(super) fn bool(&self, id: i16) -> Option<bool> {
        match self.get(id)? {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    pub(super) fn text(&self, id: i16) -> Option<&str> {
        match self.get(id)? {
            Value::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    pub(super) fn fields(&self, id: i16) -> Option<&Struct> {
        match self.get(id)? {
            Value::Struct(fields) => Some(fields),
            _ => None,
        }
    }

    /// The structs of a list; empty when the field is not there.
    pub(super) fn list(&self, id: i16) -> impl Iterator<Item = &Struct> {
        let list = match self.get(id) {
            Some(Value::List(list)) => list.as_slice(),
            _ => &[],
        };
        list.iter().filter_map(|value| match value {
            Value::Struct(fields) => Some(fields),
            _ => None,
        })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.put(&mut out);
        out
    }

    fn put(&self, out: &mut Vec<u8>) {
        let mut last = 0;
        for (id, value) in &self.0 {
            let kind = value.kind();
            match id - last {
                delta @ 1..=15 => out.push((delta as u8) << 4 | kind),
                _ => {
                    out.push(kind);
                    put_varint(out, zigzag((*id).into()));
                }
            }
            if !matches!(value, Value::Bool(_)) {
                value.put(out);
            }
            last = *id;
        }
        out.push(0);
    }
}

macro_rules! into_value {
    ($($from:ty => $variant:ident),*) => {$(
        impl From<$from> for Value {
            fn from(value: $from) -> Self {
                Value::$variant(value.into())
            }
        }
    )*};
}
into_value!(bool => Bool, i8 => I8, i32 => I32, i64 => I64, &str => Bytes, String => Bytes, Vec<u8> => Bytes, Struct => Struct);

impl<T: Into<Value>> FromIterator<T> for Value {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Value::List(values.into_iter().map(Into::into).collect())
    }
}

impl Value {
    /// The type's number in the header of a field. Of a boolean the value is part of it.
    fn kind(&self) -> u8 {
        match self {
            Value::Bool(true) => 1,
            Value::Bool(false) => 2,
            Value::I8(_) => 3,
            Value::I16(_) => 4,
            Value::I32(_) => 5,
            Value::I64(_) => 6,
            Value::Double(_) => 7,
            Value::Bytes(_) => 8,
            Value::List(_) => 9,
            Value::Struct(_) => 12,
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Value::Bool(value) => out.push(if *value { 1 } else { 2 }),
            Value::I8(value) => out.push(*value as u8),
            Value::I16(value) => put_varint(out, zigzag((*value).into())),
            Value::I32(value) => put_varint(out, zigzag((*value).into())),
            Value::I64(value) => put_varint(out, zigzag(*value)),
            Value::Double(value) => out.extend_from_slice(&value.to_le_bytes()),
            Value::Bytes(bytes) => {
                put_varint(out, bytes.len() as u64);
                out.extend_from_slice(bytes);
            }
            Value::List(values) => {
                let kind = values.first().map_or(12, Value::kind);
                match values.len() {
                    count @ 0..=14 => out.push((count as u8) << 4 | kind),
                    count => {
                        out.push(0xf0 | kind);
                        put_varint(out, count as u64);
                    }
                }
                values.iter().for_each(|value| value.put(out));
            }
            Value::Struct(fields) => fields.put(out),
        }
    }
}

/// Appends an unsigned integer, seven bits a byte.
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Signed integers as unsigned ones, those near zero first.
pub(super) fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// Reads encoded values from the front of a slice. `None` stands for damage.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    /// Values that may still be read. Most take 32 bytes in memory and some only one in the slice.
    left: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader::limited(bytes, usize::MAX)
    }

    /// Reads at most `values` values; more are damage.
    pub(super) fn limited(bytes: &'a [u8], values: usize) -> Self {
        Reader { bytes, left: values }
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    pub(super) fn zigzag(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn size(&mut self) -> Option<usize> {
        usize::try_from(self.varint()?).ok()
    }

    pub(super) fn structure(&mut self) -> Option<Struct> {
        self.fields(DEPTH)
    }

    fn fields(&mut self, depth: usize) -> Option<Struct> {
        let mut fields = Vec::new();
        let mut last = 0_i16;
        loop {
            let header = self.byte()?;
            if header == 0 {
                return Some(Struct(fields));
            }
            last = match header >> 4 {
                0 => i16::try_from(self.zigzag()?).ok()?,
                delta => last.checked_add(delta.into())?,
            };
            let value = match header & 0xf {
                kind @ 1..=2 => Value::Bool(kind == 1),
                kind => self.value(kind, depth)?,
            };
            fields.push((last, value));
        }
    }

    fn value(&mut self, kind: u8, depth: usize) -> Option<Value> {
        let depth = depth.checked_sub(1)?;
        self.left = self.left.checked_sub(1)?;
        Some(match kind {
            1 | 2 => Value::Bool(self.byte()? == 1),
            3 => Value::I8(self.byte()? as i8),
            4 => Value::I16(i16::try_from(self.zigzag()?).ok()?),
            5 => Value::I32(i32::try_from(self.zigzag()?).ok()?),
            6 => Value::I64(self.zigzag()?),
            7 => Value::Double(f64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            8 => {
                let size = self.size()?;
                Value::Bytes(self.take(size)?.to_vec())
            }
            9 | 10 => {
                let header = self.byte()?;
                let count = match header >> 4 {
                    15 => self.size()?,
                    count => count.into(),
                };
                // Every element takes a byte at least: a count beyond the rest ends there.
                let values = (0..count).map(|_| self.value(header & 0xf, depth));
                Value::List(values.collect::<Option<_>>()?)
            }
            12 => Value::Struct(self.fields(depth)?),
            _ => return None,
        })
    }
}
