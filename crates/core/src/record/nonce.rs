//! Nonces: the name of one write. Pure.

use std::fmt;

/// One write of one store handle: the handle's random id, and the number of its write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonce {
    /// The handle.
    pub writer: u64,
    /// The number of its write.
    pub number: u64,
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}", self.writer, self.number)
    }
}

impl Nonce {
    /// The nonce of its text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Nonce> {
        let (writer, number) = text.split_once('-')?;
        let parse = |text| u64::from_str_radix(text, 16).ok();
        Some(Nonce { writer: parse(writer)?, number: parse(number)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_read_back() {
        let nonce = Nonce { writer: u64::MAX, number: 1 };
        assert_eq!(Nonce::parse(&nonce.to_string()), Some(nonce));
        assert_eq!(Nonce::parse("7"), None);
        assert_eq!(Nonce::parse("x-1"), None);
    }
}
