//! A key as text, for requests in JSON. Pure.

use std::borrow::Cow;
use std::fmt::Write;

use crate::key::Key;

/// The key itself if it is UTF-8 without `%`; else `%` and bytes that are not UTF-8 are written `%XX`. Different keys have different texts.
pub(crate) fn of(key: &Key) -> Cow<'_, str> {
    let bytes = key.as_bytes();
    if let Ok(text) = std::str::from_utf8(bytes)
        && !text.contains('%')
    {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        for (i, part) in chunk.valid().split('%').enumerate() {
            text.push_str(if i > 0 { "%25" } else { "" });
            text.push_str(part);
        }
        for byte in chunk.invalid() {
            // Writing to a string does not fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    Cow::Owned(text)
}

/// The key itself if it is UTF-8 without `%`; else `%` and all of its bytes in base64, which is the shorter form of bytes that are no text.
pub(crate) fn short(key: &Key) -> Cow<'_, str> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bytes = key.as_bytes();
    if let Ok(text) = std::str::from_utf8(bytes)
        && !text.contains('%')
    {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(2 + bytes.len().div_ceil(3) * 4);
    text.push('%');
    for three in bytes.chunks(3) {
        let bits =
            three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        // Of one byte there are two digits, of two three, of three four.
        for i in 0..=three.len() {
            text.push(char::from(DIGITS[(bits >> (18 - 6 * i)) as usize % 64]));
        }
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_key_is_in_its_text() {
        for (key, text) in [
            (&b"a:1"[..], "a:1"),
            ("\u{e9}\n".as_bytes(), "\u{e9}\n"),
            (b"50%", "50%25"),
            (b"%a%%25", "%25a%25%2525"),
            (b"a\xff\xc3%", "a%FF%C3%25"),
            (b"%FF", "%25FF"),
        ] {
            assert_eq!(of(&Key::new(key).unwrap()), text);
        }
    }

    #[test]
    fn bytes_that_are_no_text_have_a_short_form() {
        for (key, text) in [
            (&b"a:1"[..], "a:1"),
            ("\u{e9}\n".as_bytes(), "\u{e9}\n"),
            (b"%", "%JQ"),
            (b"50%", "%NTAl"),
            (b"\xff\xfe", "%__4"),
            (b"\xfb\xff\xfe\x00", "%-__-AA"),
        ] {
            assert_eq!(short(&Key::new(key).unwrap()), text);
        }
    }
}
