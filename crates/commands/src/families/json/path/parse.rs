//! The parser of paths. It touches nothing.
//!
//! A recursive descent without backtracking: the time is linear, and the nesting is counted.

use serde_json::Value;

use super::compare::Operator;
use super::filter::{Function, Query, Term, Test};
use super::regex::Pattern;
use super::{PathFlaw, Segment, Selector};
use crate::bounds::{JSON_PATH_BYTES_MAX, JSON_PATH_NESTING_MAX};

/// The largest index of RFC 9535: what a double represents exactly.
const INDEX_MAX: i64 = (1 << 53) - 1;

type Parsed<T> = Result<T, PathFlaw>;

/// The segments of a path that begins with `$`.
pub(super) fn segments(text: &str) -> Parsed<Vec<Segment>> {
    if text.len() > JSON_PATH_BYTES_MAX {
        return Err(PathFlaw::NotPath(JSON_PATH_BYTES_MAX, "the path is too long"));
    }
    let mut reader = Reader { text, at: 0, nesting: 0 };
    reader.expect('$', "expected $")?;
    let segments = reader.segments()?;
    reader.blanks();
    if reader.at < text.len() { Err(reader.flaw("expected . or [ or the end")) } else { Ok(segments) }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    nesting: usize,
}

impl<'a> Reader<'a> {
    fn flaw(&self, why: &'static str) -> PathFlaw {
        PathFlaw::NotPath(self.at, why)
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn accept(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn expect(&mut self, token: char, why: &'static str) -> Parsed<()> {
        if self.accept(token.encode_utf8(&mut [0; 4])) { Ok(()) } else { Err(self.flaw(why)) }
    }

    fn blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    /// A nested expression. Each kind of nesting counts.
    fn within<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.nesting == JSON_PATH_NESTING_MAX {
            return Err(self.flaw("the path is nested too deeply"));
        }
        self.nesting += 1;
        let read = read(self);
        self.nesting -= 1;
        read
    }

    fn segments(&mut self) -> Parsed<Vec<Segment>> {
        let mut segments = Vec::new();
        loop {
            let before = self.at;
            self.blanks();
            let descends = self.accept("..");
            let dotted = descends || self.accept(".");
            let selectors = if self.accept("[") {
                self.bracket()?
            } else if !dotted {
                self.at = before;
                return Ok(segments);
            } else if self.accept("*") {
                vec![Selector::All]
            } else {
                vec![Selector::Name(self.bare_name()?)]
            };
            segments.push(Segment { descends, selectors });
        }
    }

    /// A name without quotes: the characters of RFC 9535, and those that RedisJSON adds.
    fn bare_name(&mut self) -> Parsed<String> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "-_`~+#%$^/:".contains(c) || !c.is_ascii();
        let name = self.rest().split(|c: char| !is_part(c)).next().unwrap_or_default();
        if name.is_empty() {
            return Err(self.flaw("expected a name, * or ["));
        }
        self.at += name.len();
        Ok(name.to_owned())
    }

    /// The selectors in brackets, up to the closing one.
    fn bracket(&mut self) -> Parsed<Vec<Selector>> {
        let mut selectors = Vec::new();
        loop {
            self.blanks();
            selectors.push(self.selector()?);
            self.blanks();
            if self.accept("]") {
                return Ok(selectors);
            }
            self.expect(',', "expected , or ]")?;
        }
    }

    fn selector(&mut self) -> Parsed<Selector> {
        match self.peek() {
            Some('*') => {
                self.at += 1;
                Ok(Selector::All)
            }
            Some('\'' | '"') => Ok(Selector::Name(self.quoted()?)),
            Some('?') => {
                self.at += 1;
                Ok(Selector::Filter(self.within(Self::any_of)?))
            }
            Some('-' | ':' | '0'..='9') => self.index_or_slice(),
            _ => Err(self.flaw("expected an index, a name in quotes, * or ?")),
        }
    }

    fn index_or_slice(&mut self) -> Parsed<Selector> {
        let start = self.index()?;
        self.blanks();
        if !self.accept(":") {
            return start.map(Selector::Index).ok_or_else(|| self.flaw("expected an index"));
        }
        self.blanks();
        let stop = self.index()?;
        self.blanks();
        let mut step = None;
        if self.accept(":") {
            self.blanks();
            step = self.index()?;
        }
        Ok(Selector::Slice { start, stop, step: step.unwrap_or(1) })
    }

    fn index(&mut self) -> Parsed<Option<i64>> {
        let digits = self.number_text(false);
        if digits.is_empty() {
            return Ok(None);
        }
        let bare = digits.trim_start_matches('-');
        let exact = digits != "-0" && (bare == "0" || !bare.starts_with('0'));
        match digits.parse() {
            Ok(index) if exact && (-INDEX_MAX..=INDEX_MAX).contains(&index) => Ok(Some(index)),
            _ => Err(self.flaw("expected an index within the range of a double")),
        }
    }

