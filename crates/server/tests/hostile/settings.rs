//! CONFIG SET of parameters that have an effect in Redis and none here: the reply must not be OK.

use crate::client::Client;
use crate::{assert_unharmed, victim};

/// Settings with a value that means something on Redis.
const IDLE: [(&str, &str); 23] = [
    ("maxmemory", "100mb"),
    ("maxmemory-policy", "allkeys-lru"),
    ("maxmemory-clients", "5%"),
    ("slowlog-log-slower-than", "10000"),
    ("slowlog-max-len", "1024"),
    ("latency-monitor-threshold", "100"),
    ("latency-tracking", "yes"),
    ("notify-keyspace-events", "KEA"),
    ("appendonly", "yes"),
    ("appendfsync", "always"),
    ("save", "900 1"),
    ("no-appendfsync-on-rewrite", "yes"),
    ("stop-writes-on-bgsave-error", "no"),
    ("min-replicas-to-write", "1"),
    ("replica-read-only", "no"),
    ("masterauth", "secret"),
    ("requirepass", "secret"),
    ("protected-mode", "no"),
    ("tracking-table-max-keys", "1"),
    ("loglevel", "debug"),
    ("locale-collate", "C"),
    ("dir", "/etc/cron.d"),
    ("dbfilename", "root"),
];

#[test]
fn a_setting_without_effect_is_rejected_and_unchanged() {
    let server = victim(&[]);
    let mut client = Client::connect(&server);
    for (name, value) in IDLE {
        let before = client.ask(&format!("CONFIG GET {name}"));
        let reply = client.ask_words(&["CONFIG", "SET", name, value]);
        let words = format!("-ERR CONFIG SET failed (possibly related to argument '{name}') - ");
        assert!(reply.strip_prefix(&words).is_some_and(|why| why.len() > 10), "{name}: {reply}");
        assert_eq!(client.ask(&format!("CONFIG GET {name}")), before);
    }
    assert_eq!(client.ask("CONFIG GET timeout"), "[timeout 0]");
    assert!(client.ask("CONFIG SET timeout 60 maxmemory 1gb").starts_with("-ERR CONFIG SET failed"));
    assert_eq!(client.ask("CONFIG GET timeout"), "[timeout 0]", "all of them or none");
    assert_unharmed(&server);
}

#[test]
fn what_clients_make_sure_of_and_what_only_tunes_is_accepted() {
    let server = victim(&[]);
    let mut client = Client::connect(&server);
    // BullMQ, Sidekiq and Spring read these, or set them to their current values.
    client.expect(&[
        ("CONFIG GET maxmemory-policy", "[maxmemory-policy noeviction]"),
        ("CONFIG GET notify-keyspace-events", "[notify-keyspace-events '']"),
        ("CONFIG SET maxmemory-policy noeviction", "+OK"),
        ("CONFIG SET maxmemory 0", "+OK"),
        ("CONFIG SET slowlog-log-slower-than -1", "+OK"),
        (
            "CONFIG SET hash-max-listpack-entries 64 hz 20 activerehashing no lazyfree-lazy-user-del yes",
            "+OK",
        ),
        ("CONFIG GET hash-max-listpack-entries", "[hash-max-listpack-entries 64]"),
        ("CONFIG SET timeout 300", "+OK"),
    ]);
    for (name, value) in [("notify-keyspace-events", ""), ("save", "")] {
        assert_eq!(client.ask_words(&["CONFIG", "SET", name, value]), "+OK", "{name}");
    }
}

#[test]
fn config_get_loglevel_is_the_real_level() {
    let server = victim(&["--log-level", "debug"]);
    let mut client = Client::connect(&server);
    client.expect(&[("CONFIG GET loglevel", "[loglevel verbose]"), ("CONFIG SET loglevel verbose", "+OK")]);
}
