//! Decisions from the bytes of an input: one byte or two each, so that a mutation changes one decision. At the end of the bytes every decision is 0.

/// An input that is read from its start.
pub struct Source<'a> {
    rest: &'a [u8],
}

impl<'a> Source<'a> {
    /// Reads this input.
    pub fn new(bytes: &'a [u8]) -> Self {
        Source { rest: bytes }
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    /// A number below `bound`, which is at most 65,536.
    pub fn below(&mut self, bound: usize) -> usize {
        let number = match bound {
            0..=1 => return 0,
            2..=256 => usize::from(self.byte()),
            _ => usize::from(self.byte()) << 8 | usize::from(self.byte()),
        };
        number % bound
    }

    /// Eight bytes as a number; a small one if the first byte selects it.
    pub fn number(&mut self) -> u64 {
        match self.byte() {
            255 => u64::from_le_bytes(std::array::from_fn(|_| self.byte())),
            254 => u64::MAX - u64::from(self.byte()),
            253 => i64::MAX as u64 + u64::from(self.byte()) - 128,
            small => u64::from(small),
        }
    }

    /// One of these.
    pub fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// This many bytes, or what is left.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (bytes, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        bytes
    }

    /// Bytes prefixed with their length, which is one byte.
    pub fn short(&mut self) -> &'a [u8] {
        let len = usize::from(self.byte());
        self.bytes(len)
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }
}
