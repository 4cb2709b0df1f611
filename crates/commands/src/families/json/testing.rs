//! JSON commands in the test fixture: lines whose arguments have no spaces, in both dialects.

use keystead_core::Millis;

use crate::ctx::{Ctx, Dialect};
use crate::testing::{Desk, shown};
use crate::{Command, dispatch};

/// Runs each line on a new desk and compares its reply in RESP2. The length before a document need not be counted:
/// `$N` matches any length.
pub(crate) fn expect(lines: &[(&str, &str)]) {
    let mut desk = Desk::new();
    for (line, expected) in lines {
        assert_eq!(uncounted(&desk.resp(line)), uncounted(expected), "{line}");
    }
}

/// The same, in the Upstash dialect.
pub(crate) fn upstash(lines: &[(&str, &str)]) {
    let mut desk = Desk::new();
    for (line, expected) in lines {
        let command = Command::new(line.split(' '));
        let spec = dispatch::resolve(command.args()).unwrap();
        let mut ctx = Ctx::new(&mut desk.keys, Millis(1_700_000_000_000), &mut desk.random, &desk.hub);
        ctx.dialect = Dialect::Upstash;
        let reply = dispatch::run_data(&mut ctx, spec, command.args());
        assert_eq!(uncounted(&shown(&reply)), uncounted(expected), "{line}");
    }
}

/// The lengths of bulk strings are tested with the encoder; here they would have to be counted by hand.
fn uncounted(expected: &str) -> String {
    let is_length =
        |word: &str| word.len() > 1 && word.starts_with('$') && word[1..].bytes().all(|b| b.is_ascii_digit());
    let words = expected.split(' ').map(|word| if is_length(word) { "$" } else { word });
    words.collect::<Vec<_>>().join(" ")
}
