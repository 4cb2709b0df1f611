//! A packed hash: a record is a field and its value. It touches nothing. Invariant: every field is stored once.

use crate::bytes::Bytes;
use crate::value::packed::{Full, Number, Packed, Reader};

pub(super) fn get<'a>(packed: &'a Packed, field: &[u8]) -> Option<&'a [u8]> {
    find(packed, field).map(|found| found.value)
}

/// Sets a field and returns its old value.
pub(super) fn insert(packed: &mut Packed, field: &[u8], value: &[u8]) -> Result<Option<Bytes>, Full> {
    if !Packed::fits(field.len()) || !Packed::fits(value.len()) {
        return Err(Full);
    }
    let value_len = Number::len_of(value);
    if let Some(found) = find(packed, field) {
        let old = Bytes::from(found.value);
        let range = found.value_at..found.end;
        packed.replace(range, &[value_len.as_ref(), value]);
        return Ok(Some(old));
    }
    if !packed.has_space() {
        return Err(Full);
    }
    let field_len = Number::len_of(field);
    packed.insert(packed.end(), &[field_len.as_ref(), field, value_len.as_ref(), value]);
    Ok(None)
}

pub(super) fn remove(packed: &mut Packed, field: &[u8]) -> Option<Bytes> {
    let found = find(packed, field)?;
    let old = Bytes::from(found.value);
    let range = found.start..found.end;
    packed.remove(range, &[]);
    Some(old)
}

struct Found<'a> {
    value: &'a [u8],
    start: usize,
    value_at: usize,
    end: usize,
}

fn find<'a>(packed: &'a Packed, field: &[u8]) -> Option<Found<'a>> {
    let mut reader = packed.reader();
    loop {
        let start = reader.offset();
        let name = reader.bytes()?;
        let value_at = reader.offset();
        let value = reader.bytes()?;
        if name == field {
            return Some(Found { value, start, value_at, end: reader.offset() });
        }
    }
}

/// Fields and values in insertion order.
pub(super) fn iter(packed: &Packed) -> Pairs<'_> {
    Pairs(packed.reader())
}

#[derive(Clone, Debug)]
pub(super) struct Pairs<'a>(Reader<'a>);

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        Some((self.0.bytes()?, self.0.bytes()?))
    }
}
