//! A start that takes long: what clients get meanwhile, SIGTERM and `kill -9` while the journal is replayed.
//!
//! The load is made long by a journal with many small changes, which the server is killed upon before they are archived. A machine may
//! replay it so fast that a test does not see it: then the test adds more changes, a bounded number of times.

use std::net::TcpListener;

use keystead_core::Stopwatch;
use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};
use keystead_testkit::server::Server;
use rustix::process::Signal;

use crate::client::{Client, pause, until};
use crate::common::{self, signal, start};

/// Members of each set.
const MEMBERS: usize = 5_000;
/// Sets that are added before each attempt.
const SETS: usize = 200;
const ATTEMPTS: usize = 5;

const LOADING: &str = "-LOADING Keystead is loading the dataset in memory";

/// An address that is free now.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// A server whose addresses are the same after a restart, and the number of its sets.
struct Loaded {
    server: Server,
    token: Option<&'static str>,
    sets: usize,
}

impl Loaded {
    fn start(token: Option<&'static str>) -> Loaded {
        let (resp, http) = (free_address(), free_address());
        let mut arguments = vec!["--durability", "commit", "--resp", &resp, "--http", &http];
        arguments.extend(token.into_iter().flat_map(|token| ["--token", token]));
        Loaded { server: start(&arguments), token, sets: 0 }
    }

    /// A client of a server that has just been started.
    fn connect(&self) -> Client {
        let address = self.server.resp().unwrap();
        until("it listens", || std::net::TcpStream::connect(address).is_ok());
        Client::connect(&self.server)
    }

    fn authenticated(&self) -> Client {
        let mut client = self.connect();
        if let Some(token) = self.token {
            assert_eq!(client.ask(&format!("AUTH {token}")), "+OK");
        }
        client
    }

    /// Adds sets, each acknowledged, and kills the server.
    fn fill_and_kill(&mut self) {
        let mut client = self.authenticated();
        let members: Vec<String> = (0..MEMBERS).map(|n| format!("member:{n}")).collect();
        let first = self.sets;
        let added = client.ask(&format!("SADD set:{first} {}", members.join(" ")));
        assert_eq!(added, format!(":{MEMBERS}"));
        let copies: Vec<String> = (1..SETS).map(|n| format!("COPY set:{first} set:{}", first + n)).collect();
        assert!(client.ask_all(copies.iter().map(String::as_str)).iter().all(|reply| reply == ":1"));
        self.sets += SETS;
        self.server.kill().unwrap();
    }

    /// Everything that was acknowledged is there.
    fn check(&self) {
        let mut client = self.authenticated();
        assert_eq!(client.ask("DBSIZE"), format!(":{}", self.sets));
        let sizes: Vec<String> = (0..self.sets).map(|n| format!("SCARD set:{n}")).collect();
        let replies = client.ask_all(sizes.iter().map(String::as_str));
        assert!(replies.iter().all(|reply| *reply == format!(":{MEMBERS}")));
    }

    /// Fills and starts it until `sees` returns something while it loads.
    fn while_loading<T>(&mut self, mut sees: impl FnMut(&mut Loaded) -> Option<T>) -> T {
        for _ in 0..ATTEMPTS {
            self.fill_and_kill();
            self.server.begin_restart().unwrap();
            if let Some(seen) = sees(self) {
                return seen;
            }
            self.server.wait_until_ready().unwrap();
        }
        panic!("{} sets were loaded too fast to see it", self.sets);
    }
}

/// The body of a health check while the database loads.
fn health(server: &Server) -> Option<serde_json::Value> {
    let health = common::get(server, "/healthz");
    let body: serde_json::Value = serde_json::from_str(&health.body).unwrap();
    assert_eq!(health.status, 200, "{body}");
    (body["status"] == "loading").then_some(body)
}

