//! Lua's patterns, matched step by step so that a search that takes too long can be stopped. It touches nothing.
//!
//! Its worst case is the length of the text to the power of the number of repetitions in the pattern, so every step is counted.

use crate::bounds::{CAPTURES_MAX, MATCH_DEPTH_MAX, WORK_BETWEEN_CHECKS};

/// A part of a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Capture {
    /// From this byte, so many bytes.
    Text(usize, usize),
    /// A position capture: `()`.
    SourcePosition(usize),
    /// It is not closed yet.
    Open(usize),
}

/// A match.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) captures: Vec<Capture>,
}

/// Why there is no result.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The pattern is malformed; Lua's message.
    Malformed(&'static str),
    /// The host ended the run.
    Stopped,
}

type Matched = Result<Option<usize>, Trouble>;

struct Matcher<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<Capture>,
    /// Steps until the next check whether the run is over.
    steps: i64,
    depth: usize,
    is_over: &'a mut dyn FnMut() -> bool,
}

/// The first match of a pattern from `init` on. `anchored`: only at `init`.
pub(super) fn search(
    text: &[u8],
    pattern: &[u8],
    init: usize,
    anchored: bool,
    is_over: &mut dyn FnMut() -> bool,
) -> Result<Option<Found>, Trouble> {
    let steps = WORK_BETWEEN_CHECKS;
    let mut matcher = Matcher { text, pattern, captures: Vec::new(), steps, depth: 0, is_over };
    for start in init..=text.len() {
        matcher.captures.clear();
        if let Some(end) = matcher.fits(start, 0)? {
            return Ok(Some(Found { start, end, captures: matcher.captures }));
        }
        if anchored {
            break;
        }
    }
    Ok(None)
}

