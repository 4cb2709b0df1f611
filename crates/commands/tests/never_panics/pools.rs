//! The pools of arguments: few keys, so that commands interact, and hostile input.

use keystead_commands::table;
use keystead_testkit::rng::Rng;

/// Integers and near misses. None requests a string of hundreds of megabytes, which would be granted.
const NUMBERS: &[&str] = &[
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "4611686018427387904",
    "-4611686018427387904",
    "4294967296",
    "-4294967296",
    "1e308",
    "-1e308",
    "1e400",
    "inf",
    "-inf",
    "nan",
    "0x10",
    "1.5",
    "-0",
    "+1",
    "01",
    " 1",
    "1 ",
    "1-",
    "--1",
    "#1",
    "0",
    "",
];

/// Ids of stream entries and near misses.
const IDS: &[&str] = &[
    "*",
    "$",
    ">",
    "+",
    "-",
    "0",
    "0-0",
    "5-*",
    "(5",
    "(0-0",
    "(18446744073709551615-18446744073709551615",
    "18446744073709551615-18446744073709551615",
    "18446744073709551614-18446744073709551615",
    "18446744073709551615",
    "1-2-3",
    "5-",
    "x",
];

/// Other texts that some command gives a meaning to.
const WORDS: &[&str] = &[
    "u8", "i64", "u63", "u64", "i65", "u0", "#0", "#7", "*", "h?llo", "[a-", "\\", "[", "(", "[a", "(a",
    "(1.5", "(inf", "-", "+", "weight_*", "*->f", "m", "km", "default", "lib-name",
];

/// A member, field, value or pattern; small ones are frequent, so that they repeat.
pub(super) fn text(rng: &mut Rng) -> Vec<u8> {
    match rng.below(20) {
        0 => Vec::new(),
        1 => b"\xff\x00\r\n\x80".to_vec(),
        2 => vec![b'x'; rng.below(300) as usize],
        3 => pick(rng, WORDS),
        4 => number(rng),
        5 => float(rng),
        n if n < 12 => format!("{}", rng.below(10)).into_bytes(),
        _ => format!("m{}", rng.below(8)).into_bytes(),
    }
}

/// An integer, usually a small one.
pub(super) fn number(rng: &mut Rng) -> Vec<u8> {
    match rng.below(10) {
        0 => pick(rng, NUMBERS),
        1 => format!("{}", rng.below(2000)).into_bytes(),
        2 => format!("-{}", rng.below(10) + 1).into_bytes(),
        _ => format!("{}", rng.below(8)).into_bytes(),
    }
}

/// A double.
pub(super) fn float(rng: &mut Rng) -> Vec<u8> {
    match rng.below(8) {
        0 => pick(rng, NUMBERS),
        1 => pick(rng, WORDS),
        2 => format!("{}", rng.finite_f64()).into_bytes(),
        3 => format!("-{}.5", rng.below(90)).into_bytes(),
        _ => format!("{}", rng.below(80)).into_bytes(),
    }
}

/// A bound of a range of scores, or of members if all scores are equal.
pub(super) fn edge(rng: &mut Rng) -> Vec<u8> {
    match rng.below(4) {
        0 => pick(rng, &["-", "+", "[", "(", "[m2", "(m2", "[m5", "(m5"]),
        1 => format!("({}", rng.below(80)).into_bytes(),
        _ => float(rng),
    }
}

/// The id of a stream entry.
pub(super) fn stream_id(rng: &mut Rng) -> Vec<u8> {
    match rng.below(8) {
        0 => pick(rng, IDS),
        1 => b">".to_vec(),
        2 => format!("{}", rng.below(60)).into_bytes(),
        _ => format!("{}-{}", rng.below(60), rng.below(3)).into_bytes(),
    }
}

/// Paths into documents: mostly matching ones, and hostile ones.
const PATHS: &[&str] = &[
    "$",
    ".",
    "$.a",
    "a",
    ".a.b",
    "$.b",
    "$.*",
    "$..a",
    "$..*",
    "$[0]",
    "$[-1]",
    "$.a[0]",
    "$.l",
    "$.l[1:]",
    "$..[0,0]",
    "$.a.b.c",
    "l[0]",
    "$[?@.a]",
    "$..[?(@>1)]",
    "$.l[?@=~'m.*']",
    "$..*..*",
    "$[",
    "$..",
    "$.a..",
    "$[?",
    "$[99999]",
    "$['a','b','a']",
    "$.l[::-1]",
    "$[?count($..*)>1]",
    "$.new",
];

