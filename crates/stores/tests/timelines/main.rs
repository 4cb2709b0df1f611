//! The same random timelines of checks on every store as in memory: equal decisions and states at every step, bit for bit; one step after the
//! other, several limits as one, and many steps at a time. One test for each store and way.
//!
//! `KEYSTEAD_SEED=N` repeats a counterexample, `KEYSTEAD_OPS=N` runs more timelines.

#[path = "../support/mod.rs"]
mod support;

use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use keystead_core::{ManualClock, Millis, Store};
use keystead_testkit::decisions::{combinations, concurrent, timelines};
use keystead_testkit::rng::{fresh_seed, seed_from_env};
#[cfg(feature = "sqlite")]
use keystead_testkit::servers::file;
use keystead_testkit::{Checked, Failure};
use libtest_mimic::{Arguments, Trial};

use support::{ON_SERVERS, OnServer, trial};

/// Longer than the long form takes on the slowest store. The test runner stops the short one earlier.
const DEADLINE: Duration = Duration::from_secs(1700);

/// A comparison of a store with memory.
type Compared<'a> = Pin<Box<dyn Future<Output = Checked> + Send + 'a>>;
type Compare = for<'a> fn(&'a Arc<dyn Store>, &'a ManualClock, &'a str, Seeds) -> Compared<'a>;
type Seeds = Box<dyn Iterator<Item = u64> + Send>;

/// A way to compare.
struct Way {
    name: &'static str,
    /// How many timelines one of them is worth: one has several limits, or up to 64 keys.
    worth: u64,
    is_concurrent: bool,
    compare: Compare,
}

static WAYS: [Way; 3] = [
    Way {
        name: "decides_as_memory_does",
        worth: 1,
        is_concurrent: false,
        compare: |store, clock, prefix, seeds| Box::pin(timelines::compare(&**store, clock, prefix, seeds)),
    },
    Way {
        name: "combines_limits_as_memory_does",
        worth: 4,
        is_concurrent: false,
        compare: |store, clock, prefix, seeds| Box::pin(combinations::compare(store, clock, prefix, seeds)),
    },
    Way {
        name: "decides_many_at_a_time_as_memory_does",
        worth: 10,
        is_concurrent: true,
        compare: |store, clock, prefix, seeds| Box::pin(concurrent::compare(store, clock, prefix, seeds)),
    },
];

/// The engine, of which one process has a database. The comparison looks at its decisions, so nothing has to reach the disk.
#[cfg(feature = "sqlite")]
static ENGINE: OnServer = OnServer {
    label: "sqlite",
    kind: &file::FILE,
    url: |site| {
        let name = format!("engine-{:x}", fresh_seed());
        format!("sqlite:{}?durability=memory&shards=2", site.dir.join(name).display())
    },
};

fn main() -> ExitCode {
    // What a clock of its own has cannot be compared.
    let stores = ON_SERVERS.iter().filter(|on_server| !on_server.label.contains("server clock"));
    #[cfg(feature = "sqlite")]
    let stores = stores.chain([&ENGINE]);
    let trials = stores.flat_map(|on_server| WAYS.iter().map(move |way| test(on_server, way))).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn test(on_server: &'static OnServer, way: &'static Way) -> Trial {
    let unfit = way.is_concurrent && on_server.is_approximate();
    let unfit = unfit.then_some("its steps are approximate by design");
    trial(on_server, way.name, unfit, DEADLINE, move |on_server| compare(on_server, way))
}

async fn compare(on_server: &'static OnServer, way: &'static Way) -> Checked {
    let clock = ManualClock::at(Millis(2_000_000_000_000));
    let opened = on_server.open(Arc::new(clock.clone())).await.map_err(Failure::new)?;
    let prefix = format!("timelines-{}-{}-{:x}", on_server.label, way.name, fresh_seed());
    let first = seed_from_env().unwrap_or_else(fresh_seed);
    let count = std::env::var("KEYSTEAD_OPS").ok().and_then(|text| text.trim().parse().ok());
    let count = (count.unwrap_or(200) / way.worth).max(1);
    // Kept seeds run first.
    let seeds = Box::new((1..=count / 4).chain((0..count).map(move |i| first.wrapping_add(i))));
    (way.compare)(&opened.store, &clock, &prefix, seeds).await?;
    opened.store.close().await.map_err(Failure::from)
}
