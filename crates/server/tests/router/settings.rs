//! `--nodes`, tokens, headers, health and metrics of a router.

use crate::client::Http;
use crate::common::{dir, only_line, run, run_in};
use crate::{Cluster, NAMES};

#[test]
fn a_bad_list_of_nodes_is_one_line_that_says_what_to_write() {
    for (list, words) in [
        ("10.0.0.1:8080", "does not begin with http://"),
        ("https://a:1", "without TLS"),
        ("http://a", "is not an address"),
        ("http://a:1,http://a:1", "lists a:1 twice"),
        ("http://a:1,,http://b:1", "has an empty entry"),
        ("a b=http://a:1", "has an invalid name"),
    ] {
        let line = only_line(2, &run(&["router", "--nodes", list]));
        assert!(line.contains("--nodes") && line.contains(words), "{list}: {line}");
        let line = only_line(2, &run_in(dir().path(), &["router"], &[("NODES", list)]));
        assert!(line.starts_with("NODES ") && line.contains(words), "{list}: {line}");
    }
    let line = only_line(2, &run(&["router"]));
    assert!(line.starts_with("no nodes: list them"), "{line}");
    let line = only_line(2, &run(&["router", "--nodes", "http://a:1", "--data", "x"]));
    assert!(line.starts_with("--data has no effect with --nodes"), "{line}");
    let line = only_line(
        2,
        &run(&["router", "--nodes", "a=http://a:1,a=redis://a:2,b=http://b:1", "--resp", "127.0.0.1:0"]),
    );
    assert!(line.contains("no redis:// address of node 'b'"), "{line}");
    let line = only_line(2, &run(&["router", "--nodes", "http://a:1", "--cluster", "memory:"]));
    assert!(line.starts_with("--nodes and --cluster are both set"), "{line}");
    let line = only_line(2, &run(&["--nodes", "http://a:1"]));
    assert!(line.starts_with("--nodes has no effect on keystead serve"), "{line}");
    let line = only_line(2, &run(&["router", "--nodes", "http://a:1", "--http", "off", "--resp", "off"]));
    assert!(line.starts_with("--http is off"), "{line}");
    let line =
        only_line(2, &run(&["router", "--nodes", "http://a:1", "--resp", "off", "--http", "0.0.0.0:0"]));
    assert!(line.contains("no token is set"), "{line}");
}

#[test]
fn the_list_may_be_a_variable() {
    let cluster = Cluster::start();
    for name in ["NODES", "KEYSTEAD_NODES"] {
        let router = crate::common::launch(&["router"]).env(name, &cluster.list).start().unwrap();
        assert_eq!(Http::connect(&router).get("/get/a").status, 200);
        assert!(router.line("node").unwrap().starts_with("node a (http://127.0.0.1:"));
    }
}

const TOKEN: &str = "Authorization: Bearer full-token-of-this-test";
const READER: &str = "Authorization: Bearer reading-token-of-this-test";

#[test]
fn the_router_checks_the_token_and_the_nodes_what_it_may_do() {
    let tokens = ["--token", "full-token-of-this-test", "--read-only-token", "reading-token-of-this-test"];
    let cluster =
        Cluster::with(&[&["--durability", "memory"], &tokens[..]].concat(), |router| router.args(tokens));
    let mut http = cluster.http();
    http.get("/kv/a").expect_error(401, "unauthorized");
    http.ask("GET", "/kv/a", &["Authorization: Bearer wrong"], b"").expect_error(401, "unauthorized");
    assert_eq!(http.ask("PUT", "/kv/a", &[TOKEN], b"1").status, 201);
    assert_eq!(http.ask("GET", "/kv/a", &[READER], b"").status, 200);
    assert_eq!(http.get("/kv/a?_token=reading-token-of-this-test").status, 200);
    http.ask("PUT", "/kv/a", &[READER], b"1").expect_error(403, "forbidden");
    // Parts of a request have its token, too.
    let pipeline = br#"[["GET","x1"],["GET","x2"],["GET","x3"],["SET","x4",1]]"#;
    let replies = http.ask("POST", "/pipeline?_token=reading-token-of-this-test", &[], pipeline);
    assert_eq!(replies.json()[0], serde_json::json!({"result": null}));
    assert!(replies.json()[3]["error"].as_str().unwrap().starts_with("NOPERM "));
    assert_eq!(http.ask("GET", "/kv", &[TOKEN], b"").lines().len(), 2);
    let denied = http.ask("GET", "/kv", &[READER], b"").lines();
    assert_eq!(denied[0]["failed"].as_array().unwrap().len(), 3, "{denied:?}");
    assert_eq!(http.get("/metrics").status, 401);
    assert_eq!(http.ask("GET", "/metrics", &[TOKEN], b"").status, 200);
    assert_eq!(http.get("/healthz").status, 200);
}

#[test]
fn without_a_token_only_this_machine_is_served() {
    let cluster = Cluster::start();
    let mut http = cluster.http();
    http.send_raw(b"GET /kv/a HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    http.try_receive("GET").unwrap().expect_error(403, "forbidden");
    http.ask("GET", "/kv/a", &["Origin: https://evil.example"], b"").expect_error(401, "unauthorized");
    let page = http.ask("GET", "/kv/a", &["Origin: http://localhost:3000"], b"");
    assert_eq!((page.status, page.header("access-control-allow-origin")), (404, Some("*")));
    assert_eq!(http.ask("OPTIONS", "/kv/a", &["Origin: http://localhost:3000"], b"").status, 204);
}

#[test]
fn health_and_metrics_are_those_of_the_router() {
    let cluster = Cluster::start();
    let mut http = cluster.http();
    let health = http.get("/healthz").json();
    assert_eq!((&health["status"], health["nodes"].as_array().unwrap().len()), (&"ok".into(), 3), "{health}");
    let (http_of_a, resp_of_a) = (cluster.nodes[0].url(""), cluster.nodes[0].resp().unwrap());
    let slots = health["nodes"][0]["slots"].as_u64().unwrap();
    let expected = serde_json::json!({"id": "a", "http": http_of_a, "resp": format!("redis://{resp_of_a}"), "slots": slots});
    assert_eq!(health["nodes"][0], expected);
    assert_eq!(http.get("/readyz").json(), serde_json::json!({"status": "ready"}));
    http.put("/kv/a", "1");
    http.ask("DELETE", "/healthz", &[], b"").expect_error(405, "method_not_allowed");
    http.get("/openapi.json").expect_error(501, "unsupported");
    let metrics = http.get("/metrics");
    let text = metrics.text();
    for name in NAMES {
        assert!(text.contains(&format!("keystead_router_node_up{{node=\"{name}\"}} 1")), "{text}");
        let slots = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("keystead_router_node_slots{{node=\"{name}\"}} ")));
        assert!(["5461", "5462"].contains(&slots.unwrap()), "{text}");
    }
    assert!(
        text.contains(r#"keystead_router_http_requests_total{route="/kv/*",method="PUT",status="201"} 1"#),
        "{text}"
    );
}

#[test]
fn hop_by_hop_headers_are_not_passed_on() {
    let cluster = Cluster::start();
    let mut http = cluster.http();
    // The condition is named as one of the connection, so it is not the node's.
    let put = http.ask("PUT", "/kv/hop", &["Connection: If-Match", "If-Match: \"77\""], b"1");
    assert_eq!(put.status, 201, "{}", put.text());
    let put = http.ask("PUT", "/kv/hop", &["If-Match: \"77\""], b"1");
    assert_eq!(put.status, 412);
}
