//! `keystead router` in front of three real nodes, through the real binary.
//!
//! | To find                                                    | open          |
//! |------------------------------------------------------------|---------------|
//! | documents: CRUD, conditions, patches, lists, watching      | [`documents`] |
//! | commands, pipelines, transactions, channels                | [`commands`]  |
//! | rate limits                                                | [`limits`]    |
//! | Redis clients: commands, pipelines, scans                  | [`resp_commands`] |
//! | MULTI, WATCH, requests that wait                           | [`transactions`] |
//! | Pub/Sub over all nodes                                     | [`subscribe`] |
//! | streams of all nodes over HTTP, scans                      | [`streams`]   |
//! | Redis clients and nodes that are killed                    | [`resp_faults`] |
//! | hostile Redis clients                                      | [`hostile`]   |
//! | the slot table of a store, slots that move                 | [`moving`]    |
//! | redis-py and ioredis                                       | [`plain_clients`] |
//! | nodes that are killed and restarted, lost connections      | [`faults`]    |
//! | `--nodes`, tokens, headers, health and metrics             | [`settings`]  |

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed; one without its client says so"
)]

#[allow(dead_code, reason = "these tests need little of it")]
#[path = "../upstash/client.rs"]
mod client;
mod commands;
#[path = "../common/mod.rs"]
mod common;
mod documents;
mod faults;
mod hostile;
mod limits;
mod moving;
#[path = "../common/others.rs"]
mod others;
mod plain_clients;
#[allow(dead_code, reason = "these tests need little of it")]
#[path = "../resp/client.rs"]
mod resp;
mod resp_commands;
mod resp_faults;
mod settings;
mod streams;
mod subscribe;
mod transactions;

use client::{Http, Response};
use keystead_testkit::server::{Launch, Server};
use keystead_testkit::servers::free_ports;
use resp::Client;
use serde_json::Value;

/// Names of nodes, by which the slots are shared out.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Three nodes and a router.
struct Cluster {
    nodes: Vec<Server>,
    router: Server,
    list: String,
}

/// A node whose ports stay the same when it is restarted.
fn node(arguments: &[&str]) -> Server {
    let mut attempts = 3;
    loop {
        let ports = free_ports(2).unwrap();
        let (http, resp) = (format!("127.0.0.1:{}", ports[0]), format!("127.0.0.1:{}", ports[1]));
        let launch = common::launch(&["--resp", &resp, "--http", &http]);
        attempts -= 1;
        match launch.args(arguments).start() {
            Ok(server) => return server,
            Err(error) if attempts == 0 => panic!("{error}"),
            // Another process may have taken a port.
            Err(_) => {}
        }
    }
}

/// A router with this list, which has the nodes' HTTP addresses only.
fn router(list: &str) -> Launch {
    common::launch(&["router", "--resp", "off", "--nodes", list])
}

/// A router with both listeners.
fn router_of_both(list: &str) -> Launch {
    common::launch(&["router", "--nodes", list])
}

impl Cluster {
    /// Nodes whose data survive `kill -9`.
    fn start() -> Cluster {
        Cluster::with(&["--durability", "commit"], |router| router)
    }

    fn with(arguments: &[&str], change: impl FnOnce(Launch) -> Launch) -> Cluster {
        let nodes: Vec<Server> = NAMES.iter().map(|_| node(arguments)).collect();
        let urls: Vec<String> = NAMES
            .iter()
            .zip(&nodes)
            .map(|(name, node)| format!("{name}={},{name}=redis://{}", node.url(""), node.resp().unwrap()))
            .collect();
        let list = urls.join(",");
        let router = change(router_of_both(&list)).start().unwrap();
        Cluster { nodes, router, list }
    }

    /// A Redis client of the router.
    fn resp(&self) -> Client {
        Client::connect(&self.router)
    }

    fn http(&self) -> Http {
        Http::connect(&self.router)
    }

    /// A key of each node, in the order of [`NAMES`], which has this tag.
    fn keys(&self, prefix: &str) -> Vec<String> {
        let mut http = self.http();
        NAMES
            .iter()
            .map(|name| {
                let on =
                    |key: &String| http.get(&format!("/kv/{key}")).header("keystead-node") == Some(*name);
                (0..1000).map(|n| format!("{prefix}{n}")).find(on).unwrap()
            })
            .collect()
    }
}

impl Http {
    #[track_caller]
    fn put(&mut self, target: &str, body: &str) -> Response {
        self.ask("PUT", target, &[], body.as_bytes())
    }
}

impl Response {
    /// The error object of a response with this status and code.
    #[track_caller]
    fn expect_error(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        let error = self.json()["error"].take();
        assert_eq!(error["code"], code, "{error}");
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{error}");
        error
    }

    /// The lines of a list.
    #[track_caller]
    fn lines(&self) -> Vec<Value> {
        assert_eq!(
            (self.status, self.header("content-type")),
            (200, Some("application/x-ndjson")),
            "{}",
            self.text()
        );
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}
