//! Clients of a cluster for these tests: they follow redirections, and know what was applied.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};

use keystead_core::key::slot;

use crate::resp::Client;

/// A client of the cluster, which follows MOVED, or of a router, which does that itself.
pub(super) struct Routed {
    host: String,
    /// The RESP ports of nodes that it may ask first, or the port of a router.
    ports: Vec<u16>,
    token: Option<String>,
    is_of_router: bool,
    owners: HashMap<u16, u16>,
    connections: HashMap<u16, Client>,
    /// Connections that were refused.
    refused: u64,
    /// Most redirections of one request.
    redirections_most: u32,
}

/// What became of a request.
pub(super) enum Reply {
    Text(String),
    /// The connection was lost after it was sent: nobody knows.
    Unknown,
}

impl Routed {
    /// A client of the nodes at these ports.
    pub(super) fn new(ports: Vec<u16>) -> Routed {
        Routed {
            host: "127.0.0.1".to_owned(),
            ports,
            token: None,
            is_of_router: false,
            owners: HashMap::new(),
            connections: HashMap::new(),
            refused: 0,
            redirections_most: 0,
        }
    }

    /// A client of the router at this port. `MOVED` is a reply like any other.
    pub(super) fn of_router(port: u16) -> Routed {
        Routed { is_of_router: true, ..Routed::new(vec![port]) }
    }

    /// The same on another host, with a token.
    pub(super) fn of_router_at(host: &str, port: u16, token: &str) -> Routed {
        let (host, token) = (host.to_owned(), Some(token.to_owned()));
        Routed { host, token, ..Routed::of_router(port) }
    }

    /// Sends a request on a key to its owner. An error that says that nothing was applied is followed.
    pub(super) fn ask(&mut self, key: &str, line: &str) -> Reply {
        let (slot, mut first) = (slot(key.as_bytes()), self.ports.clone().into_iter().cycle());
        for attempt in 0..6000 {
            let port = self.owners.get(&slot).copied().or_else(|| first.next()).unwrap();
            let Some(client) = self.connection(port) else {
                self.refused += 1;
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
            let moved = reply.strip_prefix("-MOVED ").filter(|_| !self.is_of_router);
            match moved.and_then(|moved| moved.rsplit_once(':')) {
                Some((_, port)) => {
                    self.owners.insert(slot, port.parse().unwrap());
                    self.redirections_most = self.redirections_most.max(attempt + 1);
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
            let stream = std::net::TcpStream::connect((self.host.as_str(), port)).ok()?;
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(crate::resp::PATIENCE)).unwrap();
            let mut client = Client::over(stream);
            if let Some(token) = &self.token {
                client.expect(&[(&format!("AUTH {token}"), "+OK")]);
            }
            vacant.insert(client);
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

/// What clients may see while something happens to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum May {
    /// Values, and as many redirections as client libraries follow.
    SeeNoError,
    /// Also lost and refused connections, and errors that say that nothing was applied, or that nobody knows.
    SeeFaults,
}

/// Redirections of one request that ioredis, redis-py and redis-rs follow.
const REDIRECTIONS_MAX: u32 = 5;

/// Errors after which a request was not applied: of a node, and of a router.
const NOT_APPLIED: [&str; 6] = [
    "-TRYAGAIN ",
    "-LOADING ",
    "-ERR node ",
    "-ERR the node has left",
    "-ERR the slot of the request is being moved",
    "-ERR the slot of the request has no owner",
];

/// The end of a router's error after which nobody knows.
const UNKNOWN: &str = ": it is unknown whether the command was applied";

/// How often a counter was incremented: acknowledged, and beyond that of unknown outcome.
#[derive(Clone, Copy, Default)]
pub(super) struct Count {
    pub(super) acknowledged: u64,
    pub(super) unknown: u64,
}

/// What a client did: how often it incremented each counter, and what went wrong.
pub(super) type Counted = (Vec<Count>, Vec<String>);

/// Increments counters of this client until it is stopped.
pub(super) fn increment(
    mut routed: Routed,
    client: usize,
    counters: usize,
    may: May,
    stop: &AtomicBool,
) -> Counted {
    let (mut counts, mut wrong) = (vec![Count::default(); counters], Vec::new());
    for n in (0..counters).cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let (key, count) = (counter(client, n), &mut counts[n]);
        let tolerates =
            |reply: &str| may == May::SeeFaults && NOT_APPLIED.iter().any(|error| reply.starts_with(error));
        match routed.ask(&key, &format!("INCR {key}")) {
            Reply::Unknown if may == May::SeeFaults => count.unknown += 1,
            Reply::Unknown => wrong.push(format!("{key}: the connection was lost")),
            Reply::Text(reply) => match reply.strip_prefix(':').and_then(|value| value.parse::<u64>().ok()) {
                Some(value) => {
                    let (least, most) = (count.acknowledged + 1, count.acknowledged + 1 + count.unknown);
                    if !(least..=most).contains(&value) {
                        wrong.push(format!("{key}: {value} is not from {least} to {most}"));
                    }
                    (count.unknown, count.acknowledged) = (most.saturating_sub(value), value);
                }
                None if may == May::SeeFaults && reply.ends_with(UNKNOWN) => count.unknown += 1,
                None if tolerates(&reply) => {}
                None => wrong.push(format!("{key}: {reply}")),
            },
        }
    }
    if may == May::SeeNoError && (routed.refused, routed.redirections_most) > (0, REDIRECTIONS_MAX) {
        let Routed { refused, redirections_most, .. } = routed;
        wrong.push(format!("{refused} refused connections, {redirections_most} redirections of one request"));
    }
    (counts, wrong)
}

/// The name of a counter.
pub(super) fn counter(client: usize, n: usize) -> String {
    format!("counter:{client}:{n}")
}

/// Every counter is what it may be, and returns how many there are.
pub(super) fn check_counters(mut routed: Routed, counted: &[Counted]) -> usize {
    let mut keys = 0;
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
