//! A packed list: a record is the distance from the previous position, and the value. It touches nothing.
//!
//! Invariant: positions increase strictly. A distance of whole gaps, as most are, takes one byte.

use super::position::GAP;
use crate::bytes::Bytes;
use crate::value::packed::{Full, Number, Packed, Reader, unzigzag, zigzag};

/// Positions beyond this need a large list: their distances would not fit their encoding.
const POSITION_MAX: u64 = 1 << 60;

/// One element in the buffer.
#[derive(Clone, Debug)]
pub(super) struct Record<'a> {
    pub(super) position: i64,
    pub(super) value: &'a [u8],
    start: usize,
    value_at: usize,
    end: usize,
}

/// Elements front to back.
#[derive(Clone, Debug)]
pub(super) struct Records<'a> {
    reader: Reader<'a>,
    position: i64,
}

pub(super) fn iter(packed: &Packed) -> Records<'_> {
    Records { reader: packed.reader(), position: 0 }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let start = self.reader.offset();
        let code = self.reader.number()?;
        let scale = if code & 1 == 0 { GAP } else { 1 };
        self.position += unzigzag(code >> 1) * scale;
        let value_at = self.reader.offset();
        let value = self.reader.bytes()?;
        Some(Record { position: self.position, value, start, value_at, end: self.reader.offset() })
    }
}

/// The encoding of a distance: even when it is in gaps, odd when it is in ones.
fn code(distance: i64) -> Number {
    if distance % GAP == 0 {
        Number::of(zigzag(distance / GAP) << 1)
    } else {
        Number::of(zigzag(distance) << 1 | 1)
    }
}

/// Sets the element at a position and returns the old value.
pub(super) fn put(packed: &mut Packed, position: i64, value: &[u8]) -> Result<Option<Bytes>, Full> {
    if !Packed::fits(value.len()) || position.unsigned_abs() > POSITION_MAX {
        return Err(Full);
    }
    let len = Number::len_of(value);
    let (mut before, mut next) = (0, None);
    for record in iter(packed) {
        if record.position >= position {
            next = Some(record);
            break;
        }
        before = record.position;
    }
    let here = code(position - before);
    match next {
        Some(same) if same.position == position => {
            let old = Bytes::from(same.value);
            let range = same.value_at..same.end;
            packed.replace(range, &[len.as_ref(), value]);
            return Ok(Some(old));
        }
        _ if !packed.has_space() => return Err(Full),
        Some(next) => {
            let there = code(next.position - position);
            let range = next.start..next.value_at;
            packed.insert(range, &[here.as_ref(), len.as_ref(), value, there.as_ref()]);
        }
        None => packed.insert(packed.end(), &[here.as_ref(), len.as_ref(), value]),
    }
    Ok(None)
}

/// Removes the element at an index.
pub(super) fn remove(packed: &mut Packed, index: usize) -> Option<(i64, Bytes)> {
    let mut records = iter(packed);
    let before = match index.checked_sub(1) {
        Some(before) => records.nth(before)?.position,
        None => 0,
    };
    let record = records.next()?;
    let removed = (record.position, Bytes::from(record.value));
    match records.next() {
        Some(next) => {
            let range = record.start..next.value_at;
            let there = code(next.position - before);
            packed.remove(range, &[there.as_ref()]);
        }
        None => {
            let range = record.start..record.end;
            packed.remove(range, &[]);
        }
    }
    Some(removed)
}
