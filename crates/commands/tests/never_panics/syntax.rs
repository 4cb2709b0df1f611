//! Requests that follow a row's syntax, and some that follow it less.
//!
//! A syntax is a sequence of words and groups: `[x]` is optional, `<x>` is required, `x | y` is one of them, `...` repeats
//! its group. A word in lower case is an argument, any other is a keyword.

use keystead_commands::Spec;
use keystead_testkit::rng::Rng;

use super::pools;

/// A part of a syntax.
pub(super) enum Part<'a> {
    Word(&'a str),
    Group { choices: Vec<Vec<Part<'a>>>, optional: bool, repeats: bool },
}

/// Generates requests.
pub(super) struct Requests {
    keywords: Vec<&'static str>,
}

impl Requests {
    pub(super) fn new() -> Self {
        Requests { keywords: pools::keywords() }
    }

    /// A request for this row of this family.
    pub(super) fn make(&self, rng: &mut Rng, spec: &Spec, family: usize) -> Vec<Vec<u8>> {
        let name: Vec<Vec<u8>> = spec.full_name.split('|').map(|word| word.as_bytes().to_vec()).collect();
        let mut arguments = Vec::new();
        if rng.below(12) == 0 {
            arguments.extend((0..rng.below(8)).map(|_| self.anything(rng, family)));
        } else {
            let choices = choices(spec.syntax);
            let mut filled = Filled { arguments: Vec::new(), count: None };
            self.fill_one(rng, &choices, family, &mut filled);
            arguments = filled.finish(rng);
            for _ in 0..rng.below(4).saturating_sub(2) {
                self.spoil(rng, &mut arguments, family);
            }
        }
        name.into_iter().chain(arguments).collect()
    }

    fn fill_one<'a>(&self, rng: &mut Rng, choices: &[Vec<Part<'a>>], family: usize, out: &mut Filled) {
        let Some(parts) = choices.get(rng.below(choices.len().max(1) as u64) as usize) else { return };
        for part in parts {
            match part {
                Part::Word(word) => self.word(rng, word, family, out),
                Part::Group { choices, optional, repeats } => {
                    let most = if *repeats { 4 } else { 1 };
                    let least = u64::from(!optional);
                    for _ in 0..least.max(rng.below(most + 1)) {
                        self.fill_one(rng, choices, family, out);
                    }
                }
            }
        }
    }

    fn word(&self, rng: &mut Rng, word: &str, family: usize, out: &mut Filled) {
        if !word.starts_with(|c: char| c.is_ascii_lowercase()) {
            return out.push(word.as_bytes().to_vec(), false);
        }
        if rng.below(16) == 0 {
            return out.push(self.anything(rng, family), word == "key");
        }
        match word {
            "numkeys" | "numfields" => out.begin_count(),
            "key" | "key1" | "key2" | "newkey" | "source" | "destination" | "destkey" | "dst" | "src"
            | "sourcekey" => {
                out.push(pools::key(rng, family), true);
            }
            "field" => out.push(pools::text(rng), true),
            "id" | "last-id" | "max-deleted-id" => out.push(pools::stream_id(rng), false),
            "threshold" if rng.below(2) == 0 => out.push(pools::stream_id(rng), false),
            "score" | "longitude" | "latitude" | "weight" | "radius" | "width" | "height" => {
                out.push(pools::float(rng), false);
            }
            "min" | "max" => out.push(pools::edge(rng), false),
            "group" | "consumer" => out.push(format!("g{}", rng.below(2)).into_bytes(), false),
            "start" | "end" | "stop" if rng.below(3) == 0 => out.push(pools::stream_id(rng), false),
            "member" | "value" | "element" | "pattern" | "message" | "pivot" | "channel" | "name" => {
                out.push(pools::text(rng), false);
            }
            "path" => out.push(pools::path(rng), false),
            "json" => out.push(pools::json(rng), false),
            "script" => out.push(pools::script(rng), false),
            "function-code" => out.push(pools::library(rng), false),
            "function" => out.push(b"f".to_vec(), false),
            "encoding" => out.push(
                format!("{}{}", if rng.below(2) == 0 { "u" } else { "i" }, rng.below(70)).into(),
                false,
            ),
            _ => out.push(pools::number(rng), false),
        }
    }

    fn anything(&self, rng: &mut Rng, family: usize) -> Vec<u8> {
        match rng.below(6) {
            0 => pools::key(rng, family),
            1 => pools::number(rng),
            2 => pools::float(rng),
            3 => pools::stream_id(rng),
            4 => pools::keyword(rng, &self.keywords),
            _ => pools::text(rng),
        }
    }

    /// Changes, drops, adds or doubles an argument.
    fn spoil(&self, rng: &mut Rng, arguments: &mut Vec<Vec<u8>>, family: usize) {
        let at = rng.below(arguments.len() as u64 + 1) as usize;
        match (rng.below(4), arguments.get(at).cloned()) {
            (0, Some(_)) => arguments[at] = self.anything(rng, family),
            (1, Some(_)) => drop(arguments.remove(at)),
            (2, Some(same)) => arguments.insert(at, same),
            _ => arguments.insert(at, self.anything(rng, family)),
        }
    }
}

