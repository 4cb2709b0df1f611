//! Registers of 6 bits, packed from the lowest bit on. It touches nothing.
//!
//! All functions take the bytes after the header; there must be [`BYTES`] of them.

use super::REGISTERS;

const WIDTH: usize = 6;
const MASK: u16 = (1 << WIDTH) - 1;

/// Bytes of all registers.
pub(super) const BYTES: usize = REGISTERS * WIDTH / 8;

/// The value of a register.
pub(super) fn get(bytes: &[u8], index: usize) -> u8 {
    let (byte, shift) = place(index);
    (pair(bytes, byte) >> shift & MASK) as u8
}

pub(super) fn set(bytes: &mut [u8], index: usize, value: u8) {
    let (byte, shift) = place(index);
    let new = pair(bytes, byte) & !(MASK << shift) | (u16::from(value) & MASK) << shift;
    // The last register ends with the last byte, so nothing is cut off there.
    for (byte, new) in bytes.iter_mut().skip(byte).zip(new.to_le_bytes()) {
        *byte = new;
    }
}

/// Visits the value of every register, in order.
pub(super) fn each(bytes: &[u8], mut emit: impl FnMut(usize, u8)) {
    let (groups, _) = bytes.as_chunks::<3>();
    for (group, [a, b, c]) in groups.iter().enumerate() {
        let four = u32::from_le_bytes([*a, *b, *c, 0]);
        for register in 0..4 {
            emit(group * 4 + register, (four >> (register * WIDTH)) as u8 & MASK as u8);
        }
    }
}

fn place(index: usize) -> (usize, usize) {
    (index * WIDTH / 8, index * WIDTH % 8)
}

fn pair(bytes: &[u8], first: usize) -> u16 {
    let byte = |index: usize| bytes.get(index).copied().unwrap_or(0);
    u16::from_le_bytes([byte(first), byte(first + 1)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_do_not_touch_each_other() {
        let mut bytes = vec![0; BYTES];
        let value = |index: usize| (index * 7 % 64) as u8;
        for index in (0..REGISTERS).rev() {
            set(&mut bytes, index, 63);
            set(&mut bytes, index, value(index));
        }
        let mut count = 0;
        each(&bytes, |index, seen| {
            assert_eq!((seen, get(&bytes, index)), (value(index), value(index)), "{index}");
            count += 1;
        });
        assert_eq!(count, REGISTERS);
    }
}
