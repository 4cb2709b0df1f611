//! The headers of a response: what remains, when the limit resets, and how long to wait.

use keystead_core::Millis;

use crate::decision::Decision;
use crate::policy::Policy;

/// Which headers a response has. They can be combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderStyles {
    /// `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset` (seconds from now).
    pub plain: bool,
    /// The structured `RateLimit` and `RateLimit-Policy`.
    pub structured: bool,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining`, `X-RateLimit-Reset` (seconds since the epoch).
    pub legacy: bool,
}

impl HeaderStyles {
    /// None of them. A denial still has `Retry-After`.
    pub const NONE: HeaderStyles = HeaderStyles { plain: false, structured: false, legacy: false };
    /// All of them.
    pub const ALL: HeaderStyles = HeaderStyles { plain: true, structured: true, legacy: true };
}

impl Default for HeaderStyles {
    /// The plain ones.
    fn default() -> Self {
        HeaderStyles { plain: true, ..HeaderStyles::NONE }
    }
}

/// Writes the headers of one policy.
///
/// ```
/// use keystead_core::Millis;
/// use keystead_limit::strategy::FixedWindow;
/// use keystead_limit::{HeaderStyles, Headers, Policy, Replay};
///
/// let policy = Policy::from(FixedWindow::new(1, 60_000)?).named("login")?;
/// let headers = Headers::new(&policy, HeaderStyles { structured: true, ..HeaderStyles::NONE });
/// let mut replay = Replay::new(policy)?;
/// replay.check(0, "ada", 1)?;
/// let denied = replay.check(30_500, "ada", 1)?;
/// assert_eq!(
///     headers.of(&denied, Millis(30_500)),
///     [
///         ("RateLimit-Policy", "\"login\";q=1;w=60".to_string()),
///         ("RateLimit", "\"login\";r=0;t=30".to_string()),
///         ("Retry-After", "30".to_string()),
///     ]
/// );
/// # Ok::<(), keystead_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Headers {
    styles: HeaderStyles,
    name: String,
    window_s: u64,
}

impl Headers {
    /// The headers of this policy. Its name is sanitized for a header first.
    #[must_use]
    pub fn new(policy: &Policy, styles: HeaderStyles) -> Self {
        let window_s = ((policy.window_ms() / 1000.0).ceil() as u64).max(1);
        Headers { styles, name: header_name(policy.name().unwrap_or("default")), window_s }
    }

    /// The headers for a decision made at `now`. A denial always has `Retry-After`, at least 1 second.
    #[must_use]
    pub fn of(&self, decision: &Decision, now: Millis) -> Vec<(&'static str, String)> {
        let Decision { limit, remaining, reset_at, .. } = *decision;
        let reset_s = reset_at.saturating_sub(now.0).div_ceil(1000);
        let mut headers = Vec::with_capacity(9);
        if self.styles.plain {
            headers.push(("RateLimit-Limit", limit.to_string()));
            headers.push(("RateLimit-Remaining", remaining.to_string()));
            headers.push(("RateLimit-Reset", reset_s.to_string()));
        }
        if self.styles.structured {
            let (name, window_s) = (&self.name, self.window_s);
            headers.push(("RateLimit-Policy", format!("\"{name}\";q={limit};w={window_s}")));
            headers.push(("RateLimit", format!("\"{name}\";r={remaining};t={reset_s}")));
        }
        if self.styles.legacy {
            headers.push(("X-RateLimit-Limit", limit.to_string()));
            headers.push(("X-RateLimit-Remaining", remaining.to_string()));
            headers.push(("X-RateLimit-Reset", reset_at.div_ceil(1000).to_string()));
        }
        if !decision.allowed {
            headers.push(("Retry-After", retry_after_s(decision).to_string()));
        }
        headers
    }
}

/// The seconds of `Retry-After`: rounded up, at least 1.
#[must_use]
pub fn retry_after_s(decision: &Decision) -> u64 {
    decision.retry_after_ms.div_ceil(1000).max(1)
}

/// A name that is valid between quotes in a header: letters, digits and `-_.:` are kept, anything else becomes `_`.
#[must_use]
pub fn header_name(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.:".contains(c) { c } else { '_' };
    name.chars().map(safe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::Gcra;

    fn headers(styles: HeaderStyles) -> Headers {
        let policy = Policy::from(Gcra::new(100, 60_000, None).unwrap());
        Headers::new(&policy.named("a \"b\"\r\nSet-Cookie: é").unwrap(), styles)
    }

    #[test]
    fn every_style_says_the_same_in_its_own_units() {
        let decision = Decision::deny(100, 0, 1_700_000_010_001, 1);
        let reported = headers(HeaderStyles::ALL).of(&decision, Millis(1_700_000_000_000));
        let reported: Vec<_> = reported.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(
            reported,
            [
                ("RateLimit-Limit", "100"),
                ("RateLimit-Remaining", "0"),
                ("RateLimit-Reset", "11"),
                ("RateLimit-Policy", "\"a__b___Set-Cookie:__\";q=100;w=60"),
                ("RateLimit", "\"a__b___Set-Cookie:__\";r=0;t=11"),
                ("X-RateLimit-Limit", "100"),
                ("X-RateLimit-Remaining", "0"),
                ("X-RateLimit-Reset", "1700000011"),
                ("Retry-After", "1"),
            ]
        );
    }

    #[test]
    fn only_a_denial_says_retry_after_and_always() {
        let allowed = Decision::allow(100, 99, 1_000);
        assert_eq!(headers(HeaderStyles::NONE).of(&allowed, Millis(5000)), []);
        let denied = Decision::deny(100, 0, 1_000, 1500);
        assert_eq!(headers(HeaderStyles::NONE).of(&denied, Millis(0)), [("Retry-After", "2".to_string())]);
    }

    #[test]
    fn a_reset_that_is_over_is_zero_seconds_away() {
        let reported = headers(HeaderStyles::default()).of(&Decision::allow(1, 1, 1000), Millis(5000));
        assert_eq!(reported[2], ("RateLimit-Reset", "0".to_string()));
    }
}