/// Documents, and near misses.
const DOCUMENTS: &[&str] = &[
    "{}",
    "[]",
    "null",
    "true",
    "1",
    "-0",
    "1.50",
    "1e400",
    "9223372036854775807",
    "18446744073709551616",
    "\"m1\"",
    "\"\"",
    "[1,2,3]",
    "{\"a\":1}",
    "{\"a\":{\"b\":[1,2.5,\"x\"]},\"l\":[0,[],{}],\"b\":true}",
    "[[[[1]]]]",
    "{\"a\":null,\"l\":[1]}",
    "{",
    "[1,",
    "nul",
    "01",
    "{\"a\":1,\"a\":2}",
];

/// A path into a document.
pub(super) fn path(rng: &mut Rng) -> Vec<u8> {
    if rng.below(30) == 0 { text(rng) } else { pick(rng, PATHS) }
}

/// A document.
pub(super) fn json(rng: &mut Rng) -> Vec<u8> {
    match rng.below(20) {
        0 => text(rng),
        1 => number(rng),
        2 => "[".repeat(rng.below(200) as usize).into_bytes(),
        3 => {
            let levels = rng.below(130) as usize;
            format!("{}{}", "[".repeat(levels), "]".repeat(levels)).into_bytes()
        }
        _ => pick(rng, DOCUMENTS),
    }
}

/// A key; usually one that holds the type of the family.
pub(super) fn key(rng: &mut Rng, family: usize) -> Vec<u8> {
    match rng.below(20) {
        0 => text(rng),
        1 => vec![b'k'; 300],
        2..5 => family_key(rng, rng.clone().below(table::FAMILIES.len() as u64) as usize),
        5 => format!("{{{}}}tag", rng.below(3)).into_bytes(),
        _ => family_key(rng, family),
    }
}

fn family_key(rng: &mut Rng, family: usize) -> Vec<u8> {
    format!("{family}:{}", rng.below(3)).into_bytes()
}

/// A script that touches only its own keys, and none before it fails.
pub(super) fn script(rng: &mut Rng) -> Vec<u8> {
    const SCRIPTS: &[&str] = &[
        "return {KEYS, ARGV}",
        "return redis.pcall('SET', KEYS[1], ARGV[1] or '')",
        "return redis.pcall('INCR', KEYS[1])",
        "return redis.pcall('RPUSH', KEYS[1], unpack(ARGV))",
        "redis.setresp(3) return redis.pcall('HGETALL', KEYS[1])",
        "return redis.acl_check_cmd(unpack(ARGV))",
        "return cjson.decode(ARGV[1])",
        "return cmsgpack.unpack(ARGV[1])",
        "return struct.unpack(ARGV[1], ARGV[2])",
        "return string.gsub(ARGV[1], ARGV[2], ARGV[3])",
    ];
    pick(rng, SCRIPTS)
}

/// A library of one function, or a near miss.
pub(super) fn library(rng: &mut Rng) -> Vec<u8> {
    const LIBRARIES: &[&str] = &[
        "#!lua name=l\nredis.register_function('f', function(keys) return redis.pcall('GET', keys[1]) end)",
        "#!lua name=l\nredis.register_function('f', function(keys, args) return redis.pcall('SET', keys[1], args[1]) end)",
        "#!lua name=l\nreturn",
    ];
    pick(rng, LIBRARIES)
}

/// A word that some command accepts as an option.
pub(super) fn keyword(rng: &mut Rng, keywords: &[&'static str]) -> Vec<u8> {
    let word = keywords.get(rng.below(keywords.len().max(1) as u64) as usize);
    let word = word.copied().unwrap_or_default();
    if rng.below(8) == 0 { word.to_ascii_lowercase().into_bytes() } else { word.as_bytes().to_vec() }
}

/// Every upper-case word of every row's syntax.
pub(super) fn keywords() -> Vec<&'static str> {
    let words = table::leaves().flat_map(|row| row.syntax.split(|c: char| !c.is_ascii_alphanumeric()));
    let mut words: Vec<_> =
        words.filter(|word| word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase())).collect();
    words.sort_unstable();
    words.dedup();
    words
}

fn pick(rng: &mut Rng, pool: &[&str]) -> Vec<u8> {
    pool[rng.below(pool.len() as u64) as usize].as_bytes().to_vec()
}
