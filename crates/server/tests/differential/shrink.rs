//! Makes a script that shows a difference smaller, as far as it goes in bounded time.

use std::time::Duration;

use keystead_core::Stopwatch;

use crate::script::Script;

/// The most time that is spent on it.
const TIME_MAX: Duration = Duration::from_secs(40);

/// The most runs that are spent on it.
const RUNS_MAX: usize = 600;

/// The smallest script found that still differs.
pub(crate) fn shrink(script: Script, mut differs: impl FnMut(&Script) -> bool) -> Script {
    let (watch, mut runs, mut best) = (Stopwatch::start(), 0, script);
    let mut len = best.groups.len().div_ceil(2);
    while len > 0 {
        let (mut first, mut found) = (0, false);
        while first < best.groups.len() {
            if runs >= RUNS_MAX || watch.elapsed() > TIME_MAX {
                return best;
            }
            let mut smaller = best.clone();
            smaller.groups.drain(first..(first + len).min(best.groups.len()));
            runs += 1;
            if differs(&smaller) {
                (best, found) = (smaller, true);
            } else {
                first += len;
            }
        }
        // A part that could not go before may be able to go now.
        len = if len == 1 && found { 1 } else { len / 2 };
    }
    best
}
