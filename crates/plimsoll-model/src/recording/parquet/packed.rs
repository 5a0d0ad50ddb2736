//! Parquet's encodings of integers: runs and bit-packed groups, and packed differences.

use super::thrift::{Reader, put_varint, zigzag};

/// Values of a block of packed differences.
const BLOCK: usize = 128;
/// Values that share a width; a block has four such groups.
const GROUP: usize = 32;

/// Encodes flags as one run, or as one bit-packed group when they differ.
pub(super) fn encode_flags(flags: &[bool]) -> Vec<u8> {
    let mut out = Vec::new();
    match flags.first() {
        None => {}
        Some(first) if flags.iter().all(|flag| flag == first) => {
            put_varint(&mut out, (flags.len() as u64) << 1);
            out.push((*first).into());
        }
        Some(_) => {
            put_varint(&mut out, (flags.len().div_ceil(8) as u64) << 1 | 1);
            out.extend(flags.chunks(8).map(|eight| {
                let bits = eight.iter().enumerate();
                bits.fold(0, |byte, (bit, flag)| byte | u8::from(*flag) << bit)
            }));
        }
    }
    out
}

/// Appends places in a dictionary of `entries`: the bits of a place, then one bit-packed run.
pub(super) fn encode_indices(indices: &[u64], entries: usize, out: &mut Vec<u8>) {
    // Not all readers accept indices of no bits.
    let width = (u64::BITS - (entries.saturating_sub(1) as u64).leading_zeros()).max(1);
    out.push(width as u8);
    let groups = indices.len().div_ceil(GROUP) * (GROUP / 8);
    put_varint(out, (groups as u64) << 1 | 1);
    for group in indices.chunks(GROUP) {
        pack(group.iter().copied(), width, out);
    }
}

/// Reads `count` values of `width` bits, in runs and bit-packed groups.
pub(super) fn decode_hybrid(bytes: &[u8], width: u32, count: usize) -> Option<Vec<u64>> {
    if width > 32 {
        return None;
    }
    let mut input = Reader::new(bytes);
    let mut values = Vec::with_capacity(count);
    while values.len() < count {
        let header = input.varint()?;
        let left = count - values.len();
        let size = usize::try_from(header >> 1).ok().filter(|size| *size > 0)?;
        if header & 1 == 0 {
            let mut value = 0;
            for (index, byte) in input.take(width.div_ceil(8) as usize)?.iter().enumerate() {
                value |= u64::from(*byte) << (8 * index);
            }
            values.extend(std::iter::repeat_n(value, size.min(left)));
        } else {
            // Eight values take `width` bytes. Bytes after the last value may be missing.
            let bytes = size.checked_mul(width as usize)?.min(input.rest().len());
            unpack(
                input.take(bytes)?,
                width,
                size.saturating_mul(8).min(left),
                &mut values,
            )?;
        }
    }
    Some(values)
}

/// Appends `values` as differences, each block of them with the bits that it needs.
pub(super) fn encode_differences(values: &[i64], out: &mut Vec<u8>) {
    put_varint(out, BLOCK as u64);
    put_varint(out, (BLOCK / GROUP) as u64);
    put_varint(out, values.len() as u64);
    put_varint(out, zigzag(values.first().copied().unwrap_or(0)));
    let differences: Vec<i64> = values.windows(2).map(|two| two[1].wrapping_sub(two[0])).collect();
    for block in differences.chunks(BLOCK) {
        let least = block.iter().copied().min().unwrap_or(0);
        put_varint(out, zigzag(least));
        let above = |difference: &i64| difference.wrapping_sub(least) as u64;
        let widths = out.len();
        out.resize(widths + BLOCK / GROUP, 0);
        for (index, group) in block.chunks(GROUP).enumerate() {
            let most = group.iter().map(above).max().unwrap_or(0);
            let width = u64::BITS - most.leading_zeros();
            out[widths + index] = width as u8;
            pack(group.iter().map(above), width, out);
        }
    }
}

/// Appends a group of values, filled up with zeros, of `width` bits each.
fn pack(values: impl Iterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    let start = out.len();
    let (mut bits, mut count) = (0_u128, 0);
    for value in values {
        bits |= u128::from(value) << count;
        count += width;
        while count >= 8 {
            out.push(bits as u8);
            bits >>= 8;
            count -= 8;
        }
    }
    if count > 0 {
        out.push(bits as u8);
    }
    out.resize(start + GROUP * width as usize / 8, 0);
}

/// Reads `count` values of at most 64 bits.
fn unpack(bytes: &[u8], width: u32, count: usize, values: &mut Vec<u64>) -> Option<()> {
    let mask = u64::MAX.checked_shr(u64::BITS - width).unwrap_or(0);
    let mut input = bytes.iter();
    let (mut bits, mut held) = (0_u128, 0);
    for _ in 0..count {
        while held < width {
            bits |= u128::from(*input.next()?) << held;
            held += 8;
        }
        values.push(bits as u64 & mask);
        bits >>= width;
        held -= width;
    }
    Some(())
}

/// Reads `count` values that were encoded as differences.
pub(super) fn decode_differences(bytes: &[u8], count: usize) -> Option<Vec<i64>> {
    let mut input = Reader::new(bytes);
    let block = usize::try_from(input.varint()?).ok()?;
    let groups = usize::try_from(input.varint()?).ok()?;
    let total = usize::try_from(input.varint()?).ok()?;
    let mut value = input.zigzag()?;
    // Other writers may choose other sizes; this reader accepts those of our writer alone.
    if (block, groups, total) != (BLOCK, BLOCK / GROUP, count) {
        return None;
    }
    let mut values = Vec::with_capacity(count);
    values.extend((count > 0).then_some(value));
    let mut above = Vec::with_capacity(GROUP);
    while values.len() < count {
        let least = input.zigzag()?;
        for width in input.take(groups)? {
            let wanted = GROUP.min(count - values.len());
            if wanted == 0 {
                break;
            }
            let width = u32::from(*width);
            if width > u64::BITS {
                return None;
            }
            above.clear();
            unpack(input.take(GROUP * width as usize / 8)?, width, wanted, &mut above)?;
            for above in &above {
                value = value.wrapping_add(least).wrapping_add(*above as i64);
                values.push(value);
            }
        }
    }
    Some(values)
}
