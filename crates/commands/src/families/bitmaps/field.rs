//! Integers of 1 to 64 bits at any bit offset of a string, and their overflow. It touches nothing.

/// What happens when a value does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Overflow {
    /// Higher bits are dropped.
    #[default]
    Wrap,
    /// The nearest value that fits is used.
    Sat,
    /// Nothing is done.
    Fail,
}

/// The type of a field. Unsigned ones have at most 63 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    signed: bool,
    bits: u32,
}

impl Field {
    /// A type as it is written: `i16`, `u8`.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let (signed, bits) = match text {
            [b'i', bits @ ..] => (true, bits),
            [b'u', bits @ ..] => (false, bits),
            _ => return None,
        };
        let max = if signed { 64 } else { 63 };
        let bits = crate::number::parse_int(bits).filter(|bits| (1..=max).contains(bits))?;
        Some(Field { signed, bits: bits as u32 })
    }

    pub(super) fn bits(self) -> u32 {
        self.bits
    }

    /// The value at a bit offset; zeros follow the end.
    pub(super) fn get(self, bytes: &[u8], offset: usize) -> i64 {
        let window = load(bytes, offset / 8) << (offset % 8);
        let unused = u128::BITS - self.bits;
        if self.signed { (window as i128 >> unused) as i64 } else { (window >> unused) as i64 }
    }

    /// Writes the low bits of a value at a bit offset of a string that is long enough.
    pub(super) fn put(self, bytes: &mut [u8], offset: usize, value: i64) {
        let shift = u128::BITS - self.bits - (offset % 8) as u32;
        let mask = (u128::MAX >> (u128::BITS - self.bits)) << shift;
        let new = (load(bytes, offset / 8) & !mask) | ((value as u128) << shift & mask);
        for (byte, new) in bytes.iter_mut().skip(offset / 8).zip(new.to_be_bytes()) {
            *byte = new;
        }
    }

    /// The sum of a value and an increment in this type; `None` if it does not fit and must.
    ///
    /// SET on an unsigned field reads the value as unsigned 64 bits, so a negative one is too large.
    pub(super) fn add(self, value: i64, increment: i64, overflow: Overflow) -> Option<i64> {
        let value = if self.signed { i128::from(value) } else { i128::from(value as u64) };
        let sum = value + i128::from(increment);
        let (min, max) = self.limits();
        if (min..=max).contains(&sum) {
            return Some(sum as i64);
        }
        match overflow {
            Overflow::Wrap => {
                let unused = u64::BITS - self.bits;
                let low = (sum as u64) << unused;
                Some(if self.signed { low as i64 >> unused } else { (low >> unused) as i64 })
            }
            Overflow::Sat => {
                // Redis computes the distance to the highest value in 64 bits: if the value is so far below that the distance
                // does not fit, Redis takes it for an overflow.
                let far_below = self.bits < u64::BITS && i64::try_from(max - value).is_err();
                Some(if sum > max || far_below { max } else { min } as i64)
            }
            Overflow::Fail => None,
        }
    }

    fn limits(self) -> (i128, i128) {
        if self.signed {
            let half = 1i128 << (self.bits - 1);
            (-half, half - 1)
        } else {
            (0, (1 << self.bits) - 1)
        }
    }
}

/// Sixteen bytes from `first` on, padded with zeros.
fn load(bytes: &[u8], first: usize) -> u128 {
    let mut window = [0; 16];
    let there = bytes.get(first..).unwrap_or_default();
    let len = there.len().min(16);
    window[..len].copy_from_slice(&there[..len]);
    u128::from_be_bytes(window)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types() {
        for (text, field) in [
            ("u8", Some(Field { signed: false, bits: 8 })),
            ("i64", Some(Field { signed: true, bits: 64 })),
            ("u64", None),
            ("i65", None),
            ("u0", None),
            ("i-1", None),
            ("U8", None),
            ("8", None),
            ("u", None),
            ("", None),
        ] {
            assert_eq!(Field::parse(text.as_bytes()), field, "{text}");
        }
    }

    #[test]
    fn a_written_field_reads_back_and_nothing_else_changes() {
        for bits in 1..=64 {
            for offset in 0..20 {
                let field = Field { signed: true, bits };
                for (fill, value) in
                    [(0xff, 0), (0, -1), (0, i64::MIN >> (64 - bits)), (0xff, i64::MAX >> (64 - bits))]
                {
                    let mut bytes = [fill; 12];
                    field.put(&mut bytes, offset, value);
                    assert_eq!(field.get(&bytes, offset), value);
                    field.put(&mut bytes, offset, if fill == 0 { 0 } else { -1 });
                    assert_eq!(bytes, [fill; 12], "{bits} bits at {offset}");
                }
            }
        }
    }

    #[test]
    fn overflows() {
        let (u8, i8, i64_) = ("u8", "i8", "i64");
        for (field, value, increment, wrap, sat) in [
            (u8, 255, 1, 0, 255),
            (u8, 0, -1, 255, 0),
            (u8, 10, -1000, 34, 0),
            (u8, -1, 0, 255, 255),
            (u8, 256, 0, 0, 255),
            (i8, 127, 1, -128, 127),
            (i8, -128, -1, 127, -128),
            (i8, 100, 1000, 76, 127),
            (i8, 128, 0, -128, 127),
            (i8, -129, 0, 127, -128),
            (i8, i64::MIN, 0, 0, 127),
            (i64_, i64::MAX, 1, i64::MIN, i64::MAX),
            (i64_, i64::MIN, -1, i64::MAX, i64::MIN),
        ] {
            let field = Field::parse(field.as_bytes()).unwrap();
            assert_eq!(
                field.add(value, increment, Overflow::Wrap),
                Some(wrap),
                "{field:?} {value} {increment}"
            );
            assert_eq!(
                field.add(value, increment, Overflow::Sat),
                Some(sat),
                "{field:?} {value} {increment}"
            );
            assert_eq!(field.add(value, increment, Overflow::Fail), None);
        }
    }
}
