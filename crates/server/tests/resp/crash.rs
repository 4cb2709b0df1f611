//! Killed with SIGKILL under transactions: each that was acknowledged is there whole, and none is there in part.
//!
//! Every writer has its own group of keys, which a transaction changes together, and keeps several transactions on their way.
//! So after a kill a group has exactly the transactions that were acknowledged, and perhaps the next few: whatever number it
//! shows, all of its keys must show the same one. Random tests print their seed; `KEYSTEAD_SEED` repeats it, and
//! `KEYSTEAD_KILLS` makes them longer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use keystead_core::Stopwatch;
use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};
use keystead_testkit::server::Server;

use crate::client::{Client, pause, request};
use crate::common::{dir, report_line, run, start_on};

/// Kills for each level and number of shards, unless the environment says otherwise.
const KILLS: u64 = 20;
const KILLS_VARIABLE: &str = "KEYSTEAD_KILLS";

const WRITERS: u64 = 12;
/// Transactions of a writer that are on their way at most.
const PIPELINE: usize = 8;
/// How long a server serves at most before it is killed.
const LIFE_MS: u64 = 120;
/// Entries that the log of a group keeps, so that it does not grow without end.
const LOG_LEN: u64 = 20;

/// Transaction `n` of a writer: every value that it writes contains its number.
fn transaction(writer: u64, n: u64) -> Vec<u8> {
    let payload = "p".repeat((n * 37 % 400) as usize + 1);
    let lines = [
        "MULTI".to_owned(),
        format!("SET {{{writer}}}:last {n}"),
        format!("INCR {{{writer}}}:count"),
        format!("RPUSH {{{writer}}}:log {n}"),
        format!("LTRIM {{{writer}}}:log -{LOG_LEN} -1"),
        format!("HSET {{{writer}}}:hash n {n} {} {payload}", n % 5),
        format!("ZADD {{{writer}}}:scores {n} {}", n % 7),
        format!("SET {{{writer}}}:once:{n} {n}"),
        format!("DEL {{{writer}}}:once:{}", n.saturating_sub(1)),
        format!("XADD {{{writer}}}:stream MAXLEN 5 {n}-1 n {n}"),
        "EXEC".to_owned(),
    ];
    lines.iter().flat_map(|line| request(line)).collect()
}

/// What the transactions of the writers are at.
#[derive(Clone)]
struct Ledger(Arc<Vec<[AtomicU64; 2]>>);

impl Ledger {
    fn new() -> Self {
        Ledger(Arc::new((0..WRITERS).map(|_| Default::default()).collect()))
    }

    /// Transactions that were acknowledged, and that were sent.
    fn of(&self, writer: u64) -> [u64; 2] {
        self.0[writer as usize].each_ref().map(|count| count.load(Ordering::SeqCst))
    }

    fn set(&self, writer: u64, at: usize, n: u64) {
        self.0[writer as usize][at].store(n, Ordering::SeqCst);
    }
}

/// Writes until the server is gone. The replies are checked too: a transaction is atomic, in order, and runs once.
fn write(server: &Server, ledger: &Ledger, writer: u64) -> JoinHandle<()> {
    let (mut client, ledger) = (Client::connect(server), ledger.clone());
    std::thread::spawn(move || {
        let [mut n, _] = ledger.of(writer);
        let mut on_their_way = VecDeque::new();
        loop {
            while on_their_way.len() < PIPELINE {
                n += 1;
                on_their_way.push_back(n);
                // Noted before it is sent: from then on it may be there.
                ledger.set(writer, 1, n);
                client.send_raw(&transaction(writer, n));
            }
            let Some(next) = on_their_way.pop_front() else { return };
            for _ in 0..10 {
                let Ok(reply) = client.try_receive() else { return };
                assert!(matches!(reply.as_str(), "+OK" | "+QUEUED"), "{reply}");
            }
            let Ok(reply) = client.try_receive() else { return };
            assert!(reply.starts_with(&format!("[+OK :{next} :")), "transaction {next} of {writer}: {reply}");
            ledger.set(writer, 0, next);
        }
    })
}

