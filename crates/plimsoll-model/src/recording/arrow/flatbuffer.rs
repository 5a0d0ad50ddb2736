//! FlatBuffers, as far as the messages of Arrow need them.
//!
//! Offsets that point outside of the buffer read as fields that are not there, so damage never reaches further than
//! "missing".

/// A value to be encoded as a field of a table.
pub(super) enum Value {
    Bool(bool),
    U8(u8),
    I16(i16),
    I32(i32),
    I64(i64),
    Node(Node),
}

/// A value that its parent refers to by an offset.
pub(super) enum Node {
    /// Fields by slot.
    Table(Vec<(usize, Value)>),
    Text(String),
    Vector(Vec<Node>),
    /// A vector of structs of two 64-bit integers.
    Pairs(Vec<[i64; 2]>),
}

impl Value {
    fn size(&self) -> usize {
        match self {
            Value::I64(_) => 8,
            Value::I32(_) | Value::Node(_) => 4,
            Value::I16(_) => 2,
            Value::Bool(_) | Value::U8(_) => 1,
        }
    }
}

/// Encodes `root`, padded to a multiple of 8 bytes.
pub(super) fn encode(root: Node) -> Vec<u8> {
    let mut out = vec![0; 4];
    let at = put(&mut out, root);
    link(&mut out, 0, at);
    out.resize(out.len().next_multiple_of(8), 0);
    out
}

/// Appends a node and returns its position. Children follow their parents, as offsets point forward.
fn put(out: &mut Vec<u8>, node: Node) -> usize {
    match node {
        Node::Table(fields) => put_table(out, fields),
        Node::Text(text) => {
            let at = length(out, text.len(), 4);
            out.extend_from_slice(text.as_bytes());
            out.push(0);
            at
        }
        Node::Vector(nodes) => {
            let at = length(out, nodes.len(), 4);
            out.resize(out.len() + 4 * nodes.len(), 0);
            for (index, node) in nodes.into_iter().enumerate() {
                let child = put(out, node);
                link(out, at + 4 + 4 * index, child);
            }
            at
        }
        Node::Pairs(pairs) => {
            let at = length(out, pairs.len(), 8);
            for word in pairs.iter().flatten() {
                out.extend_from_slice(&word.to_le_bytes());
            }
            at
        }
    }
}

/// Appends the length of a vector whose elements are aligned to `align` bytes.
fn length(out: &mut Vec<u8>, count: usize, align: usize) -> usize {
    let at = (out.len() + 4).next_multiple_of(align) - 4;
    out.resize(at, 0);
    out.extend_from_slice(&(count as u32).to_le_bytes());
    at
}

fn put_table(out: &mut Vec<u8>, mut fields: Vec<(usize, Value)>) -> usize {
    // The largest first: then every field is aligned when the first one is.
    fields.sort_by_key(|(_, value)| std::cmp::Reverse(value.size()));
    let slots = fields.iter().map(|(slot, _)| slot + 1).max().unwrap_or(0);
    let mut offsets = vec![0_u16; slots];
    let mut size = 4;
    for (slot, value) in &fields {
        offsets[*slot] = size as u16;
        size += value.size();
    }
    out.resize(out.len().next_multiple_of(2), 0);
    let vtable = out.len();
    for word in [4 + 2 * slots as u16, size as u16].into_iter().chain(offsets) {
        out.extend_from_slice(&word.to_le_bytes());
    }
    let at = (out.len() + 4).next_multiple_of(8) - 4;
    out.resize(at, 0);
    out.extend_from_slice(&((at - vtable) as i32).to_le_bytes());
    let mut children = Vec::new();
    for (_, value) in fields {
        match value {
            Value::Bool(value) => out.push(value.into()),
            Value::U8(value) => out.push(value),
            Value::I16(value) => out.extend_from_slice(&value.to_le_bytes()),
            Value::I32(value) => out.extend_from_slice(&value.to_le_bytes()),
            Value::I64(value) => out.extend_from_slice(&value.to_le_bytes()),
            Value::Node(node) => {
                children.push((out.len(), node));
                out.extend_from_slice(&[0; 4]);
            }
        }
    }
    for (place, node) in children {
        let child = put(out, node);
        link(out, place, child);
    }
    at
}

