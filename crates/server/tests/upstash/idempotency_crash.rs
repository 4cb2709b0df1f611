//! Killed with SIGKILL while requests with an `Idempotency-Key` run: whatever was sent, sent again until it is answered, ran once.
//!
//! Each writer has a counter. Its n-th request adds one under the name n, and is sent again after a kill if it was not answered;
//! so its answer is n, whether it ran before the kill or not.

use std::thread::JoinHandle;

use keystead_testkit::rng::{Rng, fresh_seed, seed_from_env};
use keystead_testkit::server::Server;

use crate::client::Http;
use crate::common::{dir, start_on};
use crate::resp::pause;

const KILLS: u64 = 6;
const WRITERS: usize = 6;

/// The n-th request of a writer, and its answer.
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

/// Counts until the server is gone, and tells the last number that was acknowledged.
fn write(server: &Server, writer: usize, mut last: u64) -> JoinHandle<u64> {
    let mut http = Http::connect(server);
    std::thread::spawn(move || {
        loop {
            let (target, body, expected) = request(writer, last + 1);
            let name = format!("Idempotency-Key: {writer}-{}", last + 1);
            http.send("POST", target, &[&name], body.as_bytes());
            match http.try_receive("POST") {
                Ok(came) if came.status == 200 => assert_eq!(came.text(), expected, "{name}"),
                // A server that is being killed may still say that it cannot.
                Ok(came) if came.status == 503 => return last,
                Ok(came) => panic!("{name}: {came:?}"),
                Err(_) => return last,
            }
            last += 1;
        }
    })
}

fn whatever_is_sent_until_it_is_answered_runs_once(shards: &str) {
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
            let came = http.get(&format!("/get/w{writer}")).json();
            let found: u64 = came["result"].as_str().map_or(0, |text| text.parse().unwrap());
            assert!(found == *last || found == last + 1, "seed {seed}: {found} after {last}");
        }
    }
    assert!(last.iter().all(|last| *last > 0), "{last:?}: hardly anything was written");
    assert!(server.stop().unwrap().success());
}

#[test]
fn whatever_is_sent_until_it_is_answered_runs_once_on_1_shard() {
    whatever_is_sent_until_it_is_answered_runs_once("1");
}

#[test]
fn whatever_is_sent_until_it_is_answered_runs_once_on_4_shards() {
    whatever_is_sent_until_it_is_answered_runs_once("4");
}
