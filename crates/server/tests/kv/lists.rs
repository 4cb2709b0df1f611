//! `GET /kv`: keys, documents, prefixes, pages, lines.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::client::Http;
use crate::resp::Client;
use crate::{differs, memory};

fn names(value: &Value) -> BTreeSet<String> {
    let items = value.as_array().unwrap();
    let set: BTreeSet<String> = items.iter().map(|name| name.as_str().unwrap().to_owned()).collect();
    assert_eq!(set.len(), items.len(), "each is listed once");
    set
}

#[test]
fn all_documents_are_listed_once_on_any_number_of_shards() {
    for shards in ["1", "16"] {
        let server = memory(&["--shards", shards]);
        let mut http = Http::connect(&server);
        assert_eq!(http.get("/kv").text(), "[]\n");
        let operations = (0..3000).map(|n| format!(r#"["JSON.SET","d:{n}","$","{n}"]"#)).collect::<Vec<_>>();
        assert_eq!(http.post("/pipeline", &format!("[{}]", operations.join(","))).status, 200);
        let mut redis = Client::connect(&server);
        redis.expect(&[("SET s text", "+OK"), ("RPUSH l 1", ":1"), ("HSET h f v", ":1")]);
        let all = listed(&mut http, "/kv?");
        assert_eq!(all.len(), 3001, "those that are documents: JSON and strings");
        assert!(all.contains("s") && !all.contains("l") && !all.contains("h"));
        assert_eq!(listed(&mut http, "/kv?prefix=d:29").len(), 111);
        assert_eq!(http.get("/kv?prefix=nosuch").text(), "[]\n");
        pages(&mut http, &all);
        if !differs("GET /kv without limit") {
            lines(&mut http);
        }
    }
}

/// All names that a request without a limit lists: in one response, or in pages of at most a thousand.
pub(crate) fn listed(http: &mut Http, target: &str) -> BTreeSet<String> {
    let (mut all, mut cursor) = (BTreeSet::new(), String::new());
    loop {
        let response = http.get(&format!("{target}{cursor}"));
        assert_eq!(response.header("content-type"), Some("application/json"));
        let page = names(&response.json());
        let next = response.header("keystead-cursor");
        assert!(next.is_none() || differs("GET /kv without limit") && page.len() <= 1000);
        assert!(page.is_disjoint(&all));
        all.extend(page);
        let Some(next) = next else { return all };
        cursor = format!("&cursor={next}");
    }
}

fn pages(http: &mut Http, all: &BTreeSet<String>) {
    let (mut seen, mut cursor, mut rounds) = (BTreeSet::new(), String::new(), 0);
    loop {
        let response = http.get(&format!("/kv?limit=700{cursor}"));
        let page = names(&response.json());
        assert!(page.len() <= 700 && page.is_disjoint(&seen));
        seen.extend(page);
        rounds += 1;
        match response.header("keystead-cursor") {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(&seen, all);
    assert!(rounds >= 5, "{rounds}");
}

fn lines(http: &mut Http) {
    let accept = ["Accept: application/x-ndjson"];
    let response = http.ask("GET", "/kv?prefix=d:&values=true", &accept, b"");
    assert_eq!(response.header("content-type"), Some("application/x-ndjson"));
    assert_eq!(response.header("transfer-encoding"), Some("chunked"));
    let mut count = 0;
    for line in response.text().lines() {
        let one: Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (one["key"].as_str().unwrap(), &one["version"]),
            (&*format!("d:{}", one["value"]), &1.into())
        );
        count += 1;
    }
    assert_eq!(count, 3000);
    let response = http.ask("GET", "/kv?prefix=s", &accept, b"");
    assert_eq!(response.text(), "{\"key\":\"s\"}\n");
    let response = http.get("/kv?prefix=s&values=true");
    assert_eq!(response.text().trim_end(), r#"[{"key":"s","value":"text","version":1}]"#);
    let response = http.ask("GET", "/kv?prefix=nosuch", &accept, b"");
    assert_eq!((response.status, response.text()), (200, ""));
}

#[test]
fn a_page_of_large_documents_ends_early_with_a_cursor() {
    let server = memory(&[]);
    let mut http = Http::connect(&server);
    let large = |len: usize| format!("\"{}\"", "x".repeat(len));
    let large = match differs("size of one key's string or document, or of one element") {
        true => {
            assert_eq!(http.put("/kv/0", &large(3 * 1024 * 1024)).status, 413);
            large(1024 * 1024)
        }
        false => large(2 * 1024 * 1024),
    };
    for n in 0..40 {
        assert_eq!(http.put(&format!("/kv/{n}"), &large).status, 201);
    }
    let (mut count, mut cursor) = (0, String::new());
    loop {
        let response = http.get(&format!("/kv?limit=1000&values=true{cursor}"));
        assert!(response.body.len() < 60 * 1024 * 1024, "{}", response.body.len());
        count += response.json().as_array().unwrap().len();
        let Some(next) = response.header("keystead-cursor") else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(count, 40);
}
