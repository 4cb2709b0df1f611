//! Bytes of memory a key: a million small strings and hashes in the engine, compared with a real redis-server in the same run.
//!
//! Both figures are resident memory: after filling, minus that of the empty process. Each of ours is a process of its own, since
//! memory that one case has freed would be reused by the next.

use std::process::Command;

use keystead_engine::{Engine, Options};
use keystead_model::Bytes;
use keystead_model::keyspace::{Expire, Keyspace};

use crate::engine::name;
use crate::redis::Redis;

const KEYS: usize = 1_000_000;
const CASES: [&str; 4] =
    ["string of 3 bytes", "string of 20 bytes", "string of 32 bytes", "hash of 5 fields"];
const CHILD: &str = "KEYSTEAD_MEMORY_CASE";

pub(crate) fn run() {
    if let Ok(case) = std::env::var(CHILD) {
        println!("{}", ours(case.parse().unwrap()));
        return;
    }
    for (case, label) in CASES.iter().enumerate() {
        let child = Command::new(std::env::current_exe().unwrap())
            .arg("memory")
            .env(CHILD, case.to_string())
            .output();
        let text = String::from_utf8(child.unwrap().stdout).unwrap();
        let ours: f64 = text.lines().last().unwrap().parse().unwrap();
        match Redis::start() {
            Some(mut redis) => {
                let empty = redis.resident_bytes();
                redis.pipe((0..KEYS).map(|n| redis_command(case, n)));
                let theirs = (redis.resident_bytes() - empty) as f64 / KEYS as f64;
                println!(
                    "{label:20} keystead {ours:6.1} bytes a key   redis {theirs:6.1}   {:.2}x",
                    ours / theirs
                );
            }
            None => println!(
                "{label:20} keystead {ours:6.1} bytes a key   redis: no redis-server here, so nothing to compare"
            ),
        }
    }
}

fn ours(case: usize) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let engine = Engine::open(&Options::in_memory()).unwrap();
    let empty = resident_bytes();
    for first in (0..KEYS).step_by(1000) {
        let put = move |keyspace: &mut Keyspace, now| {
            for n in first..first + 1000 {
                match text(case) {
                    Some(value) => {
                        keyspace.set_str(&name(n), Bytes::from(value.as_bytes()), Expire::Keep, now)?;
                    }
                    None => {
                        let name = name(n);
                        let mut hash = keyspace.hash_mut(&name, now)?;
                        for field in 1..=5u8 {
                            let digit = b'0' + field;
                            let (mut field, mut value) = (*b"field0", *b"value0");
                            (field[5], value[5]) = (digit, digit);
                            hash.set(&Bytes::from(&field[..]), &Bytes::from(&value[..]));
                        }
                    }
                }
            }
            Ok(())
        };
        runtime.block_on(engine.write(b"x", put)).unwrap();
    }
    (resident_bytes() - empty) as f64 / KEYS as f64
}

fn text(case: usize) -> Option<&'static str> {
    ["xxx", "a string of 20 bytes", "a string of thirty-two bytes...."].get(case).copied()
}

fn redis_command(case: usize, n: usize) -> Vec<Vec<u8>> {
    let name = name(n).to_vec();
    match text(case) {
        Some(value) => vec![b"SET".to_vec(), name, value.into()],
        None => {
            let fields =
                (1..=5).flat_map(|n| [format!("field{n}").into_bytes(), format!("value{n}").into_bytes()]);
            [b"HSET".to_vec(), name].into_iter().chain(fields).collect()
        }
    }
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}
