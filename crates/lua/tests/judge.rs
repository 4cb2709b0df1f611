//! Programs must return the same values and error messages as on Lua 5.1.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod machines;

use machines::{ours, theirs};

#[test]
fn programs_do_what_they_do_on_lua() {
    let mut wrong = Vec::new();
    for program in include_str!("programs.lua").split("\n----\n") {
        let (ours, theirs) = (ours(program), theirs(program));
        if ours != theirs {
            wrong.push(format!("{program}\n  ours:   {ours}\n  theirs: {theirs}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n\n"));
}
