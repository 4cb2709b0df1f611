//! The four messages of KV Connect that the store needs, in Protocol Buffers. Pure.
//!
//! They are `SnapshotRead`, `SnapshotReadOutput`, `AtomicWrite` and `AtomicWriteOutput` of the package `com.deno.kv.datapath`, with one range, or
//! one check and one mutation.

use crate::bounds::DENOKV_VERSIONSTAMP_BYTES;

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// `SnapshotReadOutput`, as far as it is of interest.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ReadOutput {
    /// The server does not serve reads.
    pub(super) disabled: bool,
    /// Whether the value is the last one.
    pub(super) strong: bool,
    pub(super) entry: Option<Entry>,
}

/// `KvEntry`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) value: Vec<u8>,
    pub(super) encoding: u64,
    pub(super) versionstamp: u128,
}

/// `AtomicWriteOutput`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WriteOutput {
    Success(u128),
    CheckFailed,
    /// The server does not serve writes.
    Disabled,
    Unspecified,
}

/// `VE_BYTES`: a value is what it is.
pub(super) const ENCODING_BYTES: u64 = 3;
/// `M_SET`.
const MUTATION_SET: u64 = 1;
/// `SR_READ_DISABLED`.
const READ_DISABLED: u64 = 2;
const WRITE_SUCCESS: u64 = 1;
const WRITE_CHECK_FAILED: u64 = 2;
const WRITE_DISABLED: u64 = 5;

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Reads one key: the range from it to the next possible one.
pub(super) fn read(key: &[u8]) -> Vec<u8> {
    let mut range = Vec::new();
    bytes(&mut range, 1, key);
    bytes(&mut range, 2, &[key, &[0]].concat());
    number(&mut range, 3, 1);
    let mut out = Vec::new();
    bytes(&mut out, 1, &range);
    out
}

/// Replaces a value if its versionstamp is still this one; `None` if there must be no value. It expires at a time in milliseconds, if any.
pub(super) fn write(key: &[u8], expected: Option<u128>, value: &[u8], expire_at_ms: Option<u64>) -> Vec<u8> {
    let mut check = Vec::new();
    bytes(&mut check, 1, key);
    if let Some(versionstamp) = expected {
        let raw = versionstamp.to_be_bytes();
        bytes(&mut check, 2, &raw[raw.len() - DENOKV_VERSIONSTAMP_BYTES..]);
    }
    let mut encoded = Vec::with_capacity(value.len() + 8);
    bytes(&mut encoded, 1, value);
    number(&mut encoded, 2, ENCODING_BYTES);
    let mut mutation = Vec::with_capacity(encoded.len() + key.len() + 24);
    bytes(&mut mutation, 1, key);
    bytes(&mut mutation, 2, &encoded);
    number(&mut mutation, 3, MUTATION_SET);
    if let Some(ms) = expire_at_ms {
        number(&mut mutation, 4, ms);
    }
    let mut out = Vec::with_capacity(check.len() + mutation.len() + 8);
    bytes(&mut out, 1, &check);
    bytes(&mut out, 2, &mutation);
    out
}

fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// The fields of a message in their order, without those of fixed size, which these messages do not have. `None` if it is no message.
fn fields(mut rest: &[u8]) -> Option<Vec<(u64, Field<'_>)>> {
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let tag = take_varint(&mut rest)?;
        let len = match tag & 7 {
            0 => {
                fields.push((tag >> 3, Field::Number(take_varint(&mut rest)?)));
                continue;
            }
            1 => 8,
            2 => usize::try_from(take_varint(&mut rest)?).ok()?,
            5 => 4,
            _ => return None,
        };
        let (value, after) = rest.split_at_checked(len)?;
        rest = after;
        if tag & 7 == 2 {
            fields.push((tag >> 3, Field::Bytes(value)));
        }
    }
    Some(fields)
}

fn versionstamp(raw: &[u8]) -> Option<u128> {
    let valid = raw.len() == DENOKV_VERSIONSTAMP_BYTES;
    valid.then(|| raw.iter().fold(0, |number, byte| number << 8 | u128::from(*byte)))
}

fn entry(message: &[u8]) -> Option<Entry> {
    let mut entry = Entry::default();
    for field in fields(message)? {
        match field {
            (2, Field::Bytes(value)) => entry.value = value.to_vec(),
            (3, Field::Number(encoding)) => entry.encoding = encoding,
            (4, Field::Bytes(raw)) => entry.versionstamp = versionstamp(raw)?,
            _ => {}
        }
    }
    Some(entry)
}

