//! The same requests to a node and to a node of a real Redis Cluster get the same replies.

use keystead_core::key::slot;

use crate::Nodes;
use crate::others::CLUSTER;
use crate::resp::Client;

/// Requests, one connection for each line of them. `OWN` and `OWN2` are keys in a slot of the node, `FAR` and `FAR2` in one of another.
const REQUESTS: [&[&str]; 18] = [
    &["SET OWN 1", "GET OWN", "GET FAR", "SET FAR 1"],
    &["MSET OWN 1 OWN2 2", "MSET OWN 1 FAR 2", "MSET FAR 1 OWN 2", "MGET FAR FAR2"],
    &["MULTI", "SET OWN 1", "SET OWN2 2", "EXEC", "GET OWN2"],
    &["MULTI", "SET FAR 1", "SET OWN 3", "EXEC", "EXEC", "GET OWN"],
    &["MULTI", "MGET OWN FAR", "EXEC"],
    &["MULTI", "PING", "EXEC"],
    &["WATCH FAR", "WATCH OWN", "MULTI", "GET OWN", "EXEC"],
    &["EVAL return(1) 1 FAR", "EVAL return(1) 1 OWN", "EVAL return(1) 2 OWN FAR", "EVAL return(1) 0"],
    &["BLPOP FAR 1", "XREAD STREAMS FAR 0", "ZUNIONSTORE OWN 1 FAR", "RENAME OWN FAR", "SORT FAR"],
    &["SSUBSCRIBE FAR", "SPUBLISH FAR m", "SPUBLISH OWN m", "PUBLISH FAR m"],
    &["READONLY", "GET FAR", "READWRITE", "ASKING", "PING"],
    &["CLUSTER KEYSLOT OWN", "CLUSTER KEYSLOT {x}FAR", "CLUSTER KEYSLOT"],
    &[
        "DEL OWN2",
        "SET OWN 1",
        "CLUSTER COUNTKEYSINSLOT SLOT",
        "CLUSTER GETKEYSINSLOT SLOT 10",
        "CLUSTER GETKEYSINSLOT SLOT 0",
    ],
    &["CLUSTER COUNTKEYSINSLOT x", "CLUSTER COUNTKEYSINSLOT -1", "CLUSTER COUNTKEYSINSLOT 16384"],
    &["CLUSTER GETKEYSINSLOT x 1", "CLUSTER GETKEYSINSLOT 0 -1", "CLUSTER GETKEYSINSLOT 16384 1"],
    &["CLUSTER", "CLUSTER NOSUCH", "CLUSTER INFO x", "READONLY x"],
    &["GET", "NOSUCH FAR", "CONFIG GET cluster-enabled"],
    &["DEL OWN OWN2", "EXISTS OWN OWN2", "DEL OWN FAR"],
];