#[test]
fn a_start_that_takes_long_answers_meanwhile() {
    let mut loaded = Loaded::start(None);
    let mut held = loaded.while_loading(|loaded| {
        let mut client = loaded.connect();
        let info = client.ask("INFO persistence");
        for line in ["GET k", "PING", "SET k v", "MULTI", "SUBSCRIBE c", "NOSUCH", "DBSIZE"] {
            if client.ask(line) != LOADING {
                return None;
            }
        }
        let server = &loaded.server;
        let body = health(server)?;
        let unready = common::get(server, "/readyz");
        let (document, command) = (common::get(server, "/kv/k"), common::get(server, "/get/k"));
        let foreign = common::request(server, "GET", "/get/k", "Host: example.com\r\n");
        // Still the same, so it was while all of these were sent.
        health(server)?;
        assert!(client.ask("CLIENT SETNAME held") == "+OK");
        assert!(client.ask("HELLO 3").starts_with('{'));

        assert!(info.contains("loading:1") && info.contains("loading_loaded_perc:"), "{info}");
        assert_eq!((unready.status, unready.body.trim()), (503, r#"{"status":"loading"}"#));
        for response in [&document, &command] {
            assert_eq!(response.status, 503, "{response:?}");
            assert!(response.head.contains("\r\nretry-after: 1\r\n"), "{response:?}");
        }
        assert!(document.body.starts_with(r#"{"error":{"code":"loading","#), "{document:?}");
        assert_eq!(command.body.trim(), format!(r#"{{"error":"{}"}}"#, &LOADING[1..]));
        assert_eq!(foreign.status, 403, "{foreign:?}");
        let how_far = &body["loading"];
        assert!(["archive", "journal"].contains(&how_far["stage"].as_str().unwrap()), "{body}");
        assert!((0.0..=100.0).contains(&how_far["percent"].as_f64().unwrap()), "{body}");
        assert!(how_far["seconds"].is_u64() && how_far["keys_total"].is_u64(), "{body}");
        Some(client)
    });
    loaded.server.wait_until_ready().unwrap();
    // The connection goes on, with its name and its protocol.
    assert_eq!(held.ask("CLIENT GETNAME"), "held");
    assert_eq!(held.ask("SCARD set:0"), format!(":{MEMBERS}"));
    assert_eq!(held.ask("GET none"), "_");
    assert!(held.ask("INFO persistence").contains("loading:0"));
    loaded.check();
    let health = common::get(&loaded.server, "/healthz");
    assert!(health.status == 200 && !health.body.contains("loading"), "{health:?}");
    assert!(loaded.server.stop().unwrap().success());
}

#[test]
fn without_the_token_a_loading_server_says_little() {
    let mut loaded = Loaded::start(Some("0123456789abcdef"));
    loaded.while_loading(|loaded| {
        let mut client = loaded.connect();
        let before: Vec<_> = ["GET k", "INFO", "SHUTDOWN"].map(|line| client.ask(line)).into();
        assert_eq!(client.ask("AUTH 0123456789abcdef"), "+OK");
        if client.ask("GET k") != LOADING {
            return None;
        }
        let how_far = health(&loaded.server)?["loading"].clone();
        assert_eq!(before, ["-NOAUTH Authentication required."; 3]);
        assert!(how_far["percent"].is_number() && how_far["keys_total"].is_null(), "{how_far}");
        let mut guess = loaded.connect();
        assert!(guess.ask("AUTH wrong").starts_with("-WRONGPASS"));
        Some(())
    });
    loaded.server.wait_until_ready().unwrap();
    loaded.check();
}

#[test]
fn sigterm_and_shutdown_end_a_server_that_loads() {
    for how in ["SIGTERM", "SHUTDOWN"] {
        let mut loaded = Loaded::start(None);
        loaded.while_loading(|loaded| {
            let mut client = loaded.connect();
            if client.ask("GET k") != LOADING {
                return None;
            }
            let watch = Stopwatch::start();
            match how {
                "SIGTERM" => signal(&loaded.server, Signal::TERM),
                _ => client.send("SHUTDOWN"),
            }
            let status = loaded.server.wait().unwrap();
            // It may have become ready just before; then it was stopped as usual, and is tried again.
            let was_ready = loaded.server.logs().contains(" is ready");
            assert_eq!(status.code(), Some(0), "{}", loaded.server.logs());
            if was_ready {
                loaded.server.begin_restart().unwrap();
                return None;
            }
            assert!(watch.elapsed().as_secs() < 5, "{:?}", watch.elapsed());
            Some(())
        });
        loaded.server.restart().unwrap();
        loaded.check();
    }
}

#[test]
fn a_kill_while_the_journal_is_replayed_loses_nothing() {
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    println!("KEYSTEAD_SEED={seed}");
    let (mut rng, mut loaded, mut killed) = (Rng::new(seed), Loaded::start(None), 0);
    for _ in 0..ATTEMPTS {
        loaded.fill_and_kill();
        for _ in 0..5 {
            loaded.server.begin_restart().unwrap();
            pause(rng.below(400));
            loaded.server.kill().unwrap();
            killed += usize::from(!loaded.server.logs().contains(" is ready"));
        }
        loaded.server.restart().unwrap();
        loaded.check();
        if killed >= 5 {
            return;
        }
    }
    assert!(killed > 0, "it was ready too soon each time");
}
