//! Strings as a key or a reply holds them. It touches nothing.
//!
//! | Length               | Form                                                                                   |
//! |----------------------|----------------------------------------------------------------------------------------|
//! | up to 23 bytes       | inline                                                                                 |
//! | up to [`BOXED_MAX`]  | one allocation of its own, which is copied for a reply or an effect                     |
//! | more                 | shared with replies, effects and before-images, at the price of a reference count and a second allocation |
//!
//! Most strings are short, and what a reference count needs would be a third of their memory.

use std::fmt;
use std::ops::Deref;

use super::heap;
use crate::bytes::Bytes;

/// Longest string in bytes that has an allocation of its own. Copying that many costs about as much as the two allocations of a shared one.
pub const BOXED_MAX: usize = 512;

/// A string.
#[derive(Clone)]
pub struct Str(Form);

#[derive(Clone)]
enum Form {
    /// Inline, or shared.
    Bytes(Bytes),
    Boxed(Box<[u8]>),
}

impl Str {
    /// These bytes, shared as they are. For what is not stored.
    #[must_use]
    #[inline]
    pub fn sharing(bytes: Bytes) -> Self {
        Str(Form::Bytes(bytes))
    }

    /// The bytes: shared, or copied if they are short.
    #[must_use]
    #[inline]
    pub fn to_bytes(&self) -> Bytes {
        match &self.0 {
            Form::Bytes(bytes) => bytes.clone(),
            Form::Boxed(bytes) => Bytes::from(&**bytes),
        }
    }

    /// Whether [`to_bytes`](Str::to_bytes) shares the bytes, so that it takes no memory.
    #[must_use]
    #[inline]
    pub fn is_shared(&self) -> bool {
        matches!(&self.0, Form::Bytes(bytes) if bytes.is_allocated())
    }

    /// Heap bytes held.
    #[must_use]
    pub(crate) fn mem_bytes(&self) -> usize {
        match &self.0 {
            Form::Bytes(bytes) => heap::shared_bytes(bytes),
            Form::Boxed(bytes) => heap::alloc_bytes(bytes.len()),
        }
    }
}

/// Whether that many bytes have an allocation of their own.
const fn is_boxed(len: usize) -> bool {
    len > Bytes::inline_capacity() && len <= BOXED_MAX
}

impl From<&[u8]> for Str {
    #[inline]
    fn from(bytes: &[u8]) -> Self {
        Str(if is_boxed(bytes.len()) { Form::Boxed(bytes.into()) } else { Form::Bytes(bytes.into()) })
    }
}

impl From<&Bytes> for Str {
    #[inline]
    fn from(bytes: &Bytes) -> Self {
        if is_boxed(bytes.len()) { bytes.as_slice().into() } else { Str::sharing(bytes.clone()) }
    }
}

impl From<Bytes> for Str {
    #[inline]
    fn from(bytes: Bytes) -> Self {
        if is_boxed(bytes.len()) { bytes.as_slice().into() } else { Str::sharing(bytes) }
    }
}

impl Deref for Str {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Form::Bytes(bytes) => bytes,
            Form::Boxed(bytes) => bytes,
        }
    }
}

impl PartialEq for Str {
    fn eq(&self, other: &Str) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_bytes().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_stored_as_it_is_in_the_smallest_form() {
        for (len, heap_bytes) in
            [(0, 0), (23, 0), (24, 32), (32, 32), (33, 48), (BOXED_MAX, BOXED_MAX), (BOXED_MAX + 1, 32 + 640)]
        {
            let bytes = Bytes::from(&vec![b'x'; len][..]);
            for str in
                [Str::from(&bytes), Str::from(bytes.clone()), Str::from(&*bytes), Str::from(&bytes).clone()]
            {
                assert_eq!(
                    (&*str, str.to_bytes(), str.mem_bytes()),
                    (&*bytes, bytes.clone(), heap_bytes),
                    "{len}"
                );
            }
        }
    }

    #[test]
    fn a_long_string_is_shared() {
        let bytes = Bytes::from(&[b'x'; BOXED_MAX + 1][..]);
        let long = Str::from(bytes.clone());
        assert!(long.is_shared() && !Str::from(bytes.slice(..BOXED_MAX)).is_shared());
        assert_eq!(long.to_bytes().as_ptr(), bytes.as_ptr());
    }
}
