//! `THROTTLE` beside a real throttlecrab: the same questions to both, number by number.
//!
//! Three known differences, which docs/limits.md lists. Its `reset_after` counts until the key is forgotten,
//! `burst - 2` intervals later than ours. A limit of one admits everything there, since the key is forgotten at once. And a
//! key that was idle fills up to nearly twice its burst. So bursts begin at 2, and no key is idle: an interval takes minutes.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};
use keystead_testkit::{Checked, Failure};
use libtest_mimic::Failed;

use crate::peers::{Peer, THROTTLECRAB, start_subject};
use crate::wire::{Address, Value};

const QUESTIONS: u64 = 3000;

/// The difference that the time between the two replies makes, and rounding to seconds.
const SLACK_SECONDS: f64 = 2.0;

pub(crate) fn compare() -> Result<(), Failed> {
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    let (mut theirs, mut ours) = (start()?, start_subject(&["--durability", "memory"])?);
    let mut rng = Rng::new(seed);
    for n in 0..QUESTIONS {
        let burst = 2 + rng.below(9);
        let interval = 120 + rng.below(10_000);
        // A limit has a key of its own, so that both remember its own numbers.
        let key = format!("k:{burst}:{interval}:{}", n / 300);
        for _ in 0..=rng.below(6) {
            let quantity = rng.below(burst + 2);
            let line = format!("THROTTLE {key} {burst} 1 {interval} {quantity}");
            let (their, our) = (theirs.conn('t').ask_words(&line), ours.conn('t').ask_words(&line));
            if !same(&their, &our, burst, interval) {
                let words = format!(
                    "KEYSTEAD_SEED={seed}: {line}\n  throttlecrab: {their:?}\n  keystead:     {our:?}"
                );
                return Err(words.into());
            }
        }
    }
    let invalid = [
        "THROTTLE k 0 1 1",
        "THROTTLE k 1 0 1",
        "THROTTLE k 1 1 0",
        "THROTTLE k 1 1 1 -1",
        "THROTTLE k x 1 1",
    ];
    for line in invalid.into_iter().chain(["THROTTLE k 1 1", "THROTTLE k 1 1 1 1 1"]) {
        let (their, our) = (theirs.conn('t').ask_words(line), ours.conn('t').ask_words(line));
        if !their.is_error() || !our.is_error() {
            return Err(format!("{line}\n  throttlecrab: {their:?}\n  keystead:     {our:?}").into());
        }
    }
    Ok(())
}

/// Allowed, limit, remaining, reset and retry agree as far as they can.
fn same(their: &Value, our: &Value, burst: u64, interval: u64) -> bool {
    let (Some(their), Some(our)) = (numbers(their), numbers(our)) else { return false };
    let near = |a: f64, b: f64| (a - b).abs() <= SLACK_SECONDS;
    let reset = our[3] + (burst as f64 - 2.0) * interval as f64;
    their[..3] == our[..3] && near(their[3], reset) && near(their[4], our[4])
}

fn numbers(value: &Value) -> Option<Vec<f64>> {
    let items = value.items().filter(|items| items.len() == 5)?;
    items.iter().map(|item| String::from_utf8_lossy(item.bytes()?).parse().ok()).collect()
}

/// Starts throttlecrab at a free port of loopback.
fn start() -> Checked<Peer> {
    let binary = THROTTLECRAB.find().map_err(Failure::new)?;
    let address: SocketAddr = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let child = Command::new(&binary)
        .args(["--redis", "--redis-host", "127.0.0.1", "--redis-port", &address.port().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| Failure::new(format_args!("cannot start {}: {error}", binary.display())))?;
    let peer = Peer::child(THROTTLECRAB.name, Address::Tcp(address), child);
    let (_open, never) = channel::<()>();
    for _ in 0..500 {
        if TcpStream::connect(address).is_ok() {
            return Ok(peer);
        }
        let _ = never.recv_timeout(Duration::from_millis(20));
    }
    Err(Failure::new("throttlecrab-server does not listen"))
}