/// A node of a cluster, with what the words of the requests stand for.
struct Side {
    connect: Box<dyn Fn() -> Client>,
    words: Vec<(&'static str, String)>,
    far_address: String,
}

impl Side {
    /// The replies, with the slots and the other node's address as words.
    fn replies(&self, requests: &[&str]) -> Vec<String> {
        let mut client = (self.connect)();
        let ask = |request: &&str| {
            let words = request.split(' ').map(|word| {
                let known = self.words.iter().find(|(name, _)| *name == word);
                known.map_or(word.to_owned(), |(_, key)| key.clone())
            });
            let line = words.collect::<Vec<_>>().join(" ");
            let mut reply = client.ask(&line).replace(&self.far_address, "ADDRESS");
            for (name, key) in self.words.iter().filter(|(name, _)| *name != "SLOT") {
                reply = reply.replace(&format!("MOVED {} ", slot(key.as_bytes())), &format!("MOVED {name} "));
                reply = reply.replace(&format!(":{}", slot(key.as_bytes())), ":SLOT");
                reply = reply.replace(key.as_str(), name);
            }
            reply
        };
        requests.iter().map(ask).collect()
    }
}

fn words([own, own2]: [String; 2], [far, far2]: [String; 2]) -> Vec<(&'static str, String)> {
    let slot = slot(own.as_bytes()).to_string();
    // The longer ones first, as they contain the others.
    vec![("OWN2", own2), ("FAR2", far2), ("OWN", own), ("FAR", far), ("SLOT", slot)]
}

#[test]
fn replies_are_those_of_redis_cluster() {
    let Some(cluster) = CLUSTER.start() else { return };
    let Some(nodes) = Nodes::start(&[]) else { return };
    let ports = cluster.ports().to_vec();
    let direct = move |port: u16| {
        let stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(crate::resp::PATIENCE)).unwrap();
        Client::over(stream)
    };
    // Redis's own tool shares the slots out in order: the first belongs to the first node, the last to the last.
    let pair = |slot: u16| [format!("{{{}}}", crate::key_of(slot)), format!("x{{{}}}", crate::key_of(slot))];
    let first = ports[0];
    let theirs = Side {
        connect: Box::new(move || direct(first)),
        words: words(pair(1_000), pair(16_000)),
        far_address: format!("127.0.0.1:{}", ports[2]),
    };
    let address = nodes.servers[0].resp().unwrap();
    let ours = Side {
        connect: Box::new(move || direct(address.port())),
        words: words(nodes.keys_of(0), nodes.keys_of(1)),
        far_address: format!("127.0.0.1:{}", nodes.ports[2]),
    };
    let mut redirected = 0;
    for requests in REQUESTS {
        let (ours, theirs) = (ours.replies(requests), theirs.replies(requests));
        for ((request, ours), theirs) in requests.iter().zip(&ours).zip(&theirs) {
            assert_eq!(ours, theirs, "{request} of {requests:?}");
            redirected += usize::from(ours.contains("MOVED FAR2 ADDRESS"));
        }
    }
    assert_eq!(redirected, 12, "as many requests are for the other node");
}

/// A slot without an owner: the text of Redis, and 503 over HTTP.
#[test]
fn a_slot_that_nobody_owns_is_down_as_in_redis() {
    let Some(cluster) = CLUSTER.start() else { return };
    let Some(nodes) = Nodes::start(&[]) else { return };
    let slot = 5;
    let owner = nodes.owner(slot);
    let key = crate::key_of(slot);
    let expected = {
        let stream = std::net::TcpStream::connect(("127.0.0.1", cluster.ports()[0])).unwrap();
        stream.set_read_timeout(Some(crate::resp::PATIENCE)).unwrap();
        let mut client = Client::over(stream);
        client.expect(&[(&format!("CLUSTER DELSLOTS {slot}"), "+OK")]);
        [client.ask(&format!("GET {key}")), client.ask(&format!("MGET {key} other"))]
    };
    crate::table::rewrite(&nodes.store, |table| {
        table["epoch"] = 2.into();
        let slots = table["slots"].as_array_mut().unwrap();
        let at = slots
            .iter()
            .position(|range| range[0].as_u64() <= Some(5) && range[1].as_u64() >= Some(5))
            .unwrap();
        let old = slots[at].clone();
        slots[at] = serde_json::json!([5, 5, null]);
        if old[0].as_u64() < Some(5) {
            slots.push(serde_json::json!([old[0], 4, old[2]]));
        }
        if old[1].as_u64() > Some(5) {
            slots.push(serde_json::json!([6, old[1], old[2]]));
        }
    });
    for node in 0..3 {
        let mut client = nodes.resp(node);
        crate::resp::until("the table of epoch 2 is known", || {
            client.ask("CLUSTER INFO").contains("my_epoch:2")
        });
        assert_eq!([client.ask(&format!("GET {key}")), client.ask(&format!("MGET {key} other"))], expected);
        assert_eq!(nodes.http(node).get(&format!("/kv/{key}")).status, 503);
    }
    assert!(nodes.resp(owner).ask("CLUSTER INFO").starts_with("cluster_state:fail"));
}
