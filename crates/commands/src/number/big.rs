//! Integers of arbitrary size, as far as parsing and formatting floats needs them. It touches nothing.
//!
//! Invariant: the last limb is not zero.

/// The largest power of ten that fits in a limb.
const LIMB_DIGITS: u32 = 19;
const LIMB_TEN: u64 = 10u64.pow(LIMB_DIGITS);

/// A number, with its limbs from the lowest to the highest.
pub(super) struct Big(Vec<u64>);

impl From<u64> for Big {
    fn from(value: u64) -> Self {
        let mut big = Big(vec![value]);
        big.trim();
        big
    }
}

impl Big {
    /// The number with these digits (0 to 9, as values).
    pub(super) fn from_decimal(digits: &[u8]) -> Self {
        let mut big = Big(Vec::with_capacity(digits.len() / LIMB_DIGITS as usize + 1));
        for chunk in digits.chunks(LIMB_DIGITS as usize) {
            let value = chunk.iter().fold(0, |value, digit| value * 10 + u64::from(*digit));
            big.multiply_add(10u64.pow(chunk.len() as u32), value);
        }
        big
    }

    /// The number of bits.
    pub(super) fn bits(&self) -> u64 {
        self.0.last().map_or(0, |top| self.0.len() as u64 * 64 - u64::from(top.leading_zeros()))
    }

    pub(super) fn multiply_by_power_of_ten(&mut self, power: u32) {
        for _ in 0..power / LIMB_DIGITS {
            self.multiply_add(LIMB_TEN, 0);
        }
        self.multiply_add(10u64.pow(power % LIMB_DIGITS), 0);
    }

    /// Divides, and returns whether there is a remainder.
    pub(super) fn divide_by_power_of_ten(&mut self, power: u32) -> bool {
        let mut left = 0;
        for _ in 0..power / LIMB_DIGITS {
            left |= self.divide(LIMB_TEN);
        }
        left |= self.divide(10u64.pow(power % LIMB_DIGITS));
        left != 0
    }

    pub(super) fn shift_left(&mut self, by: u32) {
        let (limbs, bits) = (by as usize / 64, by % 64);
        if bits > 0 {
            self.multiply_add(1 << bits, 0);
        }
        self.0.splice(0..0, std::iter::repeat_n(0, if self.0.is_empty() { 0 } else { limbs }));
    }

    /// Its highest 128 bits, by how much they are shifted, and whether there are more set bits below them.
    pub(super) fn top(&self) -> (u128, i64, bool) {
        let shift = self.bits().saturating_sub(128);
        let (limbs, bits) = (shift as usize / 64, shift % 64);
        let limb = |index: usize| u128::from(self.0.get(limbs + index).copied().unwrap_or(0));
        let low = limb(0) >> bits;
        let rest = (limb(1) | limb(2) << 64) << (64 - bits);
        let more = limb(0) & ((1 << bits) - 1) != 0 || self.0.iter().take(limbs).any(|limb| *limb != 0);
        (low | rest, shift as i64, more)
    }

    /// Its digits.
    pub(super) fn into_decimal(mut self) -> String {
        let mut chunks = Vec::new();
        while !self.0.is_empty() {
            chunks.push(self.divide(LIMB_TEN));
        }
        let mut out = chunks.pop().unwrap_or(0).to_string();
        for chunk in chunks.iter().rev() {
            out.push_str(&format!("{chunk:0width$}", width = LIMB_DIGITS as usize));
        }
        out
    }

    fn multiply_add(&mut self, factor: u64, addend: u64) {
        let mut carry = u128::from(addend);
        for limb in &mut self.0 {
            carry += u128::from(*limb) * u128::from(factor);
            *limb = carry as u64;
            carry >>= 64;
        }
        if carry > 0 {
            self.0.push(carry as u64);
        }
    }

    /// Divides, and returns the remainder.
    fn divide(&mut self, divisor: u64) -> u64 {
        let mut left = 0u128;
        for limb in self.0.iter_mut().rev() {
            let value = left << 64 | u128::from(*limb);
            *limb = (value / u128::from(divisor)) as u64;
            left = value % u128::from(divisor);
        }
        self.trim();
        left as u64
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_round_trip() {
        let digits: Vec<u8> = (1..=60).map(|n| n % 10).collect();
        let text: String = digits.iter().map(|digit| char::from(b'0' + digit)).collect();
        assert_eq!(Big::from_decimal(&digits).into_decimal(), text);
        assert_eq!((Big::from(0).bits(), Big::from(0).into_decimal()), (0, "0".to_owned()));
    }

    #[test]
    fn powers_of_ten_cancel_out() {
        let mut big = Big::from(7);
        big.multiply_by_power_of_ten(100);
        assert!(!big.divide_by_power_of_ten(99));
        assert_eq!(big.0, [70]);
        assert!(big.divide_by_power_of_ten(3));
        assert_eq!(big.bits(), 0);
    }

    #[test]
    fn the_highest_bits_are_returned() {
        for shift in [0, 1, 63, 64, 65, 127, 128, 300] {
            let mut big = Big::from(5);
            big.shift_left(shift);
            let (top, by, more) = big.top();
            assert_eq!(
                (top.trailing_zeros() + by as u32, top >> top.trailing_zeros(), more),
                (shift, 5, false)
            );
            big.multiply_add(1, 1);
            assert_eq!(big.top().2, shift > 125);
        }
    }
}
