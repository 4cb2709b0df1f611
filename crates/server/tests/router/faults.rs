//! Nodes that are killed and restarted, and connections that break.

use std::io::Read;
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use keystead_core::Stopwatch;

use crate::client::Http;
use crate::resp::until;
use crate::{Cluster, router};

#[test]
fn a_killed_node_is_an_error_at_once_and_works_again_after_its_restart() {
    let mut cluster = Cluster::start();
    let keys = cluster.keys("k");
    let mut http = cluster.http();
    for key in &keys {
        assert_eq!(http.put(&format!("/kv/{key}"), "1").status, 201);
    }
    cluster.nodes[2].kill().unwrap();
    let watch = Stopwatch::start();
    let dead = format!("/kv/{}", keys[2]);
    // A request on a connection that was open may still be lost.
    until("the lost connections are noticed", || http.get(&dead).status == 503);
    let error = http.get(&dead).expect_error(503, "node_unreachable");
    assert!(error["message"].as_str().unwrap().starts_with("node c (http://127.0.0.1:"), "{error}");
    let error = http.put(&dead, "2").expect_error(503, "node_unreachable");
    assert_eq!(error.get("outcome"), None, "nothing was sent: {error}");
    let command = http.post("/", &format!(r#"["GET","{}"]"#, keys[2]));
    assert!(command.status == 503 && command.error().starts_with("ERR node c ("), "{command:?}");
    for key in &keys[..2] {
        assert_eq!(http.get(&format!("/kv/{key}")).json()["value"], 1);
    }
    // A pipeline has the replies of the others.
    let commands: Vec<String> = keys.iter().map(|key| format!(r#"["EXISTS","{key}"]"#)).collect();
    let replies = http.post("/pipeline", &format!("[{}]", commands.join(","))).json();
    assert_eq!((&replies[0]["result"], &replies[1]["result"]), (&1.into(), &1.into()));
    let error = replies[2]["error"].as_str().unwrap();
    assert!(error.starts_with("ERR node c (") && !error.contains("unknown"), "{error}");
    assert!(watch.elapsed() < Duration::from_secs(5), "{:?}", watch.elapsed());
    let health = http.get("/healthz").json();
    assert!(
        health["status"] == "degraded" && health["reasons"][0].as_str().unwrap().contains("node c ("),
        "{health}"
    );
    assert_eq!(http.get("/readyz").status, 200);
    cluster.nodes[2].restart().unwrap();
    assert_eq!(http.get(&dead).json()["value"], 1);
    assert_eq!(http.put(&dead, "2").status, 200);
    assert_eq!(http.get("/healthz").json()["status"], "ok");
    for words in ["does not reply", "replies again"] {
        cluster.router.wait_for_log(words).unwrap();
    }
}

#[test]
fn without_requests_health_says_whether_nodes_reply() {
    let mut cluster = Cluster::start();
    let mut http = cluster.http();
    for node in &mut cluster.nodes {
        node.kill().unwrap();
    }
    until("all are missed", || http.get("/readyz").status == 503);
    assert_eq!(http.get("/healthz").json()["reasons"].as_array().unwrap().len(), 3);
    cluster.nodes[0].restart().unwrap();
    until("one is found", || http.get("/readyz").status == 200);
}

#[test]
fn idle_connections_that_a_node_has_closed_are_no_error() {
    let mut cluster = Cluster::start();
    let keys = cluster.keys("k");
    let mut http = cluster.http();
    for _ in 0..3 {
        // A restart closes the idle connections of the router, which then sends on new ones.
        cluster.nodes[0].restart().unwrap();
        let put = http.put(&format!("/kv/{}", keys[0]), "1");
        assert!([200, 201].contains(&put.status), "{}", put.text());
    }
}

/// A node that reads a request and closes the connection without a response.
fn closing() -> (String, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("x=http://{}", listener.local_addr().unwrap());
    let serving = thread::spawn(move || {
        // Some of them are checks of the router.
        for stream in listener.incoming().take(50) {
            let mut buffer = [0; 4096];
            let _ = stream.unwrap().read(&mut buffer);
        }
    });
    (url, serving)
}

#[test]
fn a_write_whose_connection_is_lost_is_of_unknown_outcome() {
    let (url, _serving) = closing();
    let router = router(&url).start().unwrap();
    let mut http = Http::connect(&router);
    let error = http.put("/kv/a", "1").expect_error(502, "node_lost");
    assert_eq!(error["outcome"], "unknown", "{error}");
    let error = http.get("/kv/a").expect_error(502, "node_lost");
    assert_eq!(error.get("outcome"), None, "a read changes nothing: {error}");
    let response = http.post("/", r#"["SET","a",1]"#);
    assert_eq!(response.status, 502);
    assert!(response.error().ends_with("it is unknown whether the request was applied"), "{response:?}");
    let response = http.post("/", r#"["GET","a"]"#);
    assert!(response.status == 502 && !response.error().contains("unknown"), "{response:?}");
}
