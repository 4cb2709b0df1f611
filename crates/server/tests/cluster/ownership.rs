//! Which node runs a command: exactly one for each slot, over RESP and over HTTP.

use keystead_core::key::slot;
use serde_json::{Value, json};

use crate::Nodes;

/// A key of every slot.
fn key_of_every_slot() -> Vec<String> {
    let (mut keys, mut missing) = (vec![String::new(); 16_384], 16_384);
    for n in 0.. {
        let key = format!("k{n}");
        let at = &mut keys[usize::from(slot(key.as_bytes()))];
        if at.is_empty() {
            *at = key;
            missing -= 1;
            if missing == 0 {
                break;
            }
        }
    }
    keys
}

#[test]
fn every_slot_has_exactly_one_owner_that_accepts() {
    let Some(nodes) = Nodes::start(&["--shards", "2"]) else { return };
    let keys = key_of_every_slot();
    let mut owners = vec![Vec::new(); keys.len()];
    let mut named = vec![Vec::new(); keys.len()];
    for node in 0..3 {
        let mut client = nodes.resp(node);
        for (chunk, at) in keys.chunks(1024).zip((0..).step_by(1024)) {
            let lines: Vec<String> = chunk.iter().map(|key| format!("SET {key} {node}")).collect();
            for (reply, slot) in client.ask_all(lines.iter().map(String::as_str)).into_iter().zip(at..) {
                match reply.strip_prefix(&format!("-MOVED {slot} 127.0.0.1:")) {
                    Some(port) => named[slot].push(port.parse::<u16>().unwrap()),
                    None => {
                        assert_eq!(reply, "+OK");
                        owners[slot].push(node);
                    }
                }
            }
        }
    }
    let mut counts = [0; 3];
    for (owners, named) in owners.iter().zip(named) {
        assert_eq!(owners.len(), 1);
        counts[owners[0]] += 1;
        assert_eq!(named, [nodes.ports[2 * owners[0]]; 2]);
    }
    assert_eq!(counts.iter().sum::<usize>(), 16_384);
    assert!(counts.iter().all(|count| (5461..=5462).contains(count)), "{counts:?}");
    for (node, count) in counts.iter().enumerate() {
        assert_eq!(
            nodes.resp(node).ask("DBSIZE"),
            format!(":{count}"),
            "nothing was written where it was rejected"
        );
        let metrics = nodes.http(node).get("/metrics");
        let id = crate::IDS[node];
        for line in [
            format!("keystead_cluster_slots{{node=\"{id}\"}} {count}"),
            format!("keystead_cluster_epoch{{node=\"{id}\"}} 1"),
            format!("keystead_cluster_table_broken{{node=\"{id}\"}} 0"),
            format!("keystead_cluster_redirects_total{{node=\"{id}\"}} {}", 16_384 - count),
        ] {
            assert!(metrics.text().contains(&line), "{line}");
        }
    }
}

#[test]
fn a_node_describes_its_cluster() {
    let Some(nodes) = Nodes::start(&[]) else { return };
    let mut client = nodes.resp(1);
    client.expect(&[
        ("READONLY", "+OK"),
        ("READWRITE", "+OK"),
        ("ASKING", "+OK"),
        ("CLUSTER KEYSLOT foo", ":12182"),
    ]);
    let info = client.ask("CLUSTER INFO");
    assert!(info.starts_with("cluster_state:ok\\r\\ncluster_slots_assigned:16384\\r\\n"), "{info}");
    assert!(client.ask("INFO cluster").contains("cluster_enabled:1"));
    assert!(client.ask("INFO server").contains("redis_mode:cluster"));
    assert_eq!(client.ask("CONFIG GET cluster-enabled"), "[cluster-enabled yes]");
    let lines = client.ask("CLUSTER NODES");
    let mine = lines.split("\\n").find(|line| line.contains(" myself,master ")).unwrap();
    let address = format!(" 127.0.0.1:{}@0 ", nodes.ports[2]);
    assert!(mine.starts_with(&client.ask("CLUSTER MYID")) && mine.contains(&address), "{lines}");
    let [key, second] = nodes.keys_of(1);
    client.expect(&[(&format!("MSET {key} 1 {second} 2"), "+OK")]);
    let slot = slot(key.as_bytes());
    client.expect(&[
        (&format!("CLUSTER COUNTKEYSINSLOT {slot}"), ":2"),
        (&format!("CLUSTER GETKEYSINSLOT {slot} 10"), &format!("[{key} {second}]")),
    ]);
}

