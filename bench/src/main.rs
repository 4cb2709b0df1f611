//! Benchmarks beside peers, each in one run: `cargo run --release -p keystead-bench -- NAME`.
//!
//! Every figure of ours stands beside the peer's from the same run, with the ratio. A new bench is one file and one row.

#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used)]

mod flat;
mod report;
mod step;

struct Bench {
    name: &'static str,
    what: &'static str,
    run: fn(),
}

const BENCHES: [Bench; 2] = [
    Bench {
        name: "step",
        what: "ns per apply of a GCRA-like step on MemoryStore, beside governor",
        run: step::run,
    },
    Bench {
        name: "flat",
        what: "ns per apply, expiry and eviction from 1 thousand to 10 million keys",
        run: flat::run,
    },
];

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let unknown = wanted.iter().find(|name| BENCHES.iter().all(|bench| bench.name != **name));
    if wanted.is_empty() || unknown.is_some() {
        println!("usage: cargo run --release -p keystead-bench -- NAME...\n");
        for bench in &BENCHES {
            println!("  {:10} {}", bench.name, bench.what);
        }
        std::process::exit(2);
    }
    for bench in BENCHES.iter().filter(|bench| wanted.iter().any(|name| name == bench.name)) {
        println!("## {}: {}", bench.name, bench.what);
        (bench.run)();
    }
}
