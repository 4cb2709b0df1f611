//! Glob patterns (`h?llo`, `h*llo`, `h[ae]llo`, `h[^e]llo`, `\*`), as Redis matches them. It touches nothing.
//!
//! It backtracks to the last star only, so a pattern of many stars takes time proportional to pattern times text. Work that is not
//! proportional to the text alone counts as steps of the command (`meter.rs`), which are bounded.

use crate::bounds::PATTERN_STEPS_PER_BYTE;
use crate::meter;

/// Steps before counting begins, so that ordinary patterns cost nothing to count.
const STEPS_AT_ONCE: usize = 1024;

/// Whether `text` matches `pattern`. False if the command has used up its steps; it then fails.
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    if meter::is_exceeded() {
        return false;
    }
    let mut free = text.len().saturating_add(1).saturating_mul(PATTERN_STEPS_PER_BYTE);
    // In Redis no star matches an empty text. KEYS and the scans handle a pattern of one star themselves.
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        if free == 0 {
            if !meter::steps(STEPS_AT_ONCE) {
                return false;
            }
            free = STEPS_AT_ONCE;
        }
        free -= 1;
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p + 1, t));
            p += 1;
            continue;
        }
        if t == text.len() {
            return p == pattern.len();
        }
        match one(pattern, p, text[t], &mut free) {
            Some(after) => {
                p = after;
                t += 1;
            }
            None => match &mut star {
                Some((after_star, at)) => {
                    *at += 1;
                    (p, t) = (*after_star, *at);
                }
                None => return false,
            },
        }
    }
}

/// Matches one byte against the element of the pattern at `p`, and returns where the next element begins.
fn one(pattern: &[u8], p: usize, byte: u8, free: &mut usize) -> Option<usize> {
    match *pattern.get(p)? {
        b'?' => Some(p + 1),
        b'[' => class(pattern, p + 1, byte, free),
        b'\\' if p + 1 < pattern.len() => (pattern[p + 1] == byte).then_some(p + 2),
        literal => (literal == byte).then_some(p + 1),
    }
}

/// Matches one byte against the class whose content begins at `p`. A class without an end extends to the end of the pattern.
fn class(pattern: &[u8], mut p: usize, byte: u8, free: &mut usize) -> Option<usize> {
    let begin = p;
    let negated = pattern.get(p) == Some(&b'^');
    p += usize::from(negated);
    let mut found = false;
    loop {
        match pattern.get(p) {
            None => break,
            Some(b']') => {
                p += 1;
                break;
            }
            Some(b'\\') if p + 1 < pattern.len() => {
                found |= pattern[p + 1] == byte;
                p += 2;
            }
            Some(&low) => {
                if pattern.get(p + 1) == Some(&b'-') && p + 2 < pattern.len() {
                    let high = pattern[p + 2];
                    found |= (low.min(high)..=low.max(high)).contains(&byte);
                    p += 3;
                } else {
                    found |= low == byte;
                    p += 1;
                }
            }
        }
    }
    let (long, left) = (p - begin, *free);
    *free = left.saturating_sub(long);
    if long > left && !meter::steps(long - left) {
        return None;
    }
    (found != negated).then_some(p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("*", "", false),
            ("*", "anything", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a[", "a", false),
            ("[abc", "c", true),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxbxx", false),
            ("", "", true),
            ("", "a", false),
            ("a**", "a", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_that_takes_too_long_fails_the_command_and_an_ordinary_one_never_does() {
        let run = |pattern: &[u8], text: &[u8], times: usize| {
            let matched = || (0..times).filter(|_| matches(pattern, text)).count();
            crate::meter::run(Default::default(), 0, || Ok(crate::Reply::count(matched())))
        };
        let (text, class) = (vec![b'a'; 1 << 18], [&b"["[..], &vec![b'b'; 1 << 20]].concat());
        let slow = [&b"*"[..], &vec![b'a'; 1 << 17], b"b"].concat();
        assert!(run(&slow, &text, 1).is_err() && run(&class, b"a", 1000).is_err());
        assert_eq!(run(b"*a*b*c*d*e*f*", &text, 40).unwrap(), crate::Reply::Int(0));
        assert_eq!(run(&text, &text, 40).unwrap(), crate::Reply::Int(40));
        assert!(!matches(&slow, &text[..2000]), "outside of commands there is no bound");
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let pattern = "a*".repeat(200) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(5000).as_bytes()));
    }
}
