//! Processor time of a request, over all threads of the server, compared with Redis and Valkey: SET and GET, one at a time and in
//! pipelines, 50 and 1,000 connections, 1, 2 and 4 shards.
//!
//! The servers get the same requests one right after the other, `ROUNDS` times in turn, and the cheapest round of each is reported:
//! what else runs on the machine can only add. `KEYSTEAD_ROWS="fsync 16 set"` selects rows. Valkey is looked for at
//! `KEYSTEAD_VALKEY`, or in the path.

use crate::keystead::Keystead;
use crate::redis::Redis;
use crate::report::is_wanted;
use crate::resp::{Figure, LEVELS, ROUNDS, measure_with};

const VALUE: &str = concat!(
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
);

const COMMANDS: [(&str, &[&str]); 2] =
    [("set", &["SET", "key:__rand_int__", VALUE]), ("get", &["GET", "key:__rand_int__"])];

/// Kernel ticks of processor time a second, on every Linux.
const TICKS: f64 = 100.0;

/// Of one server in one row.
#[derive(Clone, Copy)]
struct Cost {
    micros: f64,
    figure: Figure,
}

pub(crate) fn run() {
    println!("{:<40} {:>10} {:>9} {:>9} {:>9}", "", "µs/request", "ratio", "request/s", "p99 ms");
    for (level, options, requests) in LEVELS {
        let peers = [("redis", Redis::start_with(options)), ("valkey", Redis::start_valkey(options))];
        for shards in [1, 2, 4] {
            let settings = format!("shards = {shards}\n");
            let Some(keystead) = Keystead::start_with(level, &settings) else { return };
            for connections in [50, 1000] {
                for (pipeline, requests) in [1, 16].into_iter().zip(requests) {
                    for (name, command) in COMMANDS {
                        let row = format!(
                            "{level} {shards} shards {connections} connections pipeline {pipeline} {name}"
                        );
                        if !is_wanted(&row) {
                            continue;
                        }
                        let mut servers = vec![("keystead", keystead.pid(), keystead.port)];
                        servers.extend(peers.iter().filter_map(|(name, peer)| {
                            peer.as_ref().map(|peer| (*name, peer.pid(), peer.port))
                        }));
                        let measure = |pid: u32, port: u16| {
                            let before = processor_ticks(pid);
                            let figure = measure_with(port, connections, pipeline, requests, command);
                            let micros = (processor_ticks(pid) - before) / TICKS * 1e6 / f64::from(requests);
                            Cost { micros, figure }
                        };
                        print_row(&row, &servers, measure);
                    }
                }
            }
        }
    }
}

fn print_row(row: &str, servers: &[(&str, u32, u16)], measure: impl Fn(u32, u16) -> Cost) {
    let mut best: Vec<Option<Cost>> = vec![None; servers.len()];
    for _ in 0..ROUNDS {
        for ((_, pid, port), best) in servers.iter().zip(&mut best) {
            let cost = measure(*pid, *port);
            let figure = best.map_or(cost.figure, |best| best.figure.better(cost.figure));
            let micros = best.map_or(cost.micros, |best| best.micros.min(cost.micros));
            *best = Some(Cost { micros, figure });
        }
    }
    let costs: Vec<Cost> = best.into_iter().flatten().collect();
    let ours = costs[0].micros;
    println!("{row}");
    for ((name, ..), cost) in servers.iter().zip(&costs) {
        println!(
            "{:<40} {:>10.2} {:>8.2}x {:>9.0} {:>9.2}",
            format!("  {name}"),
            cost.micros,
            ours / cost.micros,
            cost.figure.per_second,
            cost.figure.p99_ms
        );
    }
}

/// User and system time of a process, with all of its threads.
fn processor_ticks(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // After the name, which may contain spaces, the first field is the third.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()
}