/// The reply of a read of one key.
pub(super) fn read_output(message: &[u8]) -> Option<ReadOutput> {
    let mut output = ReadOutput::default();
    let mut ranges = 0;
    for field in fields(message)? {
        match field {
            (1, Field::Bytes(range)) => {
                ranges += 1;
                let entries = fields(range)?;
                let first = entries.into_iter().find_map(|field| match field {
                    (1, Field::Bytes(entry)) => Some(entry),
                    _ => None,
                });
                output.entry = first.map(|first| entry(first).ok_or(())).transpose().ok()?;
            }
            (2, Field::Number(disabled)) => output.disabled |= disabled != 0,
            (4, Field::Number(strong)) => output.strong = strong != 0,
            (8, Field::Number(status)) => output.disabled |= status == READ_DISABLED,
            _ => {}
        }
    }
    // Without the range it is no reply to this request.
    (ranges == 1 || output.disabled).then_some(output)
}

/// The reply of a write.
pub(super) fn write_output(message: &[u8]) -> Option<WriteOutput> {
    let (mut status, mut stamp) = (0, None);
    for field in fields(message)? {
        match field {
            (1, Field::Number(number)) => status = number,
            (2, Field::Bytes(raw)) => stamp = versionstamp(raw),
            _ => {}
        }
    }
    Some(match status {
        WRITE_SUCCESS => WriteOutput::Success(stamp?),
        WRITE_CHECK_FAILED => WriteOutput::CheckFailed,
        WRITE_DISABLED => WriteOutput::Disabled,
        _ => WriteOutput::Unspecified,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes that `protoc --encode` makes of the same messages.
    #[test]
    fn requests_are_messages() {
        assert_eq!(read(b"k"), b"\x0a\x09\x0a\x01k\x12\x02k\x00\x18\x01");
        assert_eq!(
            write(b"k", None, b"v", None),
            b"\x0a\x03\x0a\x01k\x12\x0c\x0a\x01k\x12\x05\x0a\x01v\x10\x03\x18\x01"
        );
        assert_eq!(
            write(b"k", Some(258), b"v", Some(300)),
            b"\x0a\x0f\x0a\x01k\x12\x0a\0\0\0\0\0\0\0\0\x01\x02\x12\x0f\x0a\x01k\x12\x05\x0a\x01v\x10\x03\x18\x01\x20\xac\x02"
        );
    }

    #[test]
    fn replies_are_parsed() {
        let found =
            b"\x0a\x16\x0a\x14\x0a\x01k\x12\x01v\x18\x03\x22\x0a\0\0\0\0\0\0\0\0\x01\x02\x20\x01\x40\x01";
        let entry = Entry { value: b"v".to_vec(), encoding: 3, versionstamp: 258 };
        assert_eq!(
            read_output(found),
            Some(ReadOutput { disabled: false, strong: true, entry: Some(entry) })
        );
        let absent = ReadOutput { disabled: false, strong: true, entry: None };
        assert_eq!(read_output(b"\x0a\x00\x20\x01"), Some(absent));
        assert!(read_output(b"\x10\x01").unwrap().disabled && read_output(b"\x40\x02").unwrap().disabled);
        assert!(!read_output(b"\x0a\x00").unwrap().strong);
        let success = b"\x08\x01\x12\x0a\0\0\0\0\0\0\0\0\x01\x02";
        assert_eq!(write_output(success), Some(WriteOutput::Success(258)));
        assert_eq!(write_output(b"\x08\x02"), Some(WriteOutput::CheckFailed));
        assert_eq!(write_output(b"\x08\x05"), Some(WriteOutput::Disabled));
        assert_eq!(write_output(b""), Some(WriteOutput::Unspecified));
    }

    #[test]
    fn other_bytes_are_an_error() {
        for message in
            [&b""[..], b"<html>", b"\x0a\xff", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x08"]
        {
            assert_eq!(read_output(message), None, "{message:?}");
        }
        // Success without a versionstamp, or with one of another length.
        assert_eq!(write_output(b"\x08\x01"), None);
        assert_eq!(write_output(b"\x08\x01\x12\x01\x07"), None);
        // Every truncation of a message ends without a panic.
        let whole =
            b"\x0a\x16\x0a\x14\x0a\x01k\x12\x01v\x18\x03\x22\x0a\0\0\0\0\0\0\0\0\x01\x02\x20\x01\x40\x01";
        for end in 0..whole.len() {
            let _ = (read_output(&whole[..end]), write_output(&whole[..end]));
        }
    }
}
