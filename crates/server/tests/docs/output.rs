//! Whether a block printed what its page shows. Pure.

use libtest_mimic::Failed;

/// Numbers of so many digits differ from run to run: times and ids.
const LONG_NUMBER_DIGITS: usize = 10;

/// Compares the output that a page shows with what was printed.
pub(crate) fn check(shown: &str, printed: &str) -> Result<(), String> {
    let shown_lines: Vec<&str> = shown.trim().lines().map(str::trim_end).collect();
    let printed_lines: Vec<&str> = printed.trim().lines().map(str::trim_end).collect();
    if lines_match(&shown_lines, &printed_lines) {
        return Ok(());
    }
    Err(format!("the page shows\n{}\nand it printed\n{}", indented(shown), indented(printed)))
}

/// This comparison can fail: what it must accept, and what it must not.
pub(crate) fn can_fail() -> Result<(), Failed> {
    let cases = [
        ("OK\n(integer) 2\n\"hello\"", "OK\n2\nhello\n", true),
        (r#"{"id":1794806605809,...}"#, r#"{"id":1800000000000,"n":1}"#, true),
        ("first\n...\nlast", "first\na\nb\nlast", true),
        (r#"{"version":1}"#, r#"{"version":2}"#, false),
        (r#"{"a":1,...,"b":2}"#, r#"{"a":1,"b":3}"#, false),
        ("OK", "OK\nOK", false),
        ("OK\nOK", "OK", false),
        ("...x", "y", false),
    ];
    for (shown, printed, same) in cases {
        if check(shown, printed).is_ok() != same {
            return Err(format!("{shown:?} beside {printed:?} should be {same}").into());
        }
    }
    Ok(())
}

fn indented(text: &str) -> String {
    text.trim().lines().map(|line| format!("    {line}\n")).collect()
}

fn lines_match(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((&"...", rest)) => (0..=printed.len()).any(|from| lines_match(rest, &printed[from..])),
        Some((line, rest)) => match printed.split_first() {
            Some((first, others)) => line_matches(line, first) && lines_match(rest, others),
            None => false,
        },
    }
}

fn line_matches(shown: &str, printed: &str) -> bool {
    let printed = without_long_numbers(printed);
    let glob = |shown: &str| text_matches(&without_long_numbers(shown), &printed);
    glob(shown) || glob(as_in_a_pipe(shown))
}

/// Whether a text is a pattern in which `...` stands for anything.
fn text_matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once("...") else { return pattern == text };
    let Some(mut text) = text.strip_prefix(start) else { return false };
    let mut pieces: Vec<&str> = rest.split("...").collect();
    let last = pieces.pop().unwrap_or_default();
    for piece in pieces {
        let Some((_, after)) = text.split_once(piece) else { return false };
        text = after;
    }
    text.ends_with(last)
}

fn without_long_numbers(text: &str) -> String {
    let (mut result, mut digits) = (String::new(), String::new());
    for character in text.chars().chain(['\n']) {
        if character.is_ascii_digit() {
            digits.push(character);
            continue;
        }
        result.push_str(if digits.len() < LONG_NUMBER_DIGITS { &digits } else { "N" });
        digits.clear();
        result.push(character);
    }
    result.pop();
    result
}

/// redis-cli prints `(integer) 1` and `"text"` on a terminal, and `1` and `text` into a pipe.
fn as_in_a_pipe(line: &str) -> &str {
    let line = match line.split_once(") ") {
        Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        _ => line,
    };
    let line = line.strip_prefix("(integer) ").unwrap_or(line);
    line.strip_prefix('"').and_then(|line| line.strip_suffix('"')).unwrap_or(line)
}
