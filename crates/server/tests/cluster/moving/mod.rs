//! Slots that move between nodes: while clients write, with processes killed at any moment, and what is seen of them meanwhile.

mod kills;
mod load;
mod seen;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::process::{Child, Command, Stdio};

use keystead_cluster::{Edit, Move, NodeId, TableStep};
use keystead_core::key::slot;
use keystead_core::{Key, StoreExt};
use keystead_testkit::servers::free_ports;

use crate::resp::Client;
use crate::{Nodes, addresses, common, node, url};

/// A client of the cluster: it follows MOVED, and counts other errors.
struct Routed {
    /// The RESP ports of nodes that it may ask first.
    ports: Vec<u16>,
    owners: HashMap<u16, u16>,
    connections: HashMap<u16, Client>,
}

/// What became of a request.
enum Reply {
    Text(String),
    /// The connection was lost after it was sent: nobody knows.
    Unknown,
}

impl Routed {
    fn new(ports: Vec<u16>) -> Routed {
        Routed { ports, owners: HashMap::new(), connections: HashMap::new() }
    }

    /// Sends a request on a key to its owner. An error that says that nothing was applied is followed.
    fn ask(&mut self, key: &str, line: &str) -> Reply {
        let (slot, mut first) = (slot(key.as_bytes()), self.ports.clone().into_iter().cycle());
        for _ in 0..2000 {
            let port = self.owners.get(&slot).copied().or_else(|| first.next()).unwrap();
            let Some(client) = self.connection(port) else {
                self.owners.remove(&slot);
                std::thread::park_timeout(std::time::Duration::from_millis(10));
                continue;
            };
            client.send(line);
            let Ok(reply) = client.try_receive() else {
                self.connections.remove(&port);
                self.owners.remove(&slot);
                return Reply::Unknown;
            };
            match reply.strip_prefix("-MOVED ").and_then(|moved| moved.rsplit_once(':')) {
                Some((_, port)) => drop(self.owners.insert(slot, port.parse().unwrap())),
                None => return Reply::Text(reply),
            }
        }
        Reply::Text("-ERR no node served the request".to_owned())
    }

    fn connection(&mut self, port: u16) -> Option<&mut Client> {
        if let Entry::Vacant(vacant) = self.connections.entry(port) {
            let stream = std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(crate::resp::PATIENCE)).unwrap();
            vacant.insert(Client::over(stream));
        }
        self.connections.get_mut(&port)
    }

    /// The reply to a request whose outcome must be known.
    #[track_caller]
    fn expect(&mut self, key: &str, line: &str, expected: &str) {
        match self.ask(key, line) {
            Reply::Text(reply) => assert_eq!(reply, expected, "{line}"),
            Reply::Unknown => panic!("{line}: the connection was lost"),
        }
    }
}

impl Nodes {
    /// Starts a fourth node, which is not in the table yet, as soon as it is.
    fn add_node(&mut self) -> String {
        let ports = free_ports(2).unwrap();
        let text = format!("d={}", addresses(&ports));
        let (code, _, stderr) = self.cluster(&["add", &text, "--dry-run"]);
        assert_eq!(code, 0, "{stderr}");
        self.edit(Edit::Add(keystead_cluster::Node::new(
            NodeId::new("d").unwrap(),
            format!("redis://127.0.0.1:{}", ports[0]),
            format!("http://127.0.0.1:{}", ports[1]),
        )));
        self.servers.push(node(&url(&self.store), "d", &ports).start().unwrap());
        self.ports.extend(ports);
        text
    }

    /// Runs `keystead cluster` to its end.
    fn cluster(&self, arguments: &[&str]) -> common::Ended {
        // It ends by itself when nothing moves, so it needs no deadline.
        let output = self.command(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    /// Begins `keystead cluster`, which may be killed.
    fn begin_cluster(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_keystead"));
        command.arg("cluster").args(arguments).env("KEYSTEAD_CLUSTER", url(&self.store)).stdin(Stdio::null());
        command
    }

    /// Changes the table as an operator would.
    fn edit(&self, edit: Edit) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        runtime.unwrap().block_on(async {
            let store = keystead_stores::open(&url(&self.store)).unwrap();
            let key = Key::new("keystead:cluster").unwrap();
            store.apply(&key, &TableStep::from(edit)).await.unwrap().unwrap();
            store.close().await.unwrap();
        });
    }

    /// Begins to move a slot, without an operator who would hand it over.
    fn begin_move(&self, moved: u16, from: &str, to: &str) {
        let id = |name| NodeId::new(name).unwrap();
        let slots = std::iter::once(moved).collect();
        self.edit(Edit::Begin(vec![Move { slots, from: id(from), to: id(to) }]));
    }

    fn resp_ports(&self) -> Vec<u16> {
        self.ports.iter().step_by(2).copied().collect()
    }

    /// The keys of all nodes together.
    fn dbsize(&self) -> usize {
        let size = |n| self.resp(n).ask("DBSIZE").strip_prefix(':').unwrap().parse::<usize>().unwrap();
        (0..self.servers.len()).map(size).sum()
    }

    /// What a node reports of its migrations.
    fn report(&self, at: usize) -> serde_json::Value {
        self.http(at).ask("GET", "/admin/cluster", &["keystead-cluster: test"], b"").json()
    }
}
