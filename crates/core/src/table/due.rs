//! When an entry expires, and whether it was used, in one word. Touches nothing.

use crate::clock::Millis;

/// When an entry expires, and in the highest bit the second chance of CLOCK: set on use, cleared when the hand passes. Together,
/// since a byte of its own would be eight.
#[derive(Clone, Copy)]
pub(super) struct Due(u64);

impl Due {
    const USED: u64 = 1 << 63;
    /// No entry expires at 0: it would be expired when it is put.
    const NEVER: u64 = 0;
    const LATEST: u64 = Due::USED - 1;

    /// Not used yet.
    #[inline]
    pub(super) fn at(at: Millis) -> Due {
        // A time that this cannot hold is millions of years away.
        Due(if at == Millis::NEVER { Due::NEVER } else { at.0.clamp(1, Due::LATEST) })
    }

    #[inline]
    pub(super) fn expires_at(self) -> Millis {
        match self.0 & !Due::USED {
            Due::NEVER => Millis::NEVER,
            at => Millis(at),
        }
    }

    #[inline]
    pub(super) fn set_expires_at(&mut self, at: Millis) {
        self.0 = self.0 & Due::USED | Due::at(at).0;
    }

    #[inline]
    pub(super) fn set_used(&mut self) {
        self.0 |= Due::USED;
    }

    /// Clears the second chance, and returns whether it was there.
    pub(super) fn take_used(&mut self) -> bool {
        let used = self.0 & Due::USED != 0;
        self.0 &= !Due::USED;
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expiry_and_a_use_share_a_word() {
        for at in [1, 2, 1 << 40, i64::MAX as u64, u64::MAX].map(Millis) {
            let mut due = Due::at(at);
            assert_eq!((due.expires_at(), due.take_used()), (at, false));
            due.set_used();
            due.set_expires_at(Millis(7));
            assert_eq!(due.expires_at(), Millis(7));
            due.set_expires_at(at);
            assert_eq!((due.expires_at(), due.take_used(), due.take_used()), (at, true, false));
            assert_eq!(due.expires_at(), at);
        }
        assert!(Due::at(Millis(u64::MAX - 1)).expires_at() < Millis::NEVER, "far away is not never");
    }
}
