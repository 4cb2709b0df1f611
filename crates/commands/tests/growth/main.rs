//! Work in proportion: every row of the table runs with large arguments on large values, at one size and at eight times that size. A
//! row whose time grows much faster than n log n fails, where n is the size or the bytes of the reply, whichever grows faster: a
//! reply of `count` elements of `size` bytes is the square of the size by nature. A reply larger than its bound fails, too.
//!
//! The short form uses small sizes and shows that every row runs. `KEYSTEAD_OPS=N` uses large sizes, N requests for each row, and
//! measures. `KEYSTEAD_SEED=N` repeats the same requests.

#![allow(clippy::unwrap_used, reason = "in a test a surprise is a failure")]
#![allow(clippy::print_stdout, reason = "a test that measures is read by people")]
#![allow(dead_code, reason = "syntax and pools are shared with the random walk, which uses all of them")]

#[path = "../never_panics/pools.rs"]
mod pools;
mod requests;
mod scene;
#[path = "../never_panics/syntax.rs"]
mod syntax;

use std::collections::BTreeMap;
use std::time::Duration;

use keystead_commands::spec::Run;
use keystead_commands::{Spec, table};
use keystead_testkit::rng::{Rng, SEED_VARIABLE, fresh_seed, seed_from_env};

use scene::{Measured, Scene};

/// How much larger the larger size is.
const TIMES: usize = 8;

/// A time that grows by more than this many times the growth of its input is out of proportion: in input that is eight times as
/// large, n log n grows by less than 12, n times n by 64, and 26 is out of proportion.
const GROWTH_MAX: f64 = 26.0 / TIMES as f64;

/// Times below this at the larger size are not judged: caches and other processes disturb them.
const NOTICED: Duration = Duration::from_millis(250);

/// How often a request is measured; the minimum counts.
const ROUNDS: usize = 3;

/// Rows that are bounded by something other than the length of their input, and by what.
const BOUNDED: &[(&str, &str)] =
    &[("lcs", "length times length by nature: LCS has a bound on that product, as in Redis")];

/// The smaller size, and requests for each row.
fn sizes() -> (usize, usize, bool) {
    match std::env::var("KEYSTEAD_OPS").ok().and_then(|ops| ops.trim().parse().ok()) {
        Some(requests) => (5_000, requests, true),
        None => (30, 12, false),
    }
}

fn rows() -> Vec<&'static Spec> {
    table::leaves().filter(|row| !matches!(row.run, Run::Control(_))).collect()
}

/// How much more the larger request had to do: it has `TIMES` as much to read, or more than that to return.
fn justified(small: &Measured, large: &Measured) -> f64 {
    (large.reply_bytes as f64 / small.reply_bytes.max(1) as f64).max(TIMES as f64)
}

#[test]
fn no_command_takes_more_time_than_its_input_justifies() {
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    let (size, requests, measures) = sizes();
    println!("{SEED_VARIABLE}={seed}, sizes {size} and {}", size * TIMES);
    let mut scenes = [Scene::new(size), Scene::new(size * TIMES)];
    let (mut found, mut served) = (BTreeMap::<&str, (f64, String)>::new(), BTreeMap::<&str, usize>::new());
    for row in rows() {
        if measures {
            println!("{}", row.full_name);
        }
        for n in 0..requests {
            let mut made = [size, size * TIMES].map(|size| {
                let mut rng = Rng::new(seed ^ (n as u64) << 32);
                requests::make(&mut rng, row, size)
            });
            let [small, large] = [0, 1].map(|at| scenes[at].measure(row, &made[at], ROUNDS));
            *served.entry(row.full_name).or_default() += usize::from(small.served || large.served);
            let growth = large.time.as_secs_f64() / small.time.as_secs_f64().max(1e-6);
            if measures && large.time > NOTICED && growth > GROWTH_MAX * justified(&small, &large) {
                let words = format!("{} {:?} then {:?}", requests::shown(&made[0]), small.time, large.time);
                println!("{}: {growth:.0} times as long: {words}", row.full_name);
                let worst = found.entry(row.full_name).or_insert((0.0, String::new()));
                if growth > worst.0 {
                    *worst = (growth, words);
                }
            }
            made.iter_mut().for_each(Vec::clear);
        }
    }
    let failing: Vec<_> = served.iter().filter(|(_, count)| **count == 0).map(|(name, _)| *name).collect();
    println!("{} rows; always failing: {failing:?}", served.len());
    assert_eq!(served.len(), rows().len(), "every row runs");
    assert!(failing.len() * 5 <= served.len(), "of {} rows were always failing: {failing:?}", served.len());
    found.retain(|name, _| BOUNDED.iter().all(|(bounded, _)| bounded != name));
    assert!(found.is_empty(), "out of proportion: {:?}", found.keys().collect::<Vec<_>>());
}

/// A command that builds a reply without counting it would be found here.
#[test]
fn no_reply_is_larger_than_its_bound() {
    const BOUND: usize = 2_000;
    const SIZE: usize = 600;
    let seed = seed_from_env().unwrap_or_else(fresh_seed);
    println!("{SEED_VARIABLE}={seed}");
    let mut scene = Scene::new(SIZE);
    let mut failing = 0;
    for row in rows().into_iter().filter(|row| matches!(row.run, Run::Data(_))) {
        for n in 0..12 {
            let mut rng = Rng::new(seed ^ (n as u64) << 32);
            let request = requests::make(&mut rng, row, SIZE);
            let reply = scene.run_within(row, &request, BOUND);
            let (bytes, words) = (scene::held_bytes(&reply), requests::shown(&request));
            assert!(bytes <= BOUND, "{} replies {bytes} bytes to {words}", row.full_name);
            failing += usize::from(matches!(&reply, keystead_commands::Reply::Error(fail) if fail.undoes()));
        }
    }
    assert!(failing > 100, "only {failing} replies met the bound");
}
