//! Log lines that clients without the token can cause, at a bounded rate. Touches nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use keystead_core::Millis;

use crate::bounds::NOTICE_EVERY;

/// Lets one line through every [`NOTICE_EVERY`] and counts the others.
#[derive(Default)]
pub struct Notice {
    /// When the next line may be written, in ms.
    next_ms: AtomicU64,
    suppressed: AtomicU64,
}

impl Notice {
    /// If a line may be written now: how many were suppressed since the last one.
    pub fn pass(&self, now: Millis) -> Option<u64> {
        let next_ms = self.next_ms.load(Ordering::Relaxed);
        let wait_ms = u64::try_from(NOTICE_EVERY.as_millis()).unwrap_or(u64::MAX);
        // A clock that was set back must not suppress lines for longer than that.
        let is_due = now.0 >= next_ms || next_ms - now.0 > wait_ms;
        let after = now.plus_ms(wait_ms).0;
        if is_due
            && self.next_ms.compare_exchange(next_ms, after, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            return Some(self.suppressed.swap(0, Ordering::Relaxed));
        }
        self.suppressed.fetch_add(1, Ordering::Relaxed);
        None
    }
}

/// The kinds of such log lines.
#[derive(Default)]
pub struct Notices {
    /// Wrong tokens.
    pub wrong_token: Notice,
    /// Another protocol on the Redis port.
    pub foreign: Notice,
    /// A `Host` header that names another machine.
    pub foreign_host: Notice,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_passes_per_interval_and_the_others_are_counted() {
        let notice = Notice::default();
        let wait_ms = NOTICE_EVERY.as_millis() as u64;
        let start = Millis(1_000_000);
        assert_eq!(notice.pass(start), Some(0));
        assert_eq!(notice.pass(start), None);
        assert_eq!(notice.pass(start.plus_ms(wait_ms - 1)), None);
        assert_eq!(notice.pass(start.plus_ms(wait_ms)), Some(2));
        assert_eq!(notice.pass(Millis(5)), Some(0), "the clock was set back");
    }
}
