//! Templates of requests, and how one becomes a group of steps. It touches nothing.
//!
//! ```text
//! SET {str} {v} [NX|XX] [EX {ttl}|KEEPTTL]     [ ] may be left out, | separates alternatives, { } is an argument out of a pool
//! MGET {str}+                                  + repeats one to four times, * up to three times, on { }, [ ] and ( )
//! SMEMBERS {set:A} ; SPOP {:A} ; DEL {:A}      ; separates steps of one group; {:A} is what {set:A} was
//! s> SUBSCRIBE {chan:A} ; PUBLISH {:A} hi ; s> a step may name its connection; without one it is a pipelined one
//! ! WAIT 0 5                                   ! means: never spoilt on purpose, and not inside of transactions
//! ```

use std::iter::Peekable;
use std::str::Chars;

use keystead_testkit::rng::Rng;

use crate::pools::Pools;
use crate::script::{Group, Step, words};

/// The connection of steps that name none. The generator of a script replaces it.
pub(crate) const ANY: char = '*';

/// The connection whose one argument is sent as it is: no template, but in quotes.
const RAW: char = 'r';

/// A part of a template.
enum Node {
    Word(String),
    Pool { name: String, bound: String },
    Choice { alternatives: Vec<Vec<Node>>, optional: bool },
    Repeat { node: Box<Node>, min: u64, max: u64 },
}

/// The result of expanding a template.
pub(crate) struct Filled {
    pub(crate) group: Group,
    /// Whether it may be spoilt, and be part of a transaction.
    pub(crate) plain: bool,
}

/// Fills a template.
pub(crate) fn fill(template: &str, rng: &mut Rng, pools: &mut Pools) -> Filled {
    let (plain, text) = match template.strip_prefix("! ") {
        Some(text) => (false, text),
        None => (true, template),
    };
    pools.begin();
    let steps = text.split(';').map(str::trim);
    let group = steps.map(|text| {
        let (conn, text) = match text.as_bytes() {
            [letter, b'>', ..] => (char::from(*letter), &text[2..]),
            _ => (ANY, text),
        };
        if conn == RAW {
            return Step::new(conn, words(text));
        }
        let mut args = Vec::new();
        for node in &parse(&mut text.chars().peekable(), None)[0] {
            expand(node, rng, pools, &mut args);
        }
        Step::new(conn, args)
    });
    Filled { group: group.collect(), plain }
}

/// Reads alternatives up to the closing bracket, or the whole text.
fn parse(chars: &mut Peekable<Chars<'_>>, end: Option<char>) -> Vec<Vec<Node>> {
    let mut alternatives = vec![Vec::new()];
    while let Some(&next) = chars.peek() {
        if Some(next) == end {
            chars.next();
            return alternatives;
        }
        let node = match next {
            ' ' => {
                chars.next();
                continue;
            }
            '|' if end.is_some() => {
                chars.next();
                alternatives.push(Vec::new());
                continue;
            }
            '[' | '(' => {
                chars.next();
                let close = if next == '[' { ']' } else { ')' };
                Node::Choice { alternatives: parse(chars, Some(close)), optional: next == '[' }
            }
            '{' => {
                chars.next();
                let text: String = chars.by_ref().take_while(|c| *c != '}').collect();
                let (name, bound) = text.split_once(':').unwrap_or((&text, ""));
                Node::Pool { name: name.to_owned(), bound: bound.to_owned() }
            }
            _ => {
                let plain = |c: &char| !matches!(c, ' ' | '|' | ']' | ')') || (end.is_none() && *c != ' ');
                Node::Word(std::iter::from_fn(|| chars.next_if(plain)).collect())
            }
        };
        let repeated = !matches!(node, Node::Word(_));
        let node = match chars.peek() {
            Some('+') if repeated => Node::Repeat { node: Box::new(node), min: 1, max: 4 },
            Some('*') if repeated => Node::Repeat { node: Box::new(node), min: 0, max: 3 },
            _ => node,
        };
        if matches!(node, Node::Repeat { .. }) {
            chars.next();
        }
        if let Some(last) = alternatives.last_mut() {
            last.push(node);
        }
    }
    assert!(end.is_none(), "a template with a bracket that is not closed");
    alternatives
}

fn expand(node: &Node, rng: &mut Rng, pools: &mut Pools, args: &mut Vec<Vec<u8>>) {
    match node {
        Node::Word(word) => args.push(word.clone().into_bytes()),
        Node::Pool { name, bound } => args.extend(pools.draw(rng, name, bound)),
        Node::Choice { optional: true, .. } if rng.below(2) == 0 => {}
        Node::Choice { alternatives, .. } => {
            for node in &alternatives[rng.below(alternatives.len() as u64) as usize] {
                expand(node, rng, pools, args);
            }
        }
        Node::Repeat { node, min, max } => {
            for _ in 0..min + rng.below(max - min + 1) {
                expand(node, rng, pools, args);
            }
        }
    }
}