#[test]
fn over_http_another_node_is_named_with_its_url_and_the_epoch() {
    let Some(nodes) = Nodes::start(&[]) else { return };
    let ([mine, also_mine], [theirs, also_theirs]) = (nodes.keys_of(0), nodes.keys_of(1));
    let mut http = nodes.http(0);
    let path = |key: &str| format!("/kv/{}", key.replace('{', "%7B").replace('}', "%7D"));
    assert_eq!(http.ask("PUT", &path(&mine), &[], b"1").status, 201);
    let slot = slot(theirs.as_bytes());
    let owner = format!("http://127.0.0.1:{}", nodes.ports[3]);
    let batch = |keys: [&str; 2]| {
        let get = |key: &str| json!({"op": "get", "key": key});
        json!({ "operations": keys.map(get) }).to_string()
    };
    for (method, target, body) in [
        ("GET", path(&theirs), String::new()),
        ("PUT", path(&theirs), "1".to_owned()),
        ("PATCH", path(&theirs), "{}".to_owned()),
        ("DELETE", path(&theirs), String::new()),
        ("POST", "/kv:batch".to_owned(), batch([&theirs, &also_theirs])),
    ] {
        let response = http.ask(method, &target, &[], body.as_bytes());
        let expected = json!({"error": {
            "code": "moved", "message": "another node of the cluster owns this key",
            "slot": slot, "node": "b", "owner": owner, "epoch": 1,
        }});
        assert_eq!((response.status, response.json()), (421, expected), "{method}");
        assert_eq!(response.header("keystead-owner"), Some(owner.as_str()));
        assert_eq!(response.header("keystead-epoch"), Some("1"));
    }
    assert_eq!(http.post("/kv:batch", &batch([&mine, &also_mine])).status, 200);
    let crossed = http.post("/kv:batch", &batch([&mine, &theirs]));
    assert_eq!((crossed.status, &crossed.json()["error"]["code"]), (400, &json!("bad_request")));
    let mut right = nodes.http(1);
    assert_eq!(right.ask("PUT", &path(&theirs), &[], b"1").status, 201);
}

#[test]
fn over_rest_the_errors_are_those_of_redis() {
    let Some(nodes) = Nodes::start(&[]) else { return };
    let ([mine, also_mine], [theirs, _]) = (nodes.keys_of(0), nodes.keys_of(2));
    let mut http = nodes.http(0);
    let moved = format!("MOVED {} 127.0.0.1:{}", slot(theirs.as_bytes()), nodes.ports[4]);
    let single = http.post("/", &json!(["GET", theirs]).to_string());
    assert_eq!((single.status, single.error()), (400, moved.clone()));
    let pipeline = json!([["SET", mine, "1"], ["GET", theirs], ["GET", mine]]);
    let expected: Value = json!([{"result": "OK"}, {"error": moved}, {"result": "1"}]);
    assert_eq!(http.post("/pipeline", &pipeline.to_string()).json(), expected);
    let both = json!([["SET", mine, "2"], ["INCR", also_mine]]);
    assert_eq!(http.post("/multi-exec", &both.to_string()).status, 200);
    let crossed = http.post("/multi-exec", &json!([["SET", mine, "3"], ["SET", theirs, "3"]]).to_string());
    assert!(crossed.error().contains("MOVED"), "{crossed:?}");
    assert_eq!(http.post("/", &json!(["GET", mine]).to_string()).json(), json!({"result": "2"}));
}

/// A policy on the database is on the node of its key.
#[test]
fn a_limit_is_on_the_node_of_its_key() {
    let settings = "[limit.login]\nlimit = 5\nperiodMs = \"1m\"\nfail = \"closed\"\n";
    let Some(nodes) = Nodes::start_with(settings) else { return };
    let mut statuses = Vec::new();
    for node in 0..3 {
        let mut http = nodes.http(node);
        let response = http.post("/limit/login", r#"{"key":"ada"}"#);
        assert_eq!(response.status == 421, response.json()["error"]["code"] == "moved");
        let many = http.post("/limit/login/check", r#"{"keys":[{"key":"ada"}]}"#).status;
        let peek = http.get("/limit/login/ada").status;
        let reset = http.ask("DELETE", "/limit/login/ada", &[], b"").status;
        let combined = http.post("/limit", r#"{"checks":[{"policy":"login","key":"ada"}]}"#).status;
        statuses.push([response.status, many, peek, reset, combined]);
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [[200; 5], [421; 5], [421; 5]]);
}
