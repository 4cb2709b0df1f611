//! `keystead store bench URL`: checks a second and latencies of a store. Touches what the URL names, stdout and stderr.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::ArgMatches;
use keystead_conformance::figures::{self, Figures, Load};
use keystead_core::{Code, Error, Key, Result, Store};

use super::target::{Target, random_prefix, runtime};
use crate::bounds::BENCH_SECONDS_MAX;
use crate::cli::progress::Progress;
use crate::failure::failure;

const SECONDS: u64 = 3;
const MANY_KEYS: usize = 10_000;
const IN_FLIGHT: [usize; 2] = [1, 32];

/// The head of a table of figures.
pub(super) const HEAD: &str = "in flight    keys     checks/s    p50 ms    p99 ms  p99.9 ms\n";

/// How long each row is measured.
pub(super) fn time(matches: &ArgMatches) -> Result<Duration> {
    let Some(text) = matches.get_one::<String>("seconds") else { return Ok(Duration::from_secs(SECONDS)) };
    match text.parse() {
        Ok(seconds) if (1..=BENCH_SECONDS_MAX).contains(&seconds) => Ok(Duration::from_secs(seconds)),
        _ => Err(failure(
            format_args!("--seconds '{text}' is invalid"),
            format_args!("write a whole number from 1 to {BENCH_SECONDS_MAX}"),
        )),
    }
}

pub(super) fn run(url: &str, time: Duration) -> Result<ExitCode> {
    let target = Target::new(url);
    let prefix = random_prefix("bench");
    let runtime = runtime()?;
    let cannot =
        |error: Error| Error::new(Code::ConfigInvalid, format!("cannot measure {}: {error}", target.shown()));
    runtime.block_on(target.probe(&prefix)).map_err(cannot)?;
    super::super::print(&format!("{}\n{HEAD}", target.shown()));
    let loads =
        [1, MANY_KEYS].into_iter().flat_map(|keys| IN_FLIGHT.map(|in_flight| Load { in_flight, keys, time }));
    let measured = runtime.block_on(measure(&target, &prefix, loads, |load, figures| {
        super::super::print(&row(load, figures));
    }));
    let removed = runtime.block_on(target.clean());
    measured.map_err(|error| error.context(target.shown()))?;
    let removed =
        removed.map_err(|error| error.context(format_args!("keys that begin with {prefix} are left")))?;
    super::super::print(&format!("removed {removed} keys\n"));
    Ok(ExitCode::SUCCESS)
}

/// Measures each load on a store of its own clock.
pub(super) async fn measure(
    target: &Target,
    prefix: &str,
    loads: impl Iterator<Item = Load>,
    mut each: impl FnMut(Load, Figures),
) -> Result<()> {
    let store = target.open_plain()?;
    let mut progress = Progress::new();
    for load in loads {
        let details = format!("{} in flight on {} keys", load.in_flight, load.keys);
        progress.show("measuring", &details);
        for number in 0..load.keys {
            target.keys.add(&Key::join(prefix, figures::key_name(number))?);
        }
        let limiter = Arc::new(figures::limiter(Arc::clone(&store), prefix)?);
        let measured = figures::checks(limiter, load).await?;
        progress.clear();
        each(load, measured);
    }
    store.close().await
}

/// A row under [`HEAD`].
pub(super) fn row(load: Load, figures: Figures) -> String {
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    let Figures { per_second, p50, p99, p999 } = figures;
    format!(
        "{:>9}  {:>6}  {per_second:>11.0}  {:>8.3}  {:>8.3}  {:>8.3}\n",
        load.in_flight,
        load.keys,
        ms(p50),
        ms(p99),
        ms(p999)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_aligned_with_its_head() {
        let load = Load { in_flight: 32, keys: 10_000, time: Duration::from_secs(1) };
        let ms = Duration::from_millis;
        let row = row(load, Figures { per_second: 12_345.6, p50: ms(1), p99: ms(2), p999: ms(30) });
        assert_eq!(row, "       32   10000        12346     1.000     2.000    30.000\n");
        assert_eq!(row.len(), HEAD.len());
    }
}
