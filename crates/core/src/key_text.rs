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
}
