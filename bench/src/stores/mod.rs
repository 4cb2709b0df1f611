//! Rate limits on every store, on real servers that this bench starts: checks a second and the 99th percentile with 1 and 32 checks in
//! flight, on one hot key and on 10,000 keys.
//!
//! Beside each figure stands the same check *by hand*: a GCRA with one number a key, in the fewest round trips that the server allows,
//! through the same client library, without deadlines, settled outcomes, expiry in the record or anything else that makes it a store.
//! That is the limit. On Redis and PostgreSQL rate-limiter-flexible on Node.js is the peer. All clients are one process.
//!
//! The limit is never reached, so every check writes. Ours, by hand and the peer alternate, `ROUNDS` times; the best round of each is
//! reported. `KEYSTEAD_ROWS='redis 32'` selects rows, `KEYSTEAD_SECONDS` is the length of a round.

mod by_hand;
mod peer;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use keystead_conformance::figures::{self, Figures, Load};
use keystead_core::{Result, Store};
use keystead_testkit::NotOpened;
use keystead_testkit::servers::{self, Kind, SharedServer, Site, keystead, postgres};
use tokio::runtime::{Builder, Runtime};

use crate::report::is_wanted;

const ROUNDS: usize = 2;
const KEYS: [usize; 2] = [1, 10_000];
const IN_FLIGHT: [usize; 2] = [1, 32];

/// A check by hand of the key of this number.
type Call = Arc<dyn Fn(usize) -> Pin<Box<dyn Future<Output = Result<()>> + Send>> + Send + Sync>;
type Prepared = Pin<Box<dyn Future<Output = Call> + Send>>;

struct Row {
    label: &'static str,
    /// The server, if the store needs one.
    kind: Option<&'static Kind>,
    url: fn(&Site) -> String,
    by_hand: Option<fn(&Site) -> Prepared>,
    peer: Option<&'static str>,
}

/// A check waits for its turn on a machine that has no time for it rather than fail.
const DEADLINE: &str = "deadline=40s";

