//! A HyperLogLog as the string of a key. It touches nothing.
//!
//! Invariant: bytes are copied when they are first changed, and not before.

use std::borrow::Cow;

use keystead_model::Bytes;
use keystead_model::value::Str;

use super::estimate::{self, Histogram};
use super::sparse::{self, Raised};
use super::{REGISTERS, dense, hash};
use crate::errors::Fail;

const NOT_A_SKETCH: Fail =
    Fail::Text(Cow::Borrowed("WRONGTYPE Key is not a valid HyperLogLog string value."));
const CORRUPT: Fail = Fail::Text(Cow::Borrowed("INVALIDOBJ Corrupted HLL object detected"));

const MAGIC: &[u8; 4] = b"HYLL";
const HEADER_BYTES: usize = 16;
/// The offset of the encoding in the header.
const ENCODING_AT: usize = 4;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
/// The offset of the cardinality in the header.
const CARDINALITY_AT: usize = 8;
/// The offset of the byte whose highest bit marks it as stale.
const STALE_AT: usize = 15;
const STALE: u8 = 0x80;

/// A sparse sketch that would be longer becomes dense (the default of Redis's hll-sparse-max-bytes).
const SPARSE_BYTES_MAX: usize = 3000;

/// Registers, one per byte.
pub(super) type Registers = [u8; REGISTERS];

/// A sketch with a valid header. Sparse registers may still be corrupt.
pub(super) struct Sketch<'a> {
    header: Cow<'a, [u8]>,
    body: Cow<'a, [u8]>,
}

impl<'a> Sketch<'a> {
    /// An empty sketch.
    pub(super) fn new() -> Self {
        let mut header = vec![0; HEADER_BYTES];
        header[..MAGIC.len()].copy_from_slice(MAGIC);
        header[ENCODING_AT] = SPARSE;
        Sketch { header: Cow::Owned(header), body: Cow::Owned(sparse::empty()) }
    }

    /// The sketch in a string.
    pub(super) fn of(bytes: &'a [u8]) -> Result<Self, Fail> {
        let (header, body) = bytes.split_at_checked(HEADER_BYTES).ok_or(NOT_A_SKETCH)?;
        let right = match header[ENCODING_AT] {
            DENSE => body.len() == dense::BYTES,
            SPARSE => true,
            _ => false,
        };
        if !right || !header.starts_with(MAGIC) {
            return Err(NOT_A_SKETCH);
        }
        Ok(Sketch { header: Cow::Borrowed(header), body: Cow::Borrowed(body) })
    }

    /// The sketch in a string, an empty one if there is none.
    pub(super) fn of_value(value: Option<&'a Str>) -> Result<Self, Fail> {
        value.map_or_else(|| Ok(Sketch::new()), |value| Sketch::of(value))
    }

    /// The string.
    pub(super) fn to_bytes(&self) -> Bytes {
        Bytes::concat_slices(&[&self.header, &self.body])
    }

    pub(super) fn is_dense(&self) -> bool {
        self.header[ENCODING_AT] == DENSE
    }

    /// Adds an element and returns whether a register rose.
    pub(super) fn add(&mut self, element: &[u8]) -> Result<bool, Fail> {
        let (index, value) = hash::place(element);
        self.raise(index, value)
    }

    /// Raises a register if it is lower, and returns whether it was.
    pub(super) fn raise(&mut self, index: usize, value: u8) -> Result<bool, Fail> {
        if !self.is_dense() {
            match sparse::raise(&mut self.body, index, value, SPARSE_BYTES_MAX - HEADER_BYTES) {
                Raised::No => return Ok(false),
                Raised::Yes => return Ok(true),
                Raised::TooMuch => self.make_dense()?,
                Raised::Corrupt => return Err(CORRUPT),
            }
        }
        if dense::get(&self.body, index) >= value {
            return Ok(false);
        }
        dense::set(self.body.to_mut(), index, value);
        Ok(true)
    }

