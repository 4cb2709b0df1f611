//! The SHA-1 digests that identify scripts. It touches nothing. SHA-1 is not secure: nothing secret may depend on it.

use sha1::{Digest, Sha1};

/// A digest in hexadecimal digits.
pub(crate) type Digits = [u8; 40];

/// The SHA-1 digest of some bytes, in lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> Digits {
    let mut digits = [0; 40];
    data_encoding::HEXLOWER.encode_mut(&Sha1::digest(bytes), &mut digits);
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_match_the_standard() {
        for (bytes, digits) in [
            (&b""[..], "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            (b"abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (
                b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
            ),
            (&[b'a'; 1_000_000], "34aa973cd4c4daa4f61eeb2bdbad27316534016f"),
        ] {
            assert_eq!(hex(bytes), digits.as_bytes());
        }
    }
}
