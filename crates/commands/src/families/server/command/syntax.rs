//! The arguments of a command, parsed from the line that documents them: `key [EX seconds | PERSIST] [field ...]`.
//!
//! It touches nothing. redis-cli derives its hints from the result.

/// One argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Argument {
    pub(super) name: String,
    /// The keyword before it, or the keyword that it is.
    pub(super) token: Option<String>,
    pub(super) form: Form,
    pub(super) optional: bool,
    pub(super) multiple: bool,
}

/// The type of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Any text.
    Word,
    /// A key.
    Key,
    /// An integer.
    Integer,
    /// The token itself.
    Token,
    /// One of these.
    OneOf(Vec<Argument>),
    /// All of these, one after the other.
    Block(Vec<Argument>),
}

/// Names of arguments that are integers.
const INTEGERS: &[&str] = &[
    "seconds",
    "milliseconds",
    "count",
    "offset",
    "start",
    "stop",
    "end",
    "index",
    "numkeys",
    "increment",
    "decrement",
    "cursor",
    "db",
    "timeout",
];

/// The arguments of a line.
pub(super) fn parse(line: &str) -> Vec<Argument> {
    let mut spaced = String::with_capacity(line.len() + 16);
    for c in line.chars() {
        match c {
            '[' | ']' | '<' | '>' => spaced.extend([' ', c, ' ']),
            c => spaced.push(c),
        }
    }
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut alternatives = Reader { words: &words, at: 0 }.alternatives();
    if alternatives.len() == 1 { alternatives.remove(0) } else { vec![one_of(alternatives)] }
}

struct Reader<'a> {
    words: &'a [&'a str],
    at: usize,
}

impl Reader<'_> {
    /// Alternatives separated by bars, up to the closing bracket, which is consumed.
    fn alternatives(&mut self) -> Vec<Vec<Argument>> {
        let mut all: Vec<Vec<Argument>> = vec![Vec::new()];
        while let Some(word) = self.words.get(self.at).copied() {
            self.at += 1;
            let Some(sequence) = all.last_mut() else { break };
            match word {
                "]" | ">" => break,
                "|" => all.push(Vec::new()),
                "..." => {
                    if let Some(last) = sequence.last_mut() {
                        last.multiple = true;
                    }
                }
                "[" => {
                    let repeats = self.ends_with_dots();
                    let inner = self.alternatives();
                    optional(sequence, inner, repeats);
                }
                "<" => {
                    let inner = self.alternatives();
                    sequence.push(one_of(inner));
                }
                word => sequence.push(plain(word)),
            }
        }
        all
    }

    /// Whether the bracket that was just opened closes after `...`.
    fn ends_with_dots(&self) -> bool {
        let mut depth = 0usize;
        for (i, word) in self.words.iter().enumerate().skip(self.at) {
            match *word {
                "[" | "<" => depth += 1,
                "]" | ">" if depth == 0 => return i > 0 && self.words[i - 1] == "...",
                "]" | ">" => depth -= 1,
                _ => {}
            }
        }
        false
    }
}

/// Adds a bracketed part. `field value [field value ...]` means that the preceding arguments may repeat.
fn optional(sequence: &mut Vec<Argument>, mut inner: Vec<Vec<Argument>>, repeats: bool) {
    if let [again] = inner.as_mut_slice()
        && repeats
    {
        if let Some(last) = again.last_mut() {
            last.multiple = false;
        }
        let from = sequence.len().wrapping_sub(again.len());
        if !again.is_empty() && sequence.get(from..) == Some(again.as_slice()) {
            let mut repeated = group(sequence.split_off(from));
            repeated.multiple = true;
            sequence.push(repeated);
            return;
        }
        let mut repeated = group(std::mem::take(again));
        (repeated.optional, repeated.multiple) = (true, true);
        sequence.push(repeated);
        return;
    }
    let mut argument = one_of(inner);
    argument.optional = true;
    sequence.push(argument);
}

fn plain(word: &str) -> Argument {
    let token = !word.bytes().any(|byte| byte.is_ascii_lowercase());
    let name = word.to_ascii_lowercase();
    let form = match name.as_str() {
        _ if token => Form::Token,
        "key" | "source" | "destination" | "newkey" | "key1" | "key2" | "destkey" => Form::Key,
        name if INTEGERS.contains(&name) => Form::Integer,
        _ => Form::Word,
    };
    Argument { name, token: token.then(|| word.to_owned()), form, optional: false, multiple: false }
}

/// One argument of several: itself, a token with its value, or a block.
fn group(mut parts: Vec<Argument>) -> Argument {
    match parts.as_slice() {
        [_] => return parts.remove(0),
        [token, value] if token.form == Form::Token && value.token.is_none() && !value.optional => {
            return Argument { token: token.token.clone(), ..parts.remove(1) };
        }
        _ => {}
    }
    let name = parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>().join("-");
    Argument { name, token: None, form: Form::Block(parts), optional: false, multiple: false }
}

fn one_of(mut alternatives: Vec<Vec<Argument>>) -> Argument {
    if alternatives.len() == 1 {
        return group(alternatives.remove(0));
    }
    let parts: Vec<_> = alternatives.into_iter().map(group).collect();
    let name = parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>().join("-or-");
    Argument { name, token: None, form: Form::OneOf(parts), optional: false, multiple: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line that redis-cli would show.
    fn shown(arguments: &[Argument], between: &str) -> String {
        let parts: Vec<_> = arguments.iter().map(one).collect();
        parts.join(between)
    }

    fn one(argument: &Argument) -> String {
        let token = argument.token.clone().unwrap_or_default();
        let value = match &argument.form {
            Form::Token => String::new(),
            Form::OneOf(parts) => shown(parts, "|"),
            Form::Block(parts) => shown(parts, " "),
            _ => argument.name.clone(),
        };
        let text = format!("{token} {value}").trim().to_owned();
        let text = if argument.multiple { format!("{text} [{text} ...]") } else { text };
        if argument.optional { format!("[{text}]") } else { text }
    }

    #[test]
    fn lines_are_read() {
        for (line, back) in [
            ("", ""),
            ("key", "key"),
            ("key [key ...]", "key [key ...]"),
            ("key field value [field value ...]", "key field value [field value ...]"),
            (
                "key value [NX | XX] [GET] [EX seconds | PX milliseconds | KEEPTTL]",
                "key value [NX|XX] [GET] [EX seconds|PX milliseconds|KEEPTTL]",
            ),
            ("[section [section ...]]", "[section [section ...]]"),
            ("[section ...]", "[section [section ...]]"),
            ("<ON | OFF> [PREFIX prefix [PREFIX prefix ...]]", "ON|OFF [PREFIX prefix [PREFIX prefix ...]]"),
            ("key [LIMIT offset count]", "key [LIMIT offset count]"),
            ("<host port | NO ONE>", "host port|NO ONE"),
        ] {
            assert_eq!(shown(&parse(line), " "), back, "{line}");
        }
        assert_eq!(parse("key seconds")[0].form, Form::Key);
        assert_eq!(parse("key seconds")[1].form, Form::Integer);
    }

    #[test]
    fn every_line_of_the_table_is_read() {
        for spec in crate::table::leaves() {
            let opened = spec.syntax.matches(['[', '<']).count();
            assert_eq!(
                opened,
                spec.syntax.matches([']', '>']).count(),
                "{}: {}",
                spec.full_name,
                spec.syntax
            );
            assert_eq!(parse(spec.syntax).is_empty(), spec.syntax.is_empty(), "{}", spec.full_name);
        }
    }
}