    /// Converts it to dense, if it is sparse.
    pub(super) fn make_dense(&mut self) -> Result<(), Fail> {
        if self.is_dense() {
            return Ok(());
        }
        let mut body = vec![0; dense::BYTES];
        sparse::each(&self.body, |first, value, len| {
            for index in first..first + len {
                dense::set(&mut body, index, value);
            }
        })
        .ok_or(CORRUPT)?;
        self.body = Cow::Owned(body);
        self.header.to_mut()[ENCODING_AT] = DENSE;
        Ok(())
    }

    /// Raises each of `registers` that is lower than its own.
    pub(super) fn merge_into(&self, registers: &mut Registers) -> Result<(), Fail> {
        if self.is_dense() {
            dense::each(&self.body, |index, value| registers[index] = registers[index].max(value));
            return Ok(());
        }
        sparse::each(&self.body, |first, value, len| {
            for register in &mut registers[first..first + len] {
                *register = value.max(*register);
            }
        })
        .ok_or(CORRUPT)
    }

    /// The cached cardinality, if it is not stale.
    pub(super) fn cached(&self) -> Option<u64> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.header[CARDINALITY_AT..]);
        (self.header[STALE_AT] & STALE == 0).then_some(u64::from_le_bytes(bytes))
    }

    /// Caches the cardinality.
    pub(super) fn cache(&mut self, cardinality: u64) {
        self.header.to_mut()[CARDINALITY_AT..].copy_from_slice(&cardinality.to_le_bytes());
    }

    /// Marks the cached cardinality as stale.
    pub(super) fn make_stale(&mut self) {
        self.header.to_mut()[STALE_AT] |= STALE;
    }

    /// Estimates the cardinality.
    pub(super) fn cardinality(&self) -> Result<u64, Fail> {
        let mut histogram: Histogram = [0; 64];
        if self.is_dense() {
            dense::each(&self.body, |_, value| histogram[usize::from(value)] += 1);
        } else {
            let mut zeros = REGISTERS as u32;
            sparse::each(&self.body, |_, value, len| {
                histogram[usize::from(value)] += len as u32;
                zeros -= len as u32;
            })
            .ok_or(CORRUPT)?;
            histogram[0] = zeros;
        }
        Ok(estimate::cardinality(&histogram))
    }
}

/// The cardinality estimated from registers.
pub(super) fn cardinality_of(registers: &Registers) -> u64 {
    let mut histogram: Histogram = [0; 64];
    for value in registers {
        histogram[usize::from(*value)] += 1;
    }
    estimate::cardinality(&histogram)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_and_dense_say_the_same() {
        let (mut sparse, mut dense) = (Sketch::new(), Sketch::new());
        dense.make_dense().unwrap();
        for n in 0..20_000u32 {
            let element = n.to_string();
            assert_eq!(sparse.add(element.as_bytes()).unwrap(), dense.add(element.as_bytes()).unwrap());
            if n % 1000 == 0 {
                let (mut a, mut b) = ([0; REGISTERS], [0; REGISTERS]);
                sparse.merge_into(&mut a).unwrap();
                dense.merge_into(&mut b).unwrap();
                assert_eq!(a, b);
                let counts =
                    [sparse.cardinality().unwrap(), dense.cardinality().unwrap(), cardinality_of(&a)];
                assert_eq!(counts, [counts[0]; 3]);
                assert!(counts[0].abs_diff(u64::from(n) + 1) <= u64::from(n) / 20, "{n}: {counts:?}");
            }
        }
        assert!(sparse.is_dense(), "so many do not fit");
    }

    #[test]
    fn a_value_that_is_not_a_sketch_is_an_error() {
        let sketch = Sketch::new().to_bytes();
        assert!(Sketch::of(&sketch).is_ok());
        assert!(Sketch::of(&sketch[..16]).is_ok(), "it is corrupt, but its header is right");
        for (at, byte) in [(0, b'h'), (4, 2), (4, 0)] {
            let mut bytes = sketch.to_vec();
            bytes[at] = byte;
            assert!(Sketch::of(&bytes).is_err(), "{at} {byte}");
        }
        assert!(Sketch::of(b"HYLL").is_err());
    }
}