static ROWS: &[Row] = &[
    Row { label: "memory", kind: None, url: |_| "memory:".to_owned(), by_hand: None, peer: None },
    Row {
        label: "sqlite",
        kind: None,
        url: |site| format!("sqlite:{}", site.dir.join("ours").display()),
        by_hand: Some(|site| Box::pin(by_hand::sqlite::prepare(site.dir.clone()))),
        peer: None,
    },
    Row {
        label: "sqlite-file",
        kind: None,
        url: |site| format!("sqlite-file:{}?{DEADLINE}", site.dir.join("ours.db").display()),
        by_hand: Some(|site| Box::pin(by_hand::sqlite::prepare(site.dir.clone()))),
        peer: None,
    },
    Row {
        label: "redis",
        kind: Some(&servers::redis::REDIS),
        url: |site| format!("redis://{}?{DEADLINE}", site.addresses()),
        by_hand: Some(|site| Box::pin(by_hand::redis::prepare(site.clone()))),
        peer: Some("redis"),
    },
    Row {
        label: "redis-cas",
        kind: Some(&servers::redis::REDIS),
        url: |site| format!("redis://{}?atomic=cas&{DEADLINE}", site.addresses()),
        by_hand: Some(|site| Box::pin(by_hand::redis::prepare(site.clone()))),
        peer: Some("redis"),
    },
    Row {
        label: "redis-cluster",
        kind: Some(&servers::redis::REDIS_CLUSTER),
        url: |site| format!("redis+cluster://{}?{DEADLINE}", site.addresses()),
        by_hand: Some(|site| Box::pin(by_hand::redis::prepare(site.clone()))),
        peer: None,
    },
    Row {
        label: "valkey",
        kind: Some(&servers::redis::VALKEY),
        url: |site| format!("redis://{}?{DEADLINE}", site.addresses()),
        by_hand: Some(|site| Box::pin(by_hand::redis::prepare(site.clone()))),
        peer: Some("redis"),
    },
    Row {
        label: "upstash",
        kind: Some(&servers::keystead::KEYSTEAD),
        url: |site| format!("upstash+http://{}@127.0.0.1:{}?{DEADLINE}", keystead::TOKEN, site.port()),
        by_hand: Some(|site| Box::pin(by_hand::http::upstash(site.clone()))),
        peer: None,
    },
    Row {
        label: "postgres-cas",
        kind: Some(&postgres::POSTGRES),
        url: |site| postgres_url(site, "cas"),
        by_hand: Some(|site| Box::pin(by_hand::postgres::prepare(site.clone()))),
        peer: Some("postgres"),
    },
    Row {
        label: "postgres-lock",
        kind: Some(&postgres::POSTGRES),
        url: |site| postgres_url(site, "lock"),
        by_hand: Some(|site| Box::pin(by_hand::postgres::prepare(site.clone()))),
        peer: Some("postgres"),
    },
    Row {
        label: "dynamodb",
        kind: Some(&servers::dynamodb::DYNAMODB),
        url: |site| {
            let endpoint = format!("endpoint=http://127.0.0.1:{}", site.port());
            format!("dynamodb://id:secret@bench?region=eu-west-1&{endpoint}&create=true&{DEADLINE}")
        },
        by_hand: Some(|site| Box::pin(by_hand::http::dynamodb(site.clone()))),
        peer: None,
    },
    Row {
        label: "denokv",
        kind: Some(&servers::denokv::DENOKV),
        url: |site| format!("denokv://{}@127.0.0.1:{}?{DEADLINE}", servers::denokv::TOKEN, site.port()),
        by_hand: Some(|site| Box::pin(by_hand::denokv::prepare(site.clone()))),
        peer: None,
    },
    Row {
        label: "nats",
        kind: Some(&servers::nats::NATS),
        url: |site| format!("nats://{}/bench?{DEADLINE}", site.addresses()),
        by_hand: Some(|site| Box::pin(by_hand::nats::prepare(site.clone()))),
        peer: None,
    },
    Row {
        label: "etcd",
        kind: Some(&servers::etcd::ETCD),
        url: |site| format!("etcd://127.0.0.1:{}?{DEADLINE}", site.port()),
        by_hand: Some(|site| Box::pin(by_hand::http::etcd(site.clone()))),
        peer: None,
    },
];

fn postgres_url(site: &Site, atomic: &str) -> String {
    let password = postgres::PASSWORD;
    format!("postgres://postgres:{password}@{}/postgres?atomic={atomic}&{DEADLINE}", site.addresses())
}

pub(crate) fn run() {
    let seconds = std::env::var("KEYSTEAD_SECONDS").ok().and_then(|text| text.parse().ok());
    let time = Duration::from_secs_f64(seconds.unwrap_or(1.5));
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    let peer = peer::Peer::find();
    if let Err(reason) = &peer {
        println!("rate-limiter-flexible is not measured: {reason}");
    }
    println!(
        "{:<14} {:>6} {:>6} {:>11} {:>8} {:>11} {:>8} {:>6} {:>11} {:>8} {:>6}",
        "store",
        "keys",
        "flying",
        "keystead/s",
        "p99 ms",
        "by hand/s",
        "p99 ms",
        "ratio",
        "peer/s",
        "p99 ms",
        "ratio"
    );
    for row in ROWS {
        let labels = KEYS.iter().flat_map(|keys| IN_FLIGHT.map(|n| format!("{} {keys} {n}", row.label)));
        if labels.into_iter().any(|label| is_wanted(&label)) {
            row.run(&runtime, peer.as_ref().ok(), time);
        }
    }
}

