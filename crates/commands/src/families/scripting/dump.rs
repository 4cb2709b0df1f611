//! The payload of FUNCTION DUMP in Redis's format: libraries as in an RDB file, its version, a CRC64. It touches nothing.
//!
//! Redis 7 restores what is written here, and the other way round; texts that Redis compressed are read too.

/// The opcode of a library in an RDB file.
const LIBRARY: u8 = 245;
/// RDB of Redis 7.0.
const VERSION: u16 = 10;
/// RDB of the latest Redis whose payloads have the same format.
const VERSION_MAX: u16 = 12;
/// Bytes of the version and the checksum.
const TAIL: usize = 10;

/// A payload of these texts.
pub(super) fn write<'a>(codes: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for code in codes {
        out.push(LIBRARY);
        write_len(code.len(), &mut out);
        out.extend_from_slice(code);
    }
    out.extend_from_slice(&VERSION.to_le_bytes());
    let sum = crc64(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

fn write_len(len: usize, out: &mut Vec<u8>) {
    match len {
        0..=0x3F => out.push(len as u8),
        0x40..=0x3FFF => out.extend_from_slice(&(len as u16 | 0x4000).to_be_bytes()),
        _ => {
            out.push(0x80);
            out.extend_from_slice(&(len as u32).to_be_bytes());
        }
    }
}

/// The texts of a payload; `None` if its version or checksum is wrong, an error if its content is.
pub(super) fn read(payload: &[u8]) -> Option<Result<Vec<Vec<u8>>, &'static str>> {
    let (rest, sum) = payload.split_last_chunk::<8>()?;
    let (body, version) = rest.split_last_chunk::<2>()?;
    if u16::from_le_bytes(*version) > VERSION_MAX {
        return None;
    }
    let sum = u64::from_le_bytes(*sum);
    if sum != crc64(rest) {
        return None;
    }
    debug_assert_eq!(payload.len() - body.len(), TAIL);
    Some(read_libraries(body))
}

fn read_libraries(mut body: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
    let mut codes = Vec::new();
    while let Some((kind, rest)) = body.split_first() {
        if *kind != LIBRARY {
            return Err("ERR given type is not a function");
        }
        let (code, rest) = read_text(rest).ok_or("ERR failed loading the given functions payload")?;
        codes.push(code);
        body = rest;
    }
    Ok(codes)
}

/// A length, or the encoding of a text (its high two bits are set).
fn read_len(bytes: &[u8]) -> Option<(Result<usize, u8>, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    match first >> 6 {
        0 => Some((Ok(usize::from(first & 0x3F)), rest)),
        1 => {
            let (second, rest) = rest.split_first()?;
            Some((Ok(usize::from(first & 0x3F) << 8 | usize::from(*second)), rest))
        }
        2 if *first == 0x80 => {
            let (len, rest) = rest.split_first_chunk::<4>()?;
            Some((Ok(u32::from_be_bytes(*len) as usize), rest))
        }
        2 => None,
        _ => Some((Err(first & 0x3F), rest)),
    }
}

fn read_text(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (len, rest) = read_len(bytes)?;
    match len {
        Ok(len) => rest.split_at_checked(len).map(|(text, rest)| (text.to_vec(), rest)),
        // Compressed with LZF: both lengths, then the bytes.
        Err(3) => {
            let (packed, rest) = read_len(rest)?;
            let (len, rest) = read_len(rest)?;
            let (packed, rest) = rest.split_at_checked(packed.ok()?)?;
            Some((unpack(packed, len.ok()?)?, rest))
        }
        Err(_) => None,
    }
}

/// LZF: literal runs, and copies of earlier bytes.
fn unpack(mut packed: &[u8], len: usize) -> Option<Vec<u8>> {
    if len > crate::bounds::LIBRARIES_BYTES_MAX {
        return None;
    }
    let mut out = Vec::with_capacity(len);
    while let Some((control, rest)) = packed.split_first() {
        let control = usize::from(*control);
        if control < 32 {
            let (run, rest) = rest.split_at_checked(control + 1)?;
            out.extend_from_slice(run);
            packed = rest;
        } else {
            let (mut count, mut rest) = (control >> 5, rest);
            if count == 7 {
                let (more, after) = rest.split_first()?;
                (count, rest) = (count + usize::from(*more), after);
            }
            let (low, rest) = rest.split_first()?;
            let back = (control & 31) << 8 | usize::from(*low);
            let from = out.len().checked_sub(back + 1)?;
            for at in from..from + count + 2 {
                let byte = *out.get(at)?;
                out.push(byte);
            }
            packed = rest;
        }
        if out.len() > len {
            return None;
        }
    }
    (out.len() == len).then_some(out)
}

/// Redis's CRC-64 (Jones).
fn crc64(bytes: &[u8]) -> u64 {
    const POLYNOMIAL: u64 = 0x95AC_9329_AC4B_C9B5;
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ u64::from(*byte), |sum, _| sum >> 1 ^ if sum & 1 == 1 { POLYNOMIAL } else { 0 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_redis() {
        assert_eq!(crc64(b"123456789"), 0xE9C6_D914_C4B8_D9CA);
    }

    #[test]
    fn a_dump_reads_back_and_a_wrong_byte_is_detected() {
        let codes: Vec<Vec<u8>> = [0, 10, 63, 64, 16383, 16384].iter().map(|len| vec![b'x'; *len]).collect();
        let payload = write(codes.iter().map(Vec::as_slice));
        assert_eq!(read(&payload), Some(Ok(codes)));
        for at in [0, 5, payload.len() - 1] {
            let mut wrong = payload.clone();
            wrong[at] ^= 1;
            assert_eq!(read(&wrong), None);
        }
        assert_eq!((read(b""), read(&payload[..20])), (None, None));
    }

    #[test]
    fn copies_are_unpacked() {
        assert_eq!(unpack(&[2, b'a', b'b', b'c', 0x20, 2], 6), Some(b"abcabc".to_vec()));
        assert_eq!(unpack(&[0, b'a', 0x40, 0], 5), Some(b"aaaaa".to_vec()));
        assert_eq!(unpack(&[0x20, 2], 3), None);
        assert_eq!(unpack(&[5, b'a'], 6), None);
    }
}
