//! Paths: examples, comparison with another implementation, and hostile ones.

use proptest::prelude::*;
use serde_json::Value;
use serde_json_path::JsonPath;

use super::{Order, Path, PathFlaw};
use crate::bounds::{JSON_DEPTH_MAX, JSON_PATH_BYTES_MAX, JSON_PATH_NESTING_MAX};
use crate::families::json::document::parse;
use crate::families::json::location::at_mut;

fn select(path: &str, text: &str) -> String {
    let root = parse(text.as_bytes()).unwrap();
    let path = Path::read(path.as_bytes()).unwrap_or_else(|flaw| panic!("{path}: {flaw:?}"));
    let values = path.values(&root, Order::OuterFirst).unwrap();
    let mut copy = root.clone();
    for (location, value) in path.locations(&root, Order::OuterFirst).unwrap() {
        assert_eq!(at_mut(&mut copy, &location), Some(&mut value.clone()), "{location:?}");
    }
    serde_json::to_string(&values).unwrap()
}

#[test]
fn paths_select_values() {
    let store =
        r#"{"a":{"b":[10,20,30],"c-d":1},"x":[{"n":1,"s":"foo"},{"n":2.0,"s":"bar"},{"s":"foobar"}],"é":[]}"#;
    for (path, found) in [
        ("$", format!("[{store}]").as_str()),
        (".", format!("[{store}]").as_str()),
        ("$.a.b", "[[10,20,30]]"),
        ("a.b[0]", "[10]"),
        (".a.b[-1]", "[30]"),
        ("$.a.b[3]", "[]"),
        ("$['a'][\"b\"][1]", "[20]"),
        ("$.a.c-d", "[1]"),
        ("$.['a'].['c-d']", "[1]"),
        ("[\"a\"][\"c-d\"]", "[1]"),
        ("$.é", "[[]]"),
        ("$.a.b[0,2]", "[10,30]"),
        ("$.a.b[ 0 , 'x' , -1 ]", "[10,30]"),
        ("$.a.b[1:]", "[20,30]"),
        ("$.a.b[:-1]", "[10,20]"),
        ("$.a.b[::2]", "[10,30]"),
        ("$.a.b[::-1]", "[30,20,10]"),
        ("$.a.b[0:3:0]", "[]"),
        ("$.a.b[-9007199254740991:9007199254740991:9007199254740991]", "[10]"),
        ("$.a.*", "[[10,20,30],1]"),
        ("$.a[*][*]", "[10,20,30]"),
        ("$..n", "[1,2.0]"),
        ("$..[0]", "[10,{\"n\":1,\"s\":\"foo\"}]"),
        ("$.x[?(@.n==1)].s", "[\"foo\"]"),
        ("$.x[?@.n>1].s", "[\"bar\"]"),
        ("$.x[?@.n].s", "[\"foo\",\"bar\"]"),
        ("$.x[?!@.n].s", "[\"foobar\"]"),
        ("$.x[?(@.n>=1&&@.s=='foo')||@.s=='foobar'].s", "[\"foo\",\"foobar\"]"),
        ("$.x[?@.s =~ 'foo'].s", "[\"foo\",\"foobar\"]"),
        ("$.x[?(@.s =~ \"^foo$\")].s", "[\"foo\"]"),
        ("$.x[?search(@.s, 'oo')].s", "[\"foo\",\"foobar\"]"),
        ("$.x[?match(@.s, 'fo+')].s", "[\"foo\"]"),
        ("$.x[?length(@.s)==3].s", "[\"foo\",\"bar\"]"),
        ("$.x[?count(@.*)==1].s", "[\"foobar\"]"),
        ("$.x[?value(@..n)==2].s", "[\"bar\"]"),
        ("$.x[?@.n==$.a.c-d].s", "[\"foo\"]"),
        ("$.x[?@.q==@.r].s", "[\"foo\",\"bar\",\"foobar\"]"),
        ("$.a[?@[0]==10]", "[[10,20,30]]"),
        ("$.x[?@.n!='1'].s", "[\"foo\",\"bar\",\"foobar\"]"),
        ("$.x[?@.s<'foo'].s", "[\"bar\"]"),
        ("$.x[?@.q<=@.r].n", "[1,2.0]"),
        ("$.x[?@.q>=@.r].n", "[1,2.0]"),
        ("$.x[?@.q<@.r].n", "[]"),
        ("$.a[?@[-3]==10]", "[[10,20,30]]"),
    ] {
        assert_eq!(select(path, store), found, "{path}");
    }
    assert_eq!(
        select("$[?@==9007199254740993]", "[9007199254740992,9007199254740993]"),
        "[9007199254740993]"
    );
    assert_eq!(select(r#"$["\u00e9\n\"'"]"#, r#"{"é\n\"'":1}"#), "[1]");
}

#[test]
fn inner_matches_come_first_in_upstash() {
    let root = parse(br#"{"a":2,"b":3,"nested":{"a":4,"b":null,"more":{"a":5}},"list":[{"a":6}]}"#).unwrap();
    let path = Path::read(b"$..a").unwrap();
    let values = |order| serde_json::to_string(&path.values(&root, order).unwrap()).unwrap();
    assert_eq!(
        (values(Order::OuterFirst), values(Order::InnerFirst)),
        ("[2,4,5,6]".into(), "[5,4,6,2]".into())
    );
}

#[test]
fn an_invalid_path_is_an_error() {
    for path in [
        "",
        "$.",
        "$..",
        "$[",
        "$[]",
        "$['a'",
        "$['a]",
        "$[1",
        "$[01]",
        "$[-0]",
        "$[1.5]",
        "$[a]",
        "$.a b",
        "$.a]",
        "$[?]",
        "$[?@",
        "$[?@.a==]",
        "$[?1]",
        "$[?'a']",
        "$[?@.a=1]",
        "$[?foo(@)]",
        "$[?length(1,2)==1]",
        "$[?(@.a]",
        "$[?length(@)]",
        "$[?count(1)==1]",
        "$[?match(@,'a')==true]",
        "$[9007199254740992]",
        "$['\\x']",
        "$['\\ud800']",
        "$.a..",
        "$[?@.a==01]",
        "$[?!=1]",
        "a..",
        "$[1:2:3:4]",
        "$[,]",
        "$[1,]",
        "\u{0}",
        " ",
    ] {
        assert!(matches!(Path::read(path.as_bytes()), Err(PathFlaw::NotPath(..))), "{path}");
    }
    assert!(Path::read(b"$.\xff").is_err());
}

#[test]
fn a_path_has_a_length_and_a_nesting() {
    let long = |len: usize| format!("$.{}", "a".repeat(len - 2));
    assert!(Path::read(long(JSON_PATH_BYTES_MAX).as_bytes()).is_ok());
    assert!(Path::read(long(JSON_PATH_BYTES_MAX + 1).as_bytes()).is_err());
    let nested = |open: &str, close: &str, levels: usize| {
        let path = format!("$[?{}@.a{}]", open.repeat(levels), close.repeat(levels));
        Path::read(path.as_bytes()).map(|_| ())
    };
    for (open, close) in [("(", ")"), ("!", ""), ("@[?", "]"), ("!(", ")")] {
        assert!(nested(open, close, 1).is_ok(), "{open}");
        assert!(nested(open, close, JSON_PATH_NESTING_MAX + 1).is_err(), "{open}");
        assert!(nested(open, close, JSON_PATH_BYTES_MAX / 4 - 8).is_err(), "{open}");
    }
}

/// A document of the maximum depth, with another value on every level.
fn deepest() -> Value {
    let levels = JSON_DEPTH_MAX;
    parse(format!("{}1{}", "[0,".repeat(levels), "]".repeat(levels)).as_bytes()).unwrap()
}

#[test]
fn hostile_paths_end() {
    let wide = parse(format!("[{}1]", "1,".repeat(3000)).as_bytes()).unwrap();
    let ends = |path: &str, root: &Value| {
        let path = Path::read(path.as_bytes()).unwrap();
        let (values, locations) =
            (path.values(root, Order::OuterFirst), path.locations(root, Order::InnerFirst));
        assert!(matches!(values, Err(PathFlaw::TooLong | PathFlaw::TooMany)), "{}", path.text());
        assert!(locations.is_err());
    };
    ends("$..*..*..*..*..*", &deepest());
    ends("$[?@..[?@..[?@..[?$..*==1]==1]==1]==1]", &deepest());
    let inner: String = (1..JSON_PATH_NESTING_MAX).fold("1".into(), |inner, _| format!("$..[?{inner}==1]"));
    Path::read(inner.as_bytes()).unwrap_err();
    let inner = (1..JSON_PATH_NESTING_MAX / 2 - 1).fold("@".to_owned(), |inner, _| format!("$..[?{inner}]"));
    ends(&inner.replacen('@', "@.zz", 1), &deepest());
    ends("$[?count($[?count($[?@==1])==1])==1]", &wide);
    ends(&format!("$[{}*]", "*,".repeat(2000)), &wide);
    ends("$[?$[0]==$[?@=~'x']]", &wide);
    let texts =
        parse(format!("[{}1]", format!("\"{}\",", "a".repeat(1000)).repeat(9000)).as_bytes()).unwrap();
    ends("$[?@ =~ '(a|aa)+$', ?@ =~ '(a+)+b', ?@ =~ $[0], ?match(@, @)]", &texts);
}

#[test]
fn arrays_and_objects_have_no_order() {
    for value in ["[[1]]", "[[]]", r#"[{"a":1}]"#] {
        for op in ["<", ">", "<=", ">="] {
            assert_eq!(select(&format!("$[?$ {op} @]"), value), "[]", "{op}");
            assert_eq!(select(&format!("$[?!($ {op} @)]"), value), value, "{op}");
        }
    }
    assert_eq!(select("$[?@ > $[0]]", "[1,2]"), "[2]");
}

#[test]
fn a_bomb_of_an_expression_matches_nothing() {
    for path in [
        "$[?@ =~ '(a{1000}){1000}']",
        "$[?@ =~ '((((((((((a{10}){10}){10}){10}){10}){10}){10}){10}){10}){10})']",
    ] {
        assert_eq!(select(path, r#"["aaaa"]"#), "[]");
    }
    assert_eq!(select("$[?@ =~ '[']", r#"["["]"#), "[]", "no expression");
    assert_eq!(select("$[?@ =~ 1]", r#"["1"]"#), "[]");
}

fn documents() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|yes| yes.to_string()),
        (-3i64..4).prop_map(|n| n.to_string()),
        (-30i64..40).prop_map(|n| format!("{}", n as f64 / 4.0)),
        "[ab]{0,2}".prop_map(|text| format!("\"{text}\"")),
    ];
    let tree = leaf.prop_recursive(4, 40, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            proptest::collection::btree_map("[abc]", inner, 0..4).prop_map(|members| {
                let members = members.iter().map(|(name, value)| format!("\"{name}\":{value}"));
                format!("{{{}}}", members.collect::<Vec<_>>().join(","))
            }),
        ]
    });
    tree.prop_map(|text| parse(text.as_bytes()).unwrap())
}

fn paths() -> impl Strategy<Value = String> {
    let index = prop_oneof![-4i64..5, Just(0)];
    let end = proptest::option::of(-5i64..6).prop_map(|end| end.map_or(String::new(), |end| end.to_string()));
    let slice = (end.clone(), end.clone(), end).prop_map(|(a, b, c)| format!("{a}:{b}:{c}"));
    // The reference implementation resolves negative indices within filters differently where they reach the first element.
    let query = "[@$](\\.[abc]|\\[[0-2]\\]){0,2}";
    let literal =
        prop_oneof!["-?[0-3]", "[0-2]\\.[05]", "'[ab]{0,2}'", Just("null".into()), Just("true".into())];
    let with_literal = (query, "==|!=|<|<=|>|>=", literal).prop_map(|(a, op, b)| format!("{a} {op} {b}"));
    // In the reference implementation two absent values are equal, but neither <= nor >=, and of two different arrays or objects each is
    // greater than the other, unlike RFC 9535.
    let of_both = (query, "==|!=|<", query).prop_map(|(a, op, b)| format!("{a} {op} {b}"));
    // The reference implementation does not treat an absent length as equal to an absent value, unlike RFC 9535.
    let length =
        (query, "==|!=|<|<=|>|>=", 0..4).prop_map(|(query, op, n)| format!("length({query}) {op} {n}"));
    let comparison = prop_oneof![with_literal, of_both, length];
    let exists = "[@$](\\.[abc]|\\.\\.[abc]|\\[\\*\\]|\\[1:\\]){1,2}";
    let test = prop_oneof![
        comparison,
        exists.prop_map(|query| query),
        query.prop_map(|query| format!("match({query}, 'a.*')"))
    ];
    let test = test.prop_recursive(2, 6, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} && {b}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} || {b})")),
            inner.prop_map(|inner| format!("!({inner})")),
        ]
    });
    let selector = prop_oneof![
        index.prop_map(|index| index.to_string()),
        "'[abc]'",
        Just("*".to_owned()),
        slice,
        test.prop_map(|test| format!("?{test}")),
    ];
    let segment = prop_oneof![
        "\\.[abc]",
        Just(".*".to_owned()),
        "\\.\\.[abc]",
        Just("..*".to_owned()),
        proptest::collection::vec(selector.clone(), 1..3).prop_map(|list| format!("[{}]", list.join(","))),
        selector.prop_map(|selector| format!("..[{selector}]")),
    ];
    proptest::collection::vec(segment, 0..4).prop_map(|segments| format!("${}", segments.concat()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 6000 } else { 60_000 }))]

    /// Both parse the same paths, and select the same values in the same order.
    #[test]
    fn paths_mean_what_rfc_9535_says(root in documents(), path in paths()) {
        let theirs = JsonPath::parse(&path);
        let ours = Path::read(path.as_bytes());
        prop_assert_eq!(theirs.is_ok(), ours.is_ok(), "{} {:?} {:?}", path, theirs, ours);
        let (Ok(theirs), Ok(ours)) = (theirs, ours) else { return Ok(()) };
        let expected = theirs.query(&root).all();
        prop_assert_eq!(&ours.values(&root, Order::OuterFirst).unwrap(), &expected, "{}", path);
        let mut copy = root.clone();
        let locations = ours.locations(&root, Order::OuterFirst).unwrap();
        prop_assert_eq!(locations.len(), expected.len());
        for ((location, value), expected) in locations.into_iter().zip(expected) {
            prop_assert!(std::ptr::eq(value, expected));
            prop_assert_eq!(at_mut(&mut copy, &location), Some(&mut value.clone()));
        }
        let (mut outer, mut inner) = (ours.values(&root, Order::OuterFirst).unwrap(), ours.values(&root, Order::InnerFirst).unwrap());
        outer.sort_by_key(|value| std::ptr::from_ref::<Value>(value));
        inner.sort_by_key(|value| std::ptr::from_ref::<Value>(value));
        prop_assert!(outer.iter().zip(&inner).all(|(a, b)| std::ptr::eq(*a, *b)) && outer.len() == inner.len());
    }

    /// Any input is either a path or rejected.
    #[test]
    fn reading_never_panics(path in "[$@.\\[\\]?*'\"a-c0-3:,()!&|=<>~\\\\u é-]{0,40}", root in documents()) {
        if let Ok(path) = Path::read(path.as_bytes()) {
            let _ = path.locations(&root, Order::OuterFirst);
        }
    }
}