impl Row {
    fn run(&self, runtime: &Runtime, peer: Option<&peer::Peer>, time: Duration) {
        let scratch = tempfile::tempdir().unwrap();
        let (site, _server) = match self.kind.map(|kind| runtime.block_on(SharedServer::get(kind))) {
            None => (Site { dir: scratch.path().to_owned(), ports: Vec::new() }, None),
            Some(Ok(server)) => (server.site().clone(), Some(server)),
            Some(Err(NotOpened::Missing(reason))) => return println!("{:<14} skipped: {reason}", self.label),
            Some(Err(broken)) => return println!("{:<14} skipped: {broken}", self.label),
        };
        let store = runtime.block_on(async { keystead_stores::open(&(self.url)(&site)) }).unwrap();
        let by_hand = self.by_hand.map(|prepare| runtime.block_on(prepare(&site)));
        for keys in KEYS {
            for in_flight in IN_FLIGHT {
                if !is_wanted(&format!("{} {keys} {in_flight}", self.label)) {
                    continue;
                }
                let load = Load { in_flight, keys, time };
                let mut best = Best::default();
                for _ in 0..ROUNDS {
                    best.ours.keep(runtime.block_on(ours(&store, load)));
                    if let Some(call) = &by_hand {
                        let call = Arc::clone(call);
                        best.by_hand.keep(runtime.block_on(figures::calls(load, move |key| call(key))));
                    }
                    if let (Some(peer), Some(kind)) = (peer, self.peer) {
                        best.peer.keep(peer.measure(kind, &site, load));
                    }
                }
                best.print(self.label, load);
            }
        }
        runtime.block_on(store.close()).unwrap();
    }
}

async fn ours(store: &Arc<dyn Store>, load: Load) -> Result<Figures> {
    figures::checks(Arc::new(figures::limiter(Arc::clone(store), "bench")?), load).await
}

/// The best round, or why there is none.
#[derive(Default)]
enum Round {
    #[default]
    None,
    Measured(Figures),
    Failed(String),
}

impl Round {
    fn keep<E: std::fmt::Display>(&mut self, round: std::result::Result<Figures, E>) {
        match (round, &*self) {
            (Ok(new), Round::Measured(old)) if new.per_second <= old.per_second => {}
            (Ok(new), _) => *self = Round::Measured(new),
            (Err(error), _) => *self = Round::Failed(error.to_string()),
        }
    }

    fn per_second(&self) -> Option<f64> {
        match self {
            Round::Measured(figures) => Some(figures.per_second),
            _ => None,
        }
    }

    fn shown(&self) -> [String; 2] {
        match self {
            Round::None => ["-".to_owned(), "-".to_owned()],
            Round::Measured(figures) => {
                [format!("{:.0}", figures.per_second), format!("{:.3}", figures.p99.as_secs_f64() * 1000.0)]
            }
            Round::Failed(_) => ["failed".to_owned(), "-".to_owned()],
        }
    }
}

#[derive(Default)]
struct Best {
    ours: Round,
    by_hand: Round,
    peer: Round,
}

impl Best {
    fn print(&self, label: &str, load: Load) {
        let ratio = |other: &Round| match (self.ours.per_second(), other.per_second()) {
            (Some(ours), Some(other)) => format!("{:.2}x", ours / other),
            _ => "-".to_owned(),
        };
        let [[ours, ours_p99], [hand, hand_p99], [peer, peer_p99]] =
            [&self.ours, &self.by_hand, &self.peer].map(Round::shown);
        let (hand_ratio, peer_ratio) = (ratio(&self.by_hand), ratio(&self.peer));
        println!(
            "{label:<14} {:>6} {:>6} {ours:>11} {ours_p99:>8} {hand:>11} {hand_p99:>8} {hand_ratio:>6} {peer:>11} \
             {peer_p99:>8} {peer_ratio:>6}",
            load.keys, load.in_flight
        );
        for round in [&self.ours, &self.by_hand, &self.peer] {
            if let Round::Failed(reason) = round {
                println!("               {reason}");
            }
        }
    }
}
