//! The state of a step under a key: native once a step has used it, text when it is loaded from a journal or an
//! archive. It touches nothing.
//!
//! Invariant: two cells are equal when their texts are; whether a step has used one is not visible.

use std::borrow::Cow;
use std::fmt;

use keystead_core::{AnyState, Result};

use super::heap::alloc_bytes;

/// The state of a step.
#[derive(Clone)]
pub enum StateCell {
    /// As its step knows it.
    Native(AnyState),
    /// As JSON text, not yet decoded by a step.
    Text(Box<str>),
}

impl StateCell {
    /// The JSON text.
    ///
    /// # Errors
    /// `internal` when a native state has no JSON form, `too_large` when the text exceeds the bound.
    pub fn text(&self) -> Result<Cow<'_, str>> {
        match self {
            StateCell::Native(state) => state.encode().map(Cow::Owned),
            StateCell::Text(text) => Ok(Cow::Borrowed(text)),
        }
    }

    /// Heap bytes held. The states of the rate limits hold none; those of another native state are known only to
    /// its step, and not counted.
    #[must_use]
    pub fn mem_bytes(&self) -> usize {
        match self {
            StateCell::Native(_) => 0,
            StateCell::Text(text) => alloc_bytes(text.len()),
        }
    }
}

impl PartialEq for StateCell {
    fn eq(&self, other: &Self) -> bool {
        // A state without a text form is equal to nothing, itself included.
        matches!((self.text(), other.text()), (Ok(a), Ok(b)) if a == b)
    }
}

impl fmt::Debug for StateCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = if matches!(self, StateCell::Native(_)) { "Native" } else { "Text" };
        match self.text() {
            Ok(text) => f.debug_tuple(form).field(&text).finish(),
            Err(error) => f.debug_tuple(form).field(&error).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_equal_by_text() {
        let native = StateCell::Native(AnyState::new(vec![1u64, 2]));
        let text = StateCell::Text("[1,2]".into());
        assert_eq!(native, text);
        assert_eq!(native.clone(), native);
        assert_ne!(native, StateCell::Text("[1, 2]".into()));
        assert_eq!(format!("{text:?}"), r#"Text("[1,2]")"#);
        assert_eq!((native.mem_bytes(), text.mem_bytes()), (0, 8));
    }
}
