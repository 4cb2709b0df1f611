//! Clients of a cluster for these tests: they follow redirections, and know what was applied.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};

use keystead_core::key::slot;

use crate::resp::Client;

/// A client of the cluster: it follows MOVED, and counts other errors.
pub(super) struct Routed {
    /// The RESP ports of nodes that it may ask first.
    ports: Vec<u16>,
    owners: HashMap<u16, u16>,
    connections: HashMap<u16, Client>,
}

/// What became of a request.
pub(super) enum Reply {
    Text(String),
    /// The connection was lost after it was sent: nobody knows.
    Unknown,
}

impl Routed {
    pub(super) fn new(ports: Vec<u16>) -> Routed {
        Routed { ports, owners: HashMap::new(), connections: HashMap::new() }
    }

    /// Sends a request on a key to its owner. An error that says that nothing was applied is followed.
    pub(super) fn ask(&mut self, key: &str, line: &str) -> Reply {
        let (slot, mut first) = (slot(key.as_bytes()), self.ports.clone().into_iter().cycle());
        for attempt in 0..6000 {
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
                Some((_, port)) => {
                    self.owners.insert(slot, port.parse().unwrap());
                    if attempt > 4 {
                        // The owner does not know yet that it is: it does not reach the store of the table.
                        std::thread::park_timeout(std::time::Duration::from_millis(5));
                    }
                }
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
    pub(super) fn expect(&mut self, key: &str, line: &str, expected: &str) {
        match self.ask(key, line) {
            Reply::Text(reply) => assert_eq!(reply, expected, "{line}"),
            Reply::Unknown => panic!("{line}: the connection was lost"),
        }
    }
}

/// How often a counter was incremented: acknowledged, and beyond that of unknown outcome.
#[derive(Clone, Copy, Default)]
pub(super) struct Count {
    pub(super) acknowledged: u64,
    pub(super) unknown: u64,
}

/// Increments counters of this client until it is stopped. Returns how often each was incremented, and what went wrong.
pub(super) fn increment(
    ports: Vec<u16>,
    client: usize,
    counters: usize,
    stop: &AtomicBool,
) -> (Vec<Count>, Vec<String>) {
    let (mut routed, mut counts) = (Routed::new(ports), vec![Count::default(); counters]);
    let mut wrong = Vec::new();
    for n in (0..counters).cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let (key, count) = (counter(client, n), &mut counts[n]);
        match routed.ask(&key, &format!("INCR {key}")) {
            Reply::Unknown => count.unknown += 1,
            Reply::Text(reply) => match reply.strip_prefix(':').and_then(|value| value.parse::<u64>().ok()) {
                Some(value) => {
                    let (least, most) = (count.acknowledged + 1, count.acknowledged + 1 + count.unknown);
                    if !(least..=most).contains(&value) {
                        wrong.push(format!("{key}: {value} is not from {least} to {most}"));
                    }
                    (count.unknown, count.acknowledged) = (most.saturating_sub(value), value);
                }
                // A node that was killed, or a hand over that takes long: not applied.
                None if reply.starts_with("-TRYAGAIN") || reply.starts_with("-LOADING") => {}
                None => wrong.push(format!("{key}: {reply}")),
            },
        }
    }
    (counts, wrong)
}

/// The name of a counter.
pub(super) fn counter(client: usize, n: usize) -> String {
    format!("counter:{client}:{n}")
}

/// Every counter is what it may be, and returns how many there are.
pub(super) fn check_counters(ports: Vec<u16>, counted: &[(Vec<Count>, Vec<String>)]) -> usize {
    let (mut routed, mut keys) = (Routed::new(ports), 0);
    for (client, (counts, wrong)) in counted.iter().enumerate() {
        assert_eq!(wrong.iter().take(5).collect::<Vec<_>>(), [] as [&String; 0]);
        for (n, count) in counts.iter().enumerate() {
            let key = counter(client, n);
            let Reply::Text(reply) = routed.ask(&key, &format!("GET {key}")) else { panic!("{key}: lost") };
            let value: u64 = reply.parse().unwrap_or(0);
            keys += usize::from(value > 0);
            let possible = count.acknowledged..=count.acknowledged + count.unknown;
            assert!(possible.contains(&value), "{key}: {reply} is not in {possible:?}");
        }
    }
    keys
}
