//! The two forms of a collection, and the methods that all collections have. It touches nothing.

use super::packed::Packed;

/// A collection: one packed buffer while it is small, else `L`.
#[derive(Clone)]
pub(super) enum Form<L> {
    Packed(Packed),
    Large(Box<L>),
}

impl<L> Default for Form<L> {
    fn default() -> Self {
        Form::Packed(Packed::default())
    }
}

/// Implements `new`, `len`, `is_empty` and `is_packed` for a collection whose large form has `$len` elements.
macro_rules! collection {
    ($type:ident, $elements:literal, $large:ident => $len:expr) => {
        impl $type {
            /// An empty collection.
            #[must_use]
            pub fn new() -> Self {
                $type::default()
            }

            #[doc = concat!("Number of ", $elements, ".")]
            #[must_use]
            pub fn len(&self) -> usize {
                match &self.0 {
                    Form::Packed(packed) => packed.len(),
                    Form::Large($large) => $len,
                }
            }

            #[doc = concat!("Whether there are no ", $elements, ".")]
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Whether it is one packed buffer.
            #[must_use]
            pub fn is_packed(&self) -> bool {
                matches!(self.0, Form::Packed(_))
            }
        }
    };
}

pub(super) use collection;