    /// Consumes the characters of a number.
    fn number_text(&mut self, decimal: bool) -> &'a str {
        let mut end = 0;
        for (at, c) in self.rest().char_indices() {
            let after_exponent = decimal && self.rest()[..at].ends_with(['e', 'E']);
            let part = c.is_ascii_digit()
                || c == '-' && (at == 0 || after_exponent)
                || decimal && (matches!(c, '.' | 'e' | 'E') || c == '+' && after_exponent);
            if !part {
                break;
            }
            end = at + 1;
        }
        let text = &self.rest()[..end];
        self.at += end;
        text
    }

    /// A string in quotes of either kind.
    fn quoted(&mut self) -> Parsed<String> {
        let Some(quote) = self.peek() else { return Err(self.flaw("expected a quote")) };
        self.at += 1;
        let mut out = String::new();
        loop {
            let Some(c) = self.peek() else { return Err(self.flaw("expected the closing quote")) };
            self.at += c.len_utf8();
            match c {
                _ if c == quote => return Ok(out),
                '\\' => out.push(self.escaped(quote)?),
                '\0'..='\x1f' => return Err(self.flaw("control characters are written as escapes")),
                _ => out.push(c),
            }
        }
    }

    fn escaped(&mut self, quote: char) -> Parsed<char> {
        let Some(c) = self.peek() else { return Err(self.flaw("expected an escape")) };
        self.at += c.len_utf8();
        Ok(match c {
            _ if c == quote => c,
            '\\' | '/' => c,
            'b' => '\x08',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let high = self.code_unit()?;
                let low = if (0xd800..0xdc00).contains(&high) && self.accept("\\u") {
                    Some(self.code_unit()?)
                } else {
                    None
                };
                let units = std::iter::once(high).chain(low);
                let mut decoded = char::decode_utf16(units);
                match (decoded.next(), decoded.next()) {
                    (Some(Ok(c)), None) => c,
                    _ => return Err(self.flaw("expected a pair of surrogates")),
                }
            }
            _ => return Err(self.flaw("unknown escape")),
        })
    }

    fn code_unit(&mut self) -> Parsed<u16> {
        let digits = self.rest().get(..4).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let unit = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
        let unit = unit.ok_or_else(|| self.flaw("expected four hexadecimal digits"))?;
        self.at += 4;
        Ok(unit)
    }

    /// `test || test ...`
    fn any_of(&mut self) -> Parsed<Test> {
        let mut tests = vec![self.all_of()?];
        while self.accept("||") {
            tests.push(self.all_of()?);
        }
        Ok(Test::AnyOf(tests))
    }

    /// `test && test ...`
    fn all_of(&mut self) -> Parsed<Test> {
        let mut tests = vec![self.one_test()?];
        while self.accept("&&") {
            tests.push(self.one_test()?);
        }
        Ok(Test::AllOf(tests))
    }

    fn one_test(&mut self) -> Parsed<Test> {
        self.blanks();
        let test = if self.rest().starts_with("!=") {
            return Err(self.flaw("expected a test"));
        } else if self.accept("!") {
            Test::Not(Box::new(self.within(Self::one_test)?))
        } else if self.accept("(") {
            let test = self.within(Self::any_of)?;
            self.expect(')', "expected )")?;
            test
        } else {
            self.comparison()?
        };
        self.blanks();
        Ok(test)
    }

    fn comparison(&mut self) -> Parsed<Test> {
        let left = self.term()?;
        self.blanks();
        if self.accept("=~") {
            self.blanks();
            let right = self.term()?;
            return Ok(Test::Matches(left, Pattern::new(right, false)));
        }
        let operators = [
            ("==", Operator::Equal),
            ("!=", Operator::Unequal),
            ("<=", Operator::AtMost),
            (">=", Operator::AtLeast),
            ("<", Operator::Less),
            (">", Operator::More),
        ];
        for (text, operator) in operators {
            if self.accept(text) {
                self.blanks();
                let right = self.term()?;
                let truth = |term: &Term| matches!(term, Term::Call(Function::Match(..)));
                if truth(&left) || truth(&right) {
                    return Err(self.flaw("match and search are not compared"));
                }
                return Ok(Test::Compare(left, operator, right));
            }
        }
        match left {
            Term::Query(query) => Ok(Test::Exists(query)),
            Term::Call(Function::Match(subject, pattern)) => Ok(Test::Matches(*subject, *pattern)),
            _ => Err(self.flaw("expected a comparison")),
        }
    }

    fn term(&mut self) -> Parsed<Term> {
        match self.peek() {
            Some(mark @ ('@' | '$')) => {
                self.at += 1;
                let segments = self.within(Self::segments)?;
                Ok(Term::Query(Query { from_root: mark == '$', segments }))
            }
            Some('\'' | '"') => Ok(Term::Literal(Value::String(self.quoted()?))),
            Some('-' | '0'..='9') => {
                let text = self.number_text(true);
                let number = serde_json::from_str(text).map_err(|_| self.flaw("expected a number"))?;
                Ok(Term::Literal(Value::Number(number)))
            }
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Parsed<Term> {
        let word =
            self.rest().split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
        let start = self.at;
        self.at += word.len();
        match word {
            "true" => return Ok(Term::Literal(Value::Bool(true))),
            "false" => return Ok(Term::Literal(Value::Bool(false))),
            "null" => return Ok(Term::Literal(Value::Null)),
            "length" | "count" | "value" | "match" | "search" if self.accept("(") => {}
            _ => {
                self.at = start;
                return Err(self.flaw("expected @, $, a literal or a function"));
            }
        }
        self.within(|reader| reader.call(word))
    }

    /// The arguments of a function, and the closing parenthesis.
    fn call(&mut self, name: &str) -> Parsed<Term> {
        self.blanks();
        let first = self.term()?;
        self.blanks();
        let function = match (name, first) {
            ("length", subject) => Function::Length(Box::new(subject)),
            ("count", Term::Query(query)) => Function::Count(query),
            ("value", Term::Query(query)) => Function::Value(query),
            ("match" | "search", subject) => {
                self.expect(',', "expected a second argument")?;
                self.blanks();
                let pattern = Pattern::new(self.term()?, name == "match");
                self.blanks();
                Function::Match(Box::new(subject), Box::new(pattern))
            }
            _ => return Err(self.flaw("expected a path as argument")),
        };
        self.expect(')', "expected )")?;
        Ok(Term::Call(function))
    }
}
