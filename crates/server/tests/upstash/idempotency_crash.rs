//! Killed with SIGKILL while requests with an `Idempotency-Key` run: a request that is repeated until it has a response runs once.
//!
//! Each writer has a counter. Its n-th request adds one with the key n, and is sent again after a kill if it had no response;
//! so its response is n, whether it ran before the kill or not.

use std::thread::JoinHandle;

use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};
use keystead_testkit::server::Server;

use crate::client::Http;
use crate::common::{dir, start_on};
use crate::resp::pause;

const KILLS: u64 = 6;
const WRITERS: usize = 6;

/// The n-th request of a writer, and its response.
fn request(writer: usize, n: u64) -> (&'static str, String, String) {
    match n % 3 {
        0 => ("/", format!(r#"["INCR","w{writer}"]"#), format!(r#"{{"result":{n}}}"#)),
        1 => (
            "/pipeline",
            format!(r#"[["SET","{{w{writer}}}s",{n}],["INCR","w{writer}"]]"#),
            format!(r#"[{{"result":"OK"}},{{"result":{n}}}]"#),
        ),
        _ => (
            "/multi-exec",
            format!(r#"[["INCR","w{writer}"],["SET","{{w{writer}}}s",{n}]]"#),
            format!(r#"[{{"result":{n}}},{{"result":"OK"}}]"#),
        ),
    }
}

/// Counts until the server is killed, and returns the last acknowledged number.
fn write(server: &Server, writer: usize, mut last: u64) -> JoinHandle<u64> {
    let mut http = Http::connect(server);
    std::thread::spawn(move || {
        loop {
            let (target, body, expected) = request(writer, last + 1);
            let name = format!("Idempotency-Key: {writer}-{}", last + 1);
            http.send("POST", target, &[&name], body.as_bytes());
            match http.try_receive("POST") {
                Ok(response) if response.status == 200 => assert_eq!(response.text(), expected, "{name}"),
                // A server that is being killed may still return an error.
                Ok(response) if response.status == 503 => return last,
                Ok(response) => panic!("{name}: {response:?}"),
                Err(_) => return last,
            }
            last += 1;
        }
    })
}

fn a_request_that_is_repeated_until_it_has_a_response_runs_once(shards: &str) {
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    println!("KEYSTEAD_SEED={seed}, {shards} shards");
    let (mut rng, home) = (Rng::new(seed), dir());
    let mut server = start_on(home.path(), &["--durability", "fsync", "--shards", shards]);
    let mut last = [0; WRITERS];
    for _ in 0..KILLS {
        let writers: Vec<_> = (0..WRITERS).map(|writer| write(&server, writer, last[writer])).collect();
        pause(20 + rng.below(200));
        server.kill().unwrap();
        for (writer, thread) in writers.into_iter().enumerate() {
            last[writer] = thread.join().unwrap();
        }
        server.restart().unwrap();
        let mut http = Http::connect(&server);
        for (writer, last) in last.iter().enumerate() {
            let response = http.get(&format!("/get/w{writer}")).json();
            let found: u64 = response["result"].as_str().map_or(0, |text| text.parse().unwrap());
            assert!(found == *last || found == last + 1, "seed {seed}: {found} after {last}");
        }
    }
    assert!(last.iter().all(|last| *last > 0), "{last:?}: hardly anything was written");
    assert!(server.stop().unwrap().success());
}

#[test]
fn a_request_that_is_repeated_until_it_has_a_response_runs_once_on_1_shard() {
    a_request_that_is_repeated_until_it_has_a_response_runs_once("1");
}

#[test]
fn a_request_that_is_repeated_until_it_has_a_response_runs_once_on_4_shards() {
    a_request_that_is_repeated_until_it_has_a_response_runs_once("4");
}
