//! A document and a path. A path selects the same nodes as values and as locations; printing and parsing a document is the identity; and the
//! JSON commands keep the invariants of `harness`.

#![no_main]

use keystead_commands::Command;
use keystead_commands::json::document;
use keystead_commands::json::path::{Order, Path};
use keystead_fuzz::harness::Harness;
use libfuzzer_sys::fuzz_target;

/// Commands with a document under `k`; `P` stands for the path, `V` for the value.
const COMMANDS: [&str; 20] = [
    "JSON.GET k P",
    "JSON.TYPE k P",
    "JSON.STRLEN k P",
    "JSON.OBJKEYS k P",
    "JSON.OBJLEN k P",
    "JSON.ARRLEN k P",
    "JSON.ARRINDEX k P V 0 -1",
    "JSON.RESP k P",
    "JSON.TOGGLE k P",
    "JSON.NUMINCRBY k P 1.5",
    "JSON.NUMMULTBY k P -2",
    "JSON.STRAPPEND k P \"x\"",
    "JSON.ARRAPPEND k P V V",
    "JSON.ARRINSERT k P 0 V",
    "JSON.ARRPOP k P -1",
    "JSON.ARRTRIM k P 0 1",
    "JSON.MERGE k P V",
    "JSON.SET k P V",
    "JSON.CLEAR k P",
    "JSON.DEL k P",
];

fuzz_target!(|bytes: &[u8]| {
    // Up to the first zero byte the path, up to the next the document, then a value.
    let mut parts = bytes.splitn(3, |byte| *byte == 0);
    let (path, text, value) =
        (parts.next().unwrap_or_default(), parts.next().unwrap_or_default(), parts.next().unwrap_or(b"[1]"));
    let tree = document::parse(text).ok();
    if let Some(tree) = &tree {
        let printed = document::print(tree).expect("it was read");
        let again = document::parse(printed.as_bytes()).expect("it was printed");
        assert!(document::same(tree, &again), "{printed} is parsed differently");
        assert_eq!(document::normal(printed.as_bytes()).ok().as_deref(), Some(printed.as_str()));
    }
    if let (Some(tree), Ok(path)) = (&tree, Path::read(path)) {
        for order in [Order::OuterFirst, Order::InnerFirst] {
            // Their bounds differ: a location takes more memory than a value.
            if let (Ok(values), Ok(places)) = (path.values(tree, order), path.locations(tree, order)) {
                assert_eq!(values.len(), places.len());
                assert!(values.iter().zip(&places).all(|(value, (_, at))| std::ptr::eq(*value, *at)));
            }
        }
    }
    let mut harness = Harness::default();
    for command in COMMANDS {
        harness.send(Command::new([&b"JSON.SET"[..], b"k", b"$", text]).args());
        let words = command.split(' ').map(|word| match word {
            "P" => path,
            "V" => value,
            word => word.as_bytes(),
        });
        harness.send(Command::new(words).args());
    }
    harness.compare();
});
