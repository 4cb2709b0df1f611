//! Requests, as bytes or built from the rows of the command table: parser, dispatch, keyspace, effects. See `harness` for the invariants.

#![no_main]

use keystead_commands::spec::Run;
use keystead_commands::{Spec, table};
use keystead_fuzz::harness::Harness;
use keystead_fuzz::source::Source;
use libfuzzer_sys::fuzz_target;

const KEYS: [&str; 6] = ["a", "b", "c", "{a}d", "", "k\r\n\0"];
const NUMBERS: [&str; 22] = [
    "0",
    "1",
    "2",
    "-1",
    "3",
    "10",
    "100",
    "-100",
    "1.5",
    "-0",
    "1e3",
    "inf",
    "-inf",
    "nan",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "4294967296",
    "1e308",
    " 1",
    "0x10",
];
const WORDS: [&str; 40] = [
    "*",
    "$",
    ">",
    "+",
    "-",
    "0-0",
    "5-*",
    "(5",
    "(inf",
    "1-1",
    "2-0",
    "18446744073709551615-18446744073709551615",
    "u8",
    "i64",
    "u63",
    "#1",
    "h?llo",
    "[a-c]*",
    "[a",
    "(a",
    "weight_*",
    "*->f",
    "m",
    "km",
    "f",
    "g",
    "x",
    "y",
    "z",
    "=",
    "~",
    "{\"a\":[1,{\"b\":null}]}",
    "[1,2.5,\"x\"]",
    "$..a",
    "$[?(@.b>1)]",
    ".",
    "return redis.call('incr', KEYS[1])",
    "return {ARGV[1], #KEYS, redis.pcall('lpush', KEYS[1], 1)}",
    "#!lua name=l\nredis.register_function('f', function(k, a) return redis.call('set', k[1], a[1]) end)",
    "return cjson.encode(cmsgpack.unpack(cmsgpack.pack({1, ARGV, {x = KEYS}})))",
];

/// Rows of the table, including subcommands, with the name of their container and the keywords of their syntax.
fn rows() -> Vec<(Option<&'static str>, &'static Spec, Vec<&'static str>)> {
    let mut rows = Vec::new();
    for row in table::FAMILIES.iter().flat_map(|(_, rows)| rows.iter()) {
        match row.run {
            Run::Within(within) => {
                rows.extend(within.iter().map(|inner| (Some(row.name), inner, keywords(inner))))
            }
            _ => rows.push((None, row, keywords(row))),
        }
    }
    rows
}

fn keywords(row: &'static Spec) -> Vec<&'static str> {
    let words = row.syntax.split(|c: char| !c.is_ascii_alphanumeric());
    let mut words: Vec<_> =
        words.filter(|word| word.len() > 1 && !word.contains(|c: char| c.is_ascii_lowercase())).collect();
    words.push("COUNT");
    words
}

fn push(request: &mut Vec<Vec<u8>>, word: &str) {
    request.push(word.as_bytes().to_vec());
}

/// A request of a row of the table.
fn request(
    source: &mut Source<'_>,
    rows: &[(Option<&'static str>, &'static Spec, Vec<&'static str>)],
) -> Vec<Vec<u8>> {
    let (container, row, keywords) = &rows[source.below(rows.len())];
    let mut request = Vec::new();
    if let Some(container) = container {
        push(&mut request, container);
    }
    push(&mut request, row.name);
    let least = (row.arity.unsigned_abs() as usize).saturating_sub(request.len());
    let more = if row.arity < 0 { source.below(7) } else { 0 };
    for _ in 0..least + more {
        match source.below(16) {
            0..=3 => push(&mut request, source.one_of(&KEYS)),
            4..=6 => push(&mut request, source.one_of(&NUMBERS)),
            7..=9 => push(&mut request, source.one_of(keywords)),
            10..=12 => push(&mut request, source.one_of(&WORDS)),
            13 => push(&mut request, &source.byte().to_string()),
            _ => {
                let len = source.below(24);
                request.push(source.bytes(len).to_vec());
            }
        }
    }
    request
}

fn encoded(request: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", request.len()).into_bytes();
    for argument in request {
        bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

fuzz_target!(|bytes: &[u8]| {
    let mut source = Source::new(bytes);
    let (mode, mut harness) = (source.byte(), Harness::default());
    if mode % 4 == 0 {
        harness.feed(source.rest(), usize::from(mode) / 4 * 4 + 1);
    } else {
        thread_local!(static ROWS: Vec<(Option<&'static str>, &'static Spec, Vec<&'static str>)> = rows());
        while !source.is_empty() {
            match source.byte() {
                0 => harness.pass_ms(1),
                1 => harness.pass_ms(source.number().min(1 << 40)),
                _ => {
                    let request = ROWS.with(|rows| request(&mut source, rows));
                    if std::env::var_os("SHOW").is_some() {
                        eprintln!(
                            "{}",
                            request
                                .iter()
                                .map(|word| format!("'{}' ", word.escape_ascii()))
                                .collect::<String>()
                        );
                    }
                    harness.feed(&encoded(&request), usize::MAX);
                }
            }
        }
    }
    harness.compare();
});