impl Matcher<'_> {
    fn step(&mut self, count: usize) -> Result<(), Trouble> {
        self.steps -= count as i64;
        if self.steps < 0 {
            self.steps = WORK_BETWEEN_CHECKS;
            if (self.is_over)() {
                return Err(Trouble::Stopped);
            }
        }
        Ok(())
    }

    /// The end of the match of the pattern from `p` on at the text from `s` on.
    fn fits(&mut self, s: usize, p: usize) -> Matched {
        if self.depth >= MATCH_DEPTH_MAX {
            return Err(Trouble::Malformed("pattern too complex"));
        }
        self.depth += 1;
        let matched = self.fits_here(s, p);
        self.depth -= 1;
        matched
    }

    fn fits_here(&mut self, mut s: usize, mut p: usize) -> Matched {
        loop {
            self.step(1)?;
            let Some(&first) = self.pattern.get(p) else { return Ok(Some(s)) };
            let second = self.pattern.get(p + 1).copied();
            match (first, second) {
                (b'(', Some(b')')) => return self.open(Capture::SourcePosition(s), s, p + 2),
                (b'(', _) => return self.open(Capture::Open(s), s, p + 1),
                (b')', _) => return self.close(s, p + 1),
                (b'%', Some(b'b')) => match self.balanced(s, p + 2)? {
                    Some(end) => (s, p) = (end, p + 4),
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => {
                    let Some(next) = self.frontier(s, p + 2)? else { return Ok(None) };
                    p = next;
                }
                (b'%', Some(digit @ b'0'..=b'9')) => match self.same_again(s, digit)? {
                    Some(end) => (s, p) = (end, p + 2),
                    None => return Ok(None),
                },
                (b'$', None) => return Ok((s == self.text.len()).then_some(s)),
                _ => {
                    let end = self.class_end(p)?;
                    self.step((end - p) / 4)?;
                    let one = self.single(s, p, end);
                    match self.pattern.get(end) {
                        Some(b'?') => {
                            if one && let Some(matched) = self.fits(s + 1, end + 1)? {
                                return Ok(Some(matched));
                            }
                            p = end + 1;
                        }
                        Some(b'*') => return self.longest(s, p, end),
                        Some(b'+') => return if one { self.longest(s + 1, p, end) } else { Ok(None) },
                        Some(b'-') => return self.shortest(s, p, end),
                        _ if one => (s, p) = (s + 1, end),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    /// Where a single character class ends that begins at `p`.
    fn class_end(&self, p: usize) -> Result<usize, Trouble> {
        let at = |p: usize| self.pattern.get(p).copied();
        match at(p) {
            Some(b'%') if at(p + 1).is_none() => Err(Trouble::Malformed("malformed pattern (ends with '%')")),
            Some(b'%') => Ok(p + 2),
            Some(b'[') => {
                let mut p = p + 1;
                if at(p) == Some(b'^') {
                    p += 1;
                }
                // A leading bracket is a member of the set.
                loop {
                    let Some(byte) = at(p) else {
                        return Err(Trouble::Malformed("malformed pattern (missing ']')"));
                    };
                    p += 1;
                    if byte == b'%' && at(p).is_some() {
                        p += 1;
                    }
                    if at(p) == Some(b']') {
                        return Ok(p + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    fn single(&self, s: usize, p: usize, end: usize) -> bool {
        let Some(&byte) = self.text.get(s) else { return false };
        match self.pattern[p] {
            b'.' => true,
            b'%' => is_class(byte, self.pattern[p + 1]),
            b'[' => self.in_set(byte, p, end - 1),
            literal => literal == byte,
        }
    }

    /// Whether a byte is in the set between `p` (its bracket) and `last` (the closing one).
    fn in_set(&self, byte: u8, p: usize, last: usize) -> bool {
        let negated = self.pattern.get(p + 1) == Some(&b'^');
        let mut p = p + 1 + usize::from(negated);
        while p < last {
            let this = self.pattern[p];
            if this == b'%' {
                p += 1;
                if is_class(byte, self.pattern[p]) {
                    return !negated;
                }
                p += 1;
            } else if self.pattern.get(p + 1) == Some(&b'-') && p + 2 < last {
                if (this..=self.pattern[p + 2]).contains(&byte) {
                    return !negated;
                }
                p += 3;
            } else {
                if this == byte {
                    return !negated;
                }
                p += 1;
            }
        }
        negated
    }

    fn longest(&mut self, s: usize, p: usize, end: usize) -> Matched {
        let mut count = 0;
        while self.single(s + count, p, end) {
            self.step(1 + (end - p) / 4)?;
            count += 1;
        }
        loop {
            if let Some(matched) = self.fits(s + count, end + 1)? {
                return Ok(Some(matched));
            }
            if count == 0 {
                return Ok(None);
            }
            count -= 1;
        }
    }

    fn shortest(&mut self, mut s: usize, p: usize, end: usize) -> Matched {
        loop {
            if let Some(matched) = self.fits(s, end + 1)? {
                return Ok(Some(matched));
            }
            self.step((end - p) / 4)?;
            if !self.single(s, p, end) {
                return Ok(None);
            }
            s += 1;
        }
    }

    fn open(&mut self, capture: Capture, s: usize, p: usize) -> Matched {
        if self.captures.len() >= CAPTURES_MAX {
            return Err(Trouble::Malformed("too many captures"));
        }
        self.captures.push(capture);
        let level = self.captures.len() - 1;
        let matched = self.fits(s, p)?;
        if matched.is_none() {
            self.captures.truncate(level);
        }
        Ok(matched)
    }

    fn close(&mut self, s: usize, p: usize) -> Matched {
        let open = self.captures.iter().rposition(|capture| matches!(capture, Capture::Open(_)));
        let Some(level) = open else { return Err(Trouble::Malformed("invalid pattern capture")) };
        let before = self.captures[level];
        if let Capture::Open(start) = before {
            self.captures[level] = Capture::Text(start, s - start);
        }
        let matched = self.fits(s, p)?;
        if matched.is_none() {
            self.captures[level] = before;
        }
        Ok(matched)
    }

    fn balanced(&mut self, s: usize, p: usize) -> Matched {
        let (Some(&open), Some(&close)) = (self.pattern.get(p), self.pattern.get(p + 1)) else {
            return Err(Trouble::Malformed("unbalanced pattern"));
        };
        if self.text.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1;
        for at in s + 1..self.text.len() {
            self.step(1)?;
            if self.text[at] == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(at + 1));
                }
            } else if self.text[at] == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// The pattern behind a frontier, if there is one at this place.
    fn frontier(&self, s: usize, p: usize) -> Result<Option<usize>, Trouble> {
        if self.pattern.get(p) != Some(&b'[') {
            return Err(Trouble::Malformed("missing '[' after '%f' in pattern"));
        }
        let end = self.class_end(p)?;
        let before = if s == 0 { 0 } else { self.text[s - 1] };
        let after = self.text.get(s).copied().unwrap_or(0);
        let is_here = !self.in_set(before, p, end - 1) && self.in_set(after, p, end - 1);
        Ok(is_here.then_some(end))
    }

    fn same_again(&mut self, s: usize, digit: u8) -> Matched {
        let level = usize::from(digit).wrapping_sub(usize::from(b'1'));
        let Some(Capture::Text(start, len)) = self.captures.get(level).copied() else {
            return Err(Trouble::Malformed("invalid capture index"));
        };
        self.step(len / 16)?;
        let (wanted, rest) = (&self.text[start..start + len], &self.text[s..]);
        Ok(rest.starts_with(wanted).then_some(s + len))
    }
}

fn is_class(byte: u8, class: u8) -> bool {
    let is = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0B,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is != class.is_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(text: &str, pattern: &str) -> Result<Option<(usize, usize)>, Trouble> {
        let found = search(text.as_bytes(), pattern.as_bytes(), 0, false, &mut || false)?;
        Ok(found.map(|found| (found.start, found.end)))
    }

    #[test]
    fn patterns_fit_where_lua_says() {
        for (text, pattern, place) in [
            ("hello", "l+", Some((2, 4))),
            ("hello", "l-o", Some((2, 5))),
            ("hello", "x?h", Some((0, 1))),
            ("hello", ".*", Some((0, 5))),
            ("hello", "lo$", Some((3, 5))),
            ("hello", "xx", None),
            ("key = value", "%s*=%s*", Some((3, 6))),
            ("f(a(b)c)d", "%b()", Some((1, 8))),
            ("THE (quick) fox", "%f[%a]%a+%f[%A]", Some((0, 3))),
            ("abab", "(ab)%1", Some((0, 4))),
            ("a]b", "[]]", Some((1, 2))),
            ("a-b", "[a%-]+", Some((0, 2))),
            ("xyz", "[^x-y]", Some((2, 3))),
            ("", "", Some((0, 0))),
        ] {
            assert_eq!(find(text, pattern), Ok(place), "{text} {pattern}");
        }
        let found = search(b"a1b22", b"(%a)()(%d+)", 2, false, &mut || false).unwrap().unwrap();
        assert_eq!(found.captures, [Capture::Text(2, 1), Capture::SourcePosition(3), Capture::Text(3, 2)]);
    }

    #[test]
    fn wrong_patterns_are_refused_and_long_ones_stopped() {
        for (pattern, words) in [
            ("%", "malformed pattern (ends with '%')"),
            ("[a", "malformed pattern (missing ']')"),
            (")", "invalid pattern capture"),
            ("%1", "invalid capture index"),
            ("%b", "unbalanced pattern"),
            ("%f", "missing '[' after '%f' in pattern"),
        ] {
            assert_eq!(find("a", pattern), Err(Trouble::Malformed(words)), "{pattern}");
        }
        let (text, pattern) = ("a".repeat(1000), "a*".repeat(12) + "b");
        let stopped = search(text.as_bytes(), pattern.as_bytes(), 0, false, &mut || true);
        assert_eq!(stopped, Err(Trouble::Stopped));
    }
}
