//! What is acknowledged stays, and is whole: processes that are killed under load, requests and responses that are lost.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use keystead_core::Stopwatch;
use keystead_testkit::servers::Proxy;
use keystead_testkit::servers::proxy::Traffic;
use serde_json::{Value, json};

use super::{client::Http, common, compute, resp::PATIENCE, run, storage};

const WRITERS: usize = 4;

/// What a writer knows of its own pair of counters.
#[derive(Default)]
struct Known {
    acknowledged: AtomicU64,
    sent: AtomicU64,
}

/// Increments two counters in one transaction, again and again, until it is stopped.
fn write(address: std::net::SocketAddr, n: usize, known: &Known, stop: &AtomicBool) {
    let body = json!([["INCR", format!("a{n}")], ["HINCRBY", format!("b{n}"), "f", 1]]).to_string();
    let mut connected: Option<Http> = None;
    while !stop.load(Ordering::Relaxed) {
        let Some(http) = connected.as_mut() else {
            connected = Http::try_connect(address).ok();
            thread::yield_now();
            continue;
        };
        known.sent.fetch_add(1, Ordering::Relaxed);
        http.send("POST", "/multi-exec", &[], body.as_bytes());
        match http.try_receive("POST") {
            Ok(response) if response.status == 200 => {
                known.acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            Ok(_) => {}
            Err(_) => connected = None,
        }
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Stopwatch::start();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        thread::yield_now();
    }
}

#[test]
fn kills_of_both_sides_lose_nothing_and_leave_nothing_half_done() {
    let mut storage = storage(&[]);
    let port = keystead_testkit::servers::free_ports(1).unwrap()[0];
    let address = format!("127.0.0.1:{port}");
    let mut service =
        common::launch(&["serve", "--storage", &storage.url(""), "--http", &address]).start().unwrap();
    let address = address.parse().unwrap();
    let (known, stop): ([Known; WRITERS], _) =
        (std::array::from_fn(|_| Known::default()), AtomicBool::new(false));
    let acknowledged = || known.iter().map(|known| known.acknowledged.load(Ordering::Relaxed)).sum::<u64>();
    thread::scope(|scope| {
        for (n, known) in known.iter().enumerate() {
            let stop = &stop;
            scope.spawn(move || write(address, n, known, stop));
        }
        for round in 0..6 {
            let before = acknowledged();
            until("writes are acknowledged", || acknowledged() > before + 20);
            let killed = if round % 2 == 0 { &mut storage } else { &mut service };
            killed.kill().unwrap();
            killed.restart().unwrap();
        }
        let before = acknowledged();
        until("writes are acknowledged again", || acknowledged() > before + 20);
        stop.store(true, Ordering::Relaxed);
    });
    let mut http = Http::connect(&service);
    for (n, known) in known.iter().enumerate() {
        let (acknowledged, sent) =
            (known.acknowledged.load(Ordering::Relaxed), known.sent.load(Ordering::Relaxed));
        let number = |value: Value| value.as_str().unwrap_or("0").parse::<u64>().unwrap();
        let a = number(run(&mut http, &["GET", &format!("a{n}")]));
        let b = number(run(&mut http, &["HGET", &format!("b{n}"), "f"]));
        assert_eq!(a, b, "both or none");
        assert!(
            (acknowledged..=sent).contains(&a),
            "{acknowledged} were acknowledged of {sent}, and there are {a}"
        );
    }
}

/// Lost responses are settled: what was executed is acknowledged, and nothing is executed twice.
#[test]
fn lost_responses_and_requests_are_settled() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let storage = storage(&[]);
    let proxy = runtime.block_on(Proxy::start(storage.http().unwrap().port())).unwrap();
    let url = format!("http://127.0.0.1:{}", proxy.port());
    let service = common::launch(&["serve", "--storage", &url]).start().unwrap();
    let mut http = Http::connect(&service);
    let incr = |http: &mut Http| run(http, &["INCR", "n"]);
    assert_eq!(incr(&mut http), 1);
    for (traffic, n) in [(Traffic::RepliesLost, 2), (Traffic::RequestsLost, 3), (Traffic::RepliesLost, 4)] {
        proxy.set(traffic);
        let cuts = proxy.cuts();
        let waiting = thread::scope(|scope| {
            let waiting = scope.spawn(|| incr(&mut http));
            until("a connection is cut", || proxy.cuts() > cuts);
            proxy.set(Traffic::Forwarded);
            waiting.join().unwrap()
        });
        assert_eq!(waiting, n, "{traffic:?}");
    }
    let other = compute(&storage);
    assert_eq!(run(&mut Http::connect(&other), &["GET", "n"]), "4");
}

#[test]
fn a_storage_that_is_away_is_an_error_at_once_and_is_used_when_it_is_back() {
    let mut storage = storage(&[]);
    let service = compute(&storage);
    let mut http = Http::connect(&service);
    run(&mut http, &["SET", "a", "1"]);
    storage.stop().unwrap();
    let response = http.post("/", r#"["SET","a","2"]"#);
    assert_eq!(response.status, 503, "{response:?}");
    assert!(response.error().contains("storage"), "{response:?}");
    storage.restart().unwrap();
    assert_eq!(run(&mut http, &["GET", "a"]), "1");
    run(&mut http, &["SET", "a", "3"]);
    assert_eq!(run(&mut http, &["GET", "a"]), "3");
}