/// Writes at `place` the offset that leads from there to `target`.
fn link(out: &mut [u8], place: usize, target: usize) {
    out[place..place + 4].copy_from_slice(&((target - place) as u32).to_le_bytes());
}

#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    bytes: &'a [u8],
    at: usize,
    vtable: usize,
}

impl<'a> Table<'a> {
    pub(super) fn root(bytes: &'a [u8]) -> Option<Self> {
        Table::at(bytes, follow(bytes, 0)?)
    }

    fn at(bytes: &'a [u8], at: usize) -> Option<Self> {
        let back = i32::from_le_bytes(array(bytes, at)?);
        let vtable = i64::try_from(at).ok()?.checked_sub(back.into())?;
        Some(Table {
            bytes,
            at,
            vtable: usize::try_from(vtable).ok()?,
        })
    }

    /// Where the field of `slot` is; `None` when it has its default.
    fn field(&self, slot: usize) -> Option<usize> {
        let size = usize::from(u16::from_le_bytes(array(self.bytes, self.vtable)?));
        let entry = 4 + 2 * slot;
        if entry + 2 > size {
            return None;
        }
        match u16::from_le_bytes(array(self.bytes, self.vtable.checked_add(entry)?)?) {
            0 => None,
            offset => self.at.checked_add(offset.into()),
        }
    }

    fn child(&self, slot: usize) -> Option<usize> {
        follow(self.bytes, self.field(slot)?)
    }

    pub(super) fn u8(&self, slot: usize) -> u8 {
        let value = || Some(u8::from_le_bytes(array(self.bytes, self.field(slot)?)?));
        value().unwrap_or(0)
    }

    pub(super) fn i32(&self, slot: usize) -> i32 {
        let value = || Some(i32::from_le_bytes(array(self.bytes, self.field(slot)?)?));
        value().unwrap_or(0)
    }

    pub(super) fn i64(&self, slot: usize) -> i64 {
        let value = || Some(i64::from_le_bytes(array(self.bytes, self.field(slot)?)?));
        value().unwrap_or(0)
    }

    pub(super) fn table(&self, slot: usize) -> Option<Table<'a>> {
        Table::at(self.bytes, self.child(slot)?)
    }

    pub(super) fn text(&self, slot: usize) -> Option<&'a str> {
        let (start, count) = self.vector(slot)?;
        std::str::from_utf8(self.bytes.get(start..start.checked_add(count)?)?).ok()
    }

    /// The tables of a vector; one that cannot be read is `None`.
    pub(super) fn tables(
        &self,
        slot: usize,
    ) -> Option<impl ExactSizeIterator<Item = Option<Table<'a>>> + 'a> {
        let (start, count) = self.vector(slot)?;
        let bytes = self.bytes;
        bytes.get(start..start.checked_add(count.checked_mul(4)?)?)?;
        Some((0..count).map(move |index| Table::at(bytes, follow(bytes, start + 4 * index)?)))
    }

    /// A vector of structs of two 64-bit integers.
    pub(super) fn pairs(&self, slot: usize) -> Option<Vec<[i64; 2]>> {
        let (start, count) = self.vector(slot)?;
        let bytes = self
            .bytes
            .get(start..start.checked_add(count.checked_mul(16)?)?)?;
        let word = |at| Some(i64::from_le_bytes(array(bytes, at)?));
        (0..count)
            .map(|index| Some([word(16 * index)?, word(16 * index + 8)?]))
            .collect()
    }

    /// Start and number of the elements of a vector.
    fn vector(&self, slot: usize) -> Option<(usize, usize)> {
        let at = self.child(slot)?;
        let count = u32::from_le_bytes(array(self.bytes, at)?);
        Some((at.checked_add(4)?, usize::try_from(count).ok()?))
    }
}

/// Where the offset at `place` leads to.
fn follow(bytes: &[u8], place: usize) -> Option<usize> {
    let offset = u32::from_le_bytes(array(bytes, place)?);
    place.checked_add(usize::try_from(offset).ok()?)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}