/// Arguments, and the index of a number that counts those after it.
struct Filled {
    arguments: Vec<Vec<u8>>,
    count: Option<(usize, usize)>,
}

impl Filled {
    fn push(&mut self, argument: Vec<u8>, counted: bool) {
        self.arguments.push(argument);
        if let (Some((_, count)), true) = (&mut self.count, counted) {
            *count += 1;
        }
    }

    fn begin_count(&mut self) {
        self.count = Some((self.arguments.len(), 0));
        self.arguments.push(Vec::new());
    }

    /// The arguments; the count is usually right.
    fn finish(mut self, rng: &mut Rng) -> Vec<Vec<u8>> {
        if let Some((at, count)) = self.count {
            self.arguments[at] =
                if rng.below(10) == 0 { pools::number(rng) } else { count.to_string().into_bytes() };
        }
        self.arguments
    }
}

/// The alternatives of a syntax.
pub(super) fn choices(syntax: &str) -> Vec<Vec<Part<'_>>> {
    parse(&mut tokens(syntax).into_iter().peekable())
}

fn tokens(syntax: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    for mut word in syntax.split_whitespace() {
        while word.len() > 1 && word.starts_with(['[', '<']) {
            tokens.push(&word[..1]);
            word = &word[1..];
        }
        let bare = word.trim_end_matches([']', '>']);
        let ends = if bare.is_empty() { "" } else { &word[bare.len()..] };
        tokens.push(if bare.is_empty() { word } else { bare });
        tokens.extend(ends.chars().map(|end| if end == ']' { "]" } else { ">" }));
    }
    tokens
}

/// The alternatives up to the end of the group. It stops there, in the middle of whatever does not fit.
fn parse<'a>(tokens: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>) -> Vec<Vec<Part<'a>>> {
    let mut choices = vec![Vec::new()];
    while let Some(token) = tokens.next() {
        let part = match token {
            "]" | ">" => break,
            "|" => {
                choices.push(Vec::new());
                continue;
            }
            "[" | "<" => {
                let (choices, repeats) = parse_group(tokens);
                Part::Group { choices, optional: token == "[", repeats }
            }
            word => Part::Word(word),
        };
        if let Some(choice) = choices.last_mut() {
            choice.push(part);
        }
    }
    choices
}

fn parse_group<'a>(
    tokens: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
) -> (Vec<Vec<Part<'a>>>, bool) {
    let mut choices = parse(tokens);
    let dots = |part: &Part<'_>| matches!(part, Part::Word("..."));
    let repeats = choices.iter().flatten().any(dots);
    choices.iter_mut().for_each(|choice| choice.retain(|part| !dots(part)));
    (choices, repeats)
}
