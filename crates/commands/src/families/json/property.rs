//! Random commands on random documents: nothing panics, and an error changes nothing.

use proptest::prelude::*;

use super::document;
use crate::testing::Desk;

fn texts() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,3})?([eE][+-][0-9]{1,3})?",
        "\"([a-cé\u{1F600} /]|\\\\[nrt\"]|\\\\u00[0-9a-f]{2}){0,6}\"",
    ];
    leaf.prop_recursive(5, 60, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5)
                .prop_map(|items| format!("[{}]", items.join(", "))),
            proptest::collection::vec(("[a-d]", inner), 0..5).prop_map(|members| {
                let members = members.iter().map(|(name, value)| format!("\"{name}\" : {value}"));
                format!("{{{}}}", members.collect::<Vec<_>>().join(","))
            }),
        ]
    })
}

fn paths() -> impl Strategy<Value = String> {
    const MATCHES: &str = "\\$(\\.[a-d]|\\.\\*|\\.\\.[a-d]|\\.\\.\\*|\\[-?[1-3]\\]|\\[0\\]|\\[1:\\]|\\[\\?@\\.a\\]|\\[0,0\\]){0,3}";
    prop_oneof![MATCHES, "\\.?[a-d](\\.[a-d]|\\[0\\]){0,2}", Just(".".to_owned())]
}

fn commands() -> impl Strategy<Value = Vec<String>> {
    let number = || prop_oneof!["-?[0-5]", Just("9223372036854775807".to_owned()), "-?[0-9]\\.5"];
    let (key, path) = (|| Just("d".to_owned()), paths);
    let with = |name: &'static str, rest: BoxedStrategy<Vec<String>>| {
        (Just(name.to_owned()), key(), path(), rest)
            .prop_map(|(name, key, path, rest)| [vec![name, key, path], rest].concat())
            .boxed()
    };
    let none = || Just(Vec::new()).boxed();
    let one = || texts().prop_map(|text| vec![text]).boxed();
    let numbers = |count: usize| proptest::collection::vec(number(), count).boxed();
    prop_oneof![
        with("JSON.SET", one()),
        with("JSON.SET", texts().prop_map(|text| vec![text, "NX".into()]).boxed()),
        with("JSON.MERGE", one()),
        with("JSON.GET", none()),
        with("JSON.DEL", none()),
        with("JSON.TYPE", none()),
        with("JSON.NUMINCRBY", numbers(1)),
        with("JSON.NUMMULTBY", numbers(1)),
        with("JSON.STRAPPEND", one()),
        with("JSON.ARRAPPEND", one()),
        with("JSON.ARRINDEX", (texts(), number(), number()).prop_map(|(a, b, c)| vec![a, b, c]).boxed()),
        with("JSON.ARRINSERT", (number(), texts()).prop_map(|(a, b)| vec![a, b]).boxed()),
        with("JSON.ARRPOP", numbers(1)),
        with("JSON.ARRTRIM", numbers(2)),
        with("JSON.TOGGLE", none()),
        with("JSON.CLEAR", none()),
        with("JSON.RESP", none()),
        with("JSON.OBJKEYS", none()),
        with("JSON.MSET", texts().prop_map(|text| vec![text, "e".into(), "$".into(), "1".into()]).boxed()),
    ]
}

proptest! {
    /// Formatted text parses to the same value, and formats to the same text.
    #[test]
    fn the_compact_form_is_its_own(text in texts()) {
        let once = document::normal(text.as_bytes()).unwrap();
        prop_assert_eq!(document::normal(once.as_bytes()).unwrap(), once.clone());
        let compact: serde_json::Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(document::parse(once.as_bytes()).unwrap(), compact);
    }

    #[test]
    fn an_error_changes_nothing(text in texts(), commands in proptest::collection::vec(commands(), 1..8)) {
        let mut desk = Desk::new();
        desk.run_args(&["JSON.SET", "d", "$", &text]);
        for command in commands {
            let (revision, before) = (desk.keys.revision(), desk.keys.dump().unwrap());
            let reply = desk.run_args(&command);
            if reply.is_error() {
                prop_assert_eq!(desk.keys.revision(), revision, "{:?}", command);
                prop_assert_eq!(&desk.keys.dump().unwrap(), &before, "{:?}", command);
            }
            if let Some(stored) = desk.keys.json(b"d", desk.now).unwrap() {
                let text = String::from_utf8(stored.to_vec()).unwrap();
                prop_assert_eq!(document::normal(text.as_bytes()).unwrap(), text.clone(), "{:?}", command);
            }
        }
    }
}
