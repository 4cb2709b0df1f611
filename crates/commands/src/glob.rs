//! Patterns of names (`h?llo`, `h*llo`, `h[ae]llo`, `h[^e]llo`, `\*`), as Redis matches them. It touches nothing.
//!
//! It backtracks to the last star only, so a pattern of many stars takes time in proportion to pattern times text.

/// Whether `text` matches `pattern`.
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    // In Redis no star matches an empty text. KEYS and the scans do not come here for a pattern of one star.
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p + 1, t));
            p += 1;
            continue;
        }
        if t == text.len() {
            return p == pattern.len();
        }
        match one(pattern, p, text[t]) {
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

/// Matches one byte against the element of the pattern at `p`, and tells where the next element begins.
fn one(pattern: &[u8], p: usize, byte: u8) -> Option<usize> {
    match *pattern.get(p)? {
        b'?' => Some(p + 1),
        b'[' => class(pattern, p + 1, byte),
        b'\\' if p + 1 < pattern.len() => (pattern[p + 1] == byte).then_some(p + 2),
        literal => (literal == byte).then_some(p + 1),
    }
}

/// Matches one byte against the class whose content begins at `p`. A class without an end reaches to the pattern's end.
fn class(pattern: &[u8], mut p: usize, byte: u8) -> Option<usize> {
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
    fn many_stars_take_no_exponential_time() {
        let pattern = "a*".repeat(200) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(5000).as_bytes()));
    }
}
