//! The ready block: what a started server prints on stdout. Pure.
//!
//! People read it, and test harnesses wait for it and read the addresses from it: a line is two spaces, a
//! name, and a value from column 15 on. Names are added, never changed.

use std::fmt::Write;
use std::net::SocketAddr;

use crate::VERSION;
use crate::listen::reachable;
use crate::settings::{Durability, Settings};

/// The block of a server that listens on these addresses, whose REST API is in front of `upstream`, and with a line for each sink.
#[must_use]
pub fn block(
    settings: &Settings,
    http: Option<SocketAddr>,
    resp: Option<SocketAddr>,
    upstream: Option<&str>,
    sinks: &[String],
) -> String {
    let mut text = format!("keystead {VERSION} is ready\n");
    let mut line = |name: &str, value: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {name:<10}  {value}");
    };
    if let Some(http) = http {
        line("http", &format!("http://{http}"));
    }
    let scheme = if settings.resp_tls_cert.is_some() { "rediss" } else { "redis" };
    if let Some(resp) = resp {
        line("resp", &format!("{scheme}://{resp}"));
    }
    match settings.durability {
        Durability::Memory => line("data", "in memory only, lost when the server stops"),
        Durability::Fsync | Durability::Commit => line("data", &settings.data.display().to_string()),
    }
    line("durability", settings.durability.as_str());
    if let Some(store) = &settings.documents_store {
        line("documents", &format!("in a store ({})", store.shown()));
    }
    if let Some(upstream) = upstream {
        line("upstream", &format!("{upstream} (REST)"));
    }
    if let (Some(store), Some(id)) = (&settings.cluster, &settings.node_id) {
        line("cluster", &format!("node {id} (slot table in {})", store.shown()));
    }
    match settings.policies.len() {
        0 => {}
        1 => line("limits", "1 policy"),
        many => line("limits", &format!("{many} policies")),
    }
    for sink in sinks {
        line("sinks", sink);
    }
    if let Some(http) = http {
        line("try", &format!("curl -s http://{}/healthz", reachable(http)));
    }
    if let Some(resp) = resp {
        // With a token it asks for it: the token itself is not printed.
        let auth = if settings.token.is_some() { " --askpass" } else { "" };
        line("try", &format!("redis-cli -u {scheme}://{}{auth} ping", reachable(resp)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Loaded, Sources, Token};

    fn settings() -> Settings {
        Loaded::from_sources(Sources::default()).unwrap().settings
    }

    fn at(address: &str) -> Option<SocketAddr> {
        Some(address.parse().unwrap())
    }

    #[test]
    fn the_block_is_short_and_stable() {
        let expected = format!(
            "keystead {VERSION} is ready\n  \
               http        http://127.0.0.1:8080\n  \
               resp        redis://127.0.0.1:6379\n  \
               data        ./keystead-data\n  \
               durability  fsync\n  \
               try         curl -s http://127.0.0.1:8080/healthz\n  \
               try         redis-cli -u redis://127.0.0.1:6379 ping\n"
        );
        let (http, resp) = (at("127.0.0.1:8080"), at("127.0.0.1:6379"));
        assert_eq!(block(&settings(), http, resp, None, &[]), expected);
        let sinks = ["a to sqlite", "b to nats"].map(str::to_owned);
        let with_sinks = block(&settings(), http, resp, None, &sinks);
        assert!(
            with_sinks.contains("\n  sinks       a to sqlite\n  sinks       b to nats\n"),
            "{with_sinks}"
        );
    }

    #[test]
    fn memory_warns_that_nothing_is_persisted() {
        let block = block(
            &Settings { durability: Durability::Memory, ..settings() },
            at("127.0.0.1:8080"),
            None,
            None,
            &[],
        );
        assert!(block.contains("\n  data        in memory only, lost when the server stops\n"), "{block}");
    }

    #[test]
    fn the_lines_to_try_connect_to_this_server() {
        let block_v4 = block(&settings(), at("0.0.0.0:9"), at("0.0.0.0:8"), None, &[]);
        assert!(block_v4.contains("http://0.0.0.0:9\n") && block_v4.contains("curl -s http://127.0.0.1:9/"));
        assert!(block_v4.contains("redis-cli -u redis://127.0.0.1:8 ping"));
        let token = Some(Token::parse("s3cret").unwrap());
        let with_token = block(&Settings { token, ..settings() }, None, at("127.0.0.1:8"), None, &[]);
        assert!(with_token.contains("redis-cli -u redis://127.0.0.1:8 --askpass ping\n"), "{with_token}");
        assert!(!with_token.contains("s3cret"), "{with_token}");
        let block_v6 = block(&settings(), at("[::]:9"), None, None, &[]);
        assert!(block_v6.contains("curl -s http://[::1]:9/healthz") && !block_v6.contains("resp"));
    }
}
