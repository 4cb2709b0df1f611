//! Log lines that a stranger can cause, at a bounded rate. It touches nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use keystead_core::Millis;

use crate::bounds::NOTICE_EVERY;

/// Lets one line through in a while and counts the others.
#[derive(Default)]
pub struct Notice {
    /// When the next line may be written, in ms.
    next_ms: AtomicU64,
    held_back: AtomicU64,
}

impl Notice {
    /// Whether a line may be written now: how many were held back since the last one.
    pub fn pass(&self, now: Millis) -> Option<u64> {
        let next_ms = self.next_ms.load(Ordering::Relaxed);
        let wait_ms = u64::try_from(NOTICE_EVERY.as_millis()).unwrap_or(u64::MAX);
        // A clock that jumped back must not silence it for longer than that.
        let is_due = now.0 >= next_ms || next_ms - now.0 > wait_ms;
        let after = now.plus_ms(wait_ms).0;
        if is_due
            && self.next_ms.compare_exchange(next_ms, after, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            return Some(self.held_back.swap(0, Ordering::Relaxed));
        }
        self.held_back.fetch_add(1, Ordering::Relaxed);
        None
    }
}

/// What strangers do that an operator should see.
#[derive(Default)]
pub struct Notices {
    /// They bring wrong tokens.
    pub wrong_token: Notice,
    /// They speak another protocol on the Redis port.
    pub foreign: Notice,
    /// They ask for another host than this machine.
    pub foreign_host: Notice,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_passes_in_a_while_and_the_others_are_counted() {
        let notice = Notice::default();
        let wait_ms = NOTICE_EVERY.as_millis() as u64;
        let start = Millis(1_000_000);
        assert_eq!(notice.pass(start), Some(0));
        assert_eq!(notice.pass(start), None);
        assert_eq!(notice.pass(start.plus_ms(wait_ms - 1)), None);
        assert_eq!(notice.pass(start.plus_ms(wait_ms)), Some(2));
        assert_eq!(notice.pass(Millis(5)), Some(0), "the clock jumped back");
    }
}
