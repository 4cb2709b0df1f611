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

/// The shape of a reply: numbers and ids as words, and of items that are alike one after the other, one.
fn shape(reply: &str) -> String {
    let mut levels: Vec<Vec<String>> = vec![Vec::new()];
    let marked = reply.replace('[', " [ ").replace(']', " ] ").replace('{', " { ").replace('}', " } ");
    for word in marked.split(' ').filter(|word| !word.is_empty()) {
        let item = match word {
            "[" | "{" => {
                levels.push(Vec::new());
                continue;
            }
            "]" | "}" => {
                let (open, items) = (if word == "]" { '[' } else { '{' }, levels.pop().unwrap());
                format!("{open}{}{word}", items.join(" "))
            }
            id if id.len() == 40 && id.bytes().all(|digit| digit.is_ascii_hexdigit()) => "ID".to_owned(),
            word => {
                let numbers =
                    word.split(|letter: char| letter.is_ascii_digit()).filter(|part| !part.is_empty());
                let is_number = word.ends_with(|letter: char| letter.is_ascii_digit());
                numbers.collect::<Vec<_>>().join("N") + if is_number { "N" } else { "" }
            }
        };
        let items = levels.last_mut().unwrap();
        if items.last() != Some(&item) {
            items.push(item);
        }
    }
    levels.concat().join(" ")
}

/// The lines of `CLUSTER NODES`, of which each has as many ranges of slots as there are, and the names of the fields of `CLUSTER INFO`.
fn described(client: &mut Client) -> (Vec<String>, Vec<String>) {
    let nodes = client.ask("CLUSTER NODES");
    let line = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        let is_range = |field: &&str| field.split('-').all(|slot| slot.parse::<u16>().is_ok());
        assert!(fields[8..].iter().all(is_range), "{line}");
        shape(&fields[..8].join(" "))
    };
    // Without the marks of a verbatim string.
    let nodes = nodes.strip_prefix("txt:").unwrap_or(&nodes);
    let mut lines: Vec<String> = nodes.strip_suffix("\\n").unwrap().split("\\n").map(line).collect();
    lines.sort_unstable();
    let info = client.ask("CLUSTER INFO");
    let info = info.strip_prefix("txt:").unwrap_or(&info);
    let names =
        info.strip_suffix("\\r\\n").unwrap().split("\\r\\n").map(|line| line.split_once(':').unwrap().0);
    // Redis also counts the messages of its bus by kind.
    const MESSAGES: &str = "cluster_stats_messages_";
    let is_kind =
        |name: &&str| name.strip_prefix(MESSAGES).is_some_and(|kind| !["sent", "received"].contains(&kind));
    (lines, names.filter(|name| !is_kind(name)).map(str::to_owned).collect())
}

/// Clients read the table from these replies.
#[test]
fn descriptions_of_the_cluster_have_the_shape_of_redis() {
    let Some(cluster) = CLUSTER.start() else { return };
    let Some(nodes) = Nodes::start(&[]) else { return };
    let connect = |port: u16, protocol: &str| {
        let stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(crate::resp::PATIENCE)).unwrap();
        let mut client = Client::over(stream);
        assert!(!client.ask(&format!("HELLO {protocol}")).starts_with('-'));
        client
    };
    for protocol in ["2", "3"] {
        let (mut ours, mut theirs) =
            (connect(nodes.ports[0], protocol), connect(cluster.ports()[0], protocol));
        for request in ["CLUSTER SLOTS", "CLUSTER SHARDS"] {
            let (ours, theirs) = (ours.ask(request), theirs.ask(request));
            assert_eq!(shape(&ours), shape(&theirs), "{request} in RESP{protocol}: {ours} and {theirs}");
        }
        assert_eq!(described(&mut ours), described(&mut theirs), "RESP{protocol}");
    }
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