/// Checks a writer's keys: all must be of one transaction, no earlier than the last one that was acknowledged.
fn check(client: &mut Client, ledger: &Ledger, writer: u64, words: &str) {
    let [acknowledged, sent] = ledger.of(writer);
    let lines = ["GET last", "GET count", "LINDEX log -1", "HGET hash n", "LLEN log"];
    let of = |line: &str| {
        let mut words = line.splitn(3, ' ').map(str::to_owned).collect::<Vec<_>>();
        words[1] = format!("{{{writer}}}:{}", words[1]);
        words.join(" ")
    };
    let replies = client.ask_all(lines.map(of).iter().map(String::as_str));
    let number = |text: &str| text.trim_start_matches(':').parse::<u64>().unwrap_or(0);
    let found: Vec<u64> = replies.iter().map(|reply| number(reply)).collect();
    let n = found[0];
    let context =
        format!("writer {writer}, {words}: {acknowledged} acknowledged, {sent} sent, found {replies:?}");
    assert!((acknowledged..=sent).contains(&n), "{context}");
    assert_eq!(found, [n, n, n, n, n.min(LOG_LEN)], "{context}");
    if n > 0 {
        let once = [n.saturating_sub(1), n, n + 1].map(|n| format!("EXISTS {{{writer}}}:once:{n}"));
        assert_eq!(client.ask_all(once.iter().map(String::as_str)), [":0", ":1", ":0"], "{context}");
        assert_eq!(client.ask(&of(&format!("ZSCORE scores {}", n % 7))), n.to_string(), "{context}");
        let last = client.ask(&of("XREVRANGE stream + - COUNT 1"));
        assert_eq!(last, format!("[[{n}-1 [n {n}]]]"), "{context}");
    }
    // What a reader has read counts as acknowledged.
    ledger.set(writer, 0, n);
    ledger.set(writer, 1, n);
}

fn every_acknowledged_transaction_survives_kills(level: &str, shards: &str) {
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    let kills = std::env::var(KILLS_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    let (mut rng, watch) = (Rng::new(seed), Stopwatch::start());
    let words = format!("KEYSTEAD_SEED={seed} {KILLS_VARIABLE}={kills}, {level} on {shards} shards");
    let home = dir();
    let ledger = Ledger::new();
    let mut server = start_on(home.path(), &["--durability", level, "--shards", shards]);
    for _ in 0..kills {
        let writers: Vec<_> = (0..WRITERS).map(|writer| write(&server, &ledger, writer)).collect();
        pause(1 + rng.below(LIFE_MS));
        // Now and then it may end well, or the journal would only grow and every start take longer than the one before.
        if rng.below(10) == 0 {
            assert!(server.stop().unwrap().success(), "{}", server.logs());
        } else {
            server.kill().unwrap();
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        server.restart().unwrap();
        let mut client = Client::connect(&server);
        (0..WRITERS).for_each(|writer| check(&mut client, &ledger, writer, &words));
    }
    let done: u64 = (0..WRITERS).map(|writer| ledger.of(writer)[0]).sum();
    assert!(done > kills * 20, "only {done} transactions in {kills} rounds");
    assert!(server.stop().unwrap().success());
    let (code, report, errors) = run(&["check", home.path().to_str().unwrap()]);
    assert_eq!((code, errors.as_str()), (0, ""), "{report}");
    assert_eq!(report_line(&report, "shards"), shards);
    println!("{words}: {done} transactions, {:?}", watch.elapsed());
}

#[test]
fn every_acknowledged_transaction_survives_kills_at_fsync_on_1_shard() {
    every_acknowledged_transaction_survives_kills("fsync", "1");
}

#[test]
fn every_acknowledged_transaction_survives_kills_at_commit_on_1_shard() {
    every_acknowledged_transaction_survives_kills("commit", "1");
}

#[test]
fn every_acknowledged_transaction_survives_kills_at_fsync_on_4_shards() {
    every_acknowledged_transaction_survives_kills("fsync", "4");
}

#[test]
fn every_acknowledged_transaction_survives_kills_at_commit_on_4_shards() {
    every_acknowledged_transaction_survives_kills("commit", "4");
}
