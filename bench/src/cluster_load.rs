//! Nodes join and leave under a fixed rate of writes, 3 -> 4 -> 2, through the nodes and through a router, in one run: errors, writes a second,
//! and the time of requests before, during and after, counted from when each was due.
//!
//! `KEYSTEAD_RATE` is the rate, 40,000 writes a second unless it is set; 0 is as fast as they are answered. Touches servers on free ports of
//! loopback, stopped by their process ids.

use std::time::{Duration, Instant};

use keystead_testkit::cluster_writers::{Options, Way, Window, Writers};

use crate::cluster_move::{Cluster, KEYS, fill};

/// Clients, and the writes that each sends at once.
const CLIENTS: usize = 4;
const PIPELINE: usize = 64;

/// How long is measured before anything moves, and after everything has.
const STILL: Duration = Duration::from_secs(5);

pub(crate) fn run() {
    let rate = std::env::var("KEYSTEAD_RATE").ok().and_then(|rate| rate.parse().ok()).unwrap_or(40_000.0);
    println!(
        "{KEYS} keys of 100 bytes, {CLIENTS} clients with pipelines of {PIPELINE} writes (INCR and SET IFEQ), {rate} writes/s wanted:\n"
    );
    println!(
        "| way | phase | took | writes/s | least in a second | errors | redirections | p50 | p99 | p99.9 | longest |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for (name, is_through_router) in [("nodes", false), ("router", true)] {
        if measure(name, is_through_router, rate).is_none() {
            println!("{name}: nodes did not join and leave");
        }
    }
}

fn measure(name: &str, is_through_router: bool, rate: f64) -> Option<()> {
    let mut cluster = Cluster::start()?;
    fill(cluster.ports())?;
    let way = match is_through_router {
        true => Way::Router(cluster.router()?),
        false => Way::Nodes(cluster.ports()[..3].to_vec()),
    };
    let pace = (rate > 0.0).then(|| rate / (CLIENTS * PIPELINE) as f64);
    let options =
        Options { way, clients: CLIENTS, keys: 2000, pipeline: PIPELINE, per_slot: 4, swaps: true, pace };
    let mut writers = Writers::start(options);
    std::thread::sleep(Duration::from_secs(1));
    let _ = writers.mark();
    std::thread::sleep(STILL);
    print(name, "before", STILL, writers.mark());
    for (phase, lines) in
        [("3 -> 4", &["cluster rebalance"][..]), ("4 -> 2", &["cluster remove a", "cluster remove b"])]
    {
        let since = Instant::now();
        lines.iter().try_for_each(|line| cluster.run(line))?;
        print(name, phase, since.elapsed(), writers.mark());
    }
    std::thread::sleep(STILL);
    print(name, "after", STILL, writers.mark());
    match writers.stop_and_check() {
        Ok(keys) => println!("  {name}: {keys} keys are what was acknowledged"),
        Err(error) => println!("  {name}: LOST OR REPEATED: {error}"),
    }
    Some(())
}

fn print(name: &str, phase: &str, took: Duration, mut window: Window) {
    let least = window.by_second.iter().take(window.lasted.as_secs() as usize).min().copied();
    let [p50, p99, p999, longest] = [0.5, 0.99, 0.999, 1.0].map(|part| window.quantile_ms(part));
    println!(
        "| {name} | {phase} | {:.2} s | {:.0} | {} | {} | {} | {p50:.1} ms | {p99:.1} ms | {p999:.1} ms | {longest:.0} ms |",
        took.as_secs_f64(),
        window.rate(),
        least.unwrap_or_default(),
        window.errors.values().sum::<u64>(),
        window.redirections,
    );
    if !window.errors.is_empty() {
        println!("  {name}: {:?}", window.errors);
    }
    if !window.wrong.is_empty() {
        println!("  {name}: LOST OR REPEATED: {:?}", &window.wrong[..window.wrong.len().min(5)]);
    }
}
