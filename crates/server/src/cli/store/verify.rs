//! `keystead store verify URL`: the conformance suite and the decision vectors on a store of the user's. Touches what the URL names,
//! stdout and stderr.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use keystead_conformance::cases::{Case, DECISION_GROUPS, GROUPS, Group};
use keystead_conformance::figures::Load;
use keystead_conformance::runner::{Ending, Entrant};
use keystead_conformance::setup::Opener;
use keystead_conformance::{Failure, Setup};
use keystead_core::{Capabilities, Code, Error, Result};
use tokio::runtime::Runtime;

use super::super::{EXIT_FAILED, print};
use super::bench;
use super::target::{Target, random_prefix, runtime};
use crate::bounds::VERIFY_CASE_TIMEOUT;
use crate::cli::progress::Progress;
use crate::failure::{failure, one_line};

const MEASURED_KEYS: usize = 1_000;

pub(super) fn run(url: &str, time: Duration) -> Result<ExitCode> {
    if url.starts_with("memory:") && url.contains("max-keys") {
        return Err(failure(
            "a store with max-keys forgets keys, so the cases do not apply",
            "write memory:",
        ));
    }
    let verify = Verify { target: Target::new(url), prefix: random_prefix("verify"), runtime: runtime()? };
    let can = verify.probe()?;
    print(&opening(&verify, can));
    let rows = verify.cases();
    // Also if the server has gone away in between.
    let removed = verify.runtime.block_on(verify.target.clean());
    let rows = rows?;
    print(&table(&rows));
    let diverges = rows.iter().find_map(|row| match &row.ending {
        Ending::Failed(failure) => Some((row, failure)),
        _ => None,
    });
    match diverges {
        Some((row, failure)) => print(&divergence(row, failure)),
        None => verify.figures(time)?,
    }
    let removed = removed.and_then(|removed| Ok(removed + verify.runtime.block_on(verify.target.clean())?));
    let removed = removed
        .map_err(|error| error.context(format_args!("keys that begin with {} are left", verify.prefix)))?;
    print(&format!("\nremoved {removed} keys\n{}\n", verdict(&rows)));
    Ok(if diverges.is_some() { ExitCode::from(EXIT_FAILED) } else { ExitCode::SUCCESS })
}

struct Verify {
    target: Target,
    prefix: String,
    runtime: Runtime,
}

/// A case and how it ended.
struct Row {
    name: String,
    ending: Ending,
}

impl Verify {
    fn probe(&self) -> Result<Capabilities> {
        self.runtime.block_on(self.target.probe(&self.prefix)).map_err(|error| {
            Error::new(Code::ConfigInvalid, format!("cannot verify {}: {error}", self.target.shown()))
        })
    }

    /// Runs every case. An error means that the server has gone away.
    fn cases(&self) -> Result<Vec<Row>> {
        let target = self.target.clone();
        let opener = Opener::new(move |setup: Setup| {
            let opened = target.open(setup.clock());
            async move { Ok(opened?) }
        });
        let entrant = Entrant { label: String::new(), opener, max_keys: None, deadline: VERIFY_CASE_TIMEOUT };
        let groups = || GROUPS.iter().chain(DECISION_GROUPS);
        let count: usize = groups().map(|group| group.cases.len()).sum();
        let all = groups().flat_map(|group| group.cases.iter().map(move |case| (group, case)));
        let mut progress = Progress::new();
        let mut rows = Vec::with_capacity(count);
        for (i, (group, case)) in all.enumerate() {
            progress
                .show(&format!("verifying {}", group.name), &format!("{} ({} of {count})", case.name, i + 1));
            let row = self.case(&entrant, i, group, case);
            if matches!(row.ending, Ending::Failed(_)) {
                self.probe().map_err(|error| error.context(format_args!("in case {}", row.name)))?;
            }
            rows.push(row);
        }
        Ok(rows)
    }

    fn case(&self, entrant: &Entrant, number: usize, group: &Group, case: &'static Case) -> Row {
        let name = format!("{}::{}", group.name, case.name);
        let setup = Setup::with_prefix(name.as_str(), format!("{}-{number}", self.prefix));
        Row { name, ending: entrant.run_with(setup, case) }
    }

    fn figures(&self, time: Duration) -> Result<()> {
        let loads = [1, 32].map(|in_flight| Load { in_flight, keys: MEASURED_KEYS, time });
        let mut text = format!("\n{}", bench::HEAD);
        let measured = bench::measure(&self.target, &self.prefix, loads.into_iter(), |load, figures| {
            text.push_str(&bench::row(load, figures));
        });
        self.runtime.block_on(measured).map_err(|error| error.context("while measuring"))?;
        print(&text);
        Ok(())
    }
}

fn opening(verify: &Verify, can: Capabilities) -> String {
    let yes = [
        (can.atomic, "atomic"),
        (can.durable, "durable"),
        (can.shared, "shared"),
        (can.sync, "synchronous"),
        (can.injected_clock, "injected clock"),
        (!can.injected_clock, "server's clock"),
    ];
    let yes: Vec<&str> = yes.into_iter().filter_map(|(yes, name)| yes.then_some(name)).collect();
    format!(
        "{}\n  declares  {}; keys to {} bytes, states to {} bytes\n  prefix    {}\n\n",
        verify.target.shown(),
        yes.join(", "),
        can.key_bytes_max,
        can.state_bytes_max,
        verify.prefix
    )
}

fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    for Row { name, ending } in rows {
        let (word, reason) = match ending {
            Ending::Passed => ("passed", ""),
            Ending::Failed(_) => ("FAILED", "see below"),
            Ending::Skipped(reason) => ("not applicable", reason.as_str()),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", format!("{name:<width$}  {word:<14}  {reason}").trim_end());
    }
    text
}

fn divergence(row: &Row, failure: &Failure) -> String {
    let mut text = format!("\nfirst divergence\n  case      {}\n", row.name);
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:<8}  {}", one_line(value));
    };
    if let Some(difference) = failure.difference() {
        line("what", &difference.what);
        line("expected", &difference.expected);
        line("got", &difference.got);
    }
    if let Some(seed) = failure.seed() {
        line("seed", &format!("{seed} (KEYSTEAD_SEED={seed} repeats it)"));
    }
    line("in full", &failure.to_string());
    text
}

fn verdict(rows: &[Row]) -> String {
    let count = |is: fn(&Ending) -> bool| rows.iter().filter(|row| is(&row.ending)).count();
    let passed = count(|ending| matches!(ending, Ending::Passed));
    let failed = count(|ending| matches!(ending, Ending::Failed(_)));
    let skipped = count(|ending| matches!(ending, Ending::Skipped(_)));
    let word = if failed == 0 { "conforms" } else { "diverges" };
    format!("{word}: {passed} passed, {failed} failed, {skipped} not applicable")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let row = |name: &str, ending| Row { name: name.to_owned(), ending };
        vec![
            row("basics::a", Ending::Passed),
            row("sync::long_name", Ending::Skipped("it is not so".to_owned())),
            row("random::b", Ending::Failed(Failure::differs("count", "200", "19\n9").with_seed(7))),
        ]
    }

    #[test]
    fn the_table_has_every_case_with_its_reason() {
        let expected = "basics::a        passed\n\
                        sync::long_name  not applicable  it is not so\n\
                        random::b        FAILED          see below\n";
        assert_eq!(table(&rows()), expected);
        assert_eq!(verdict(&rows()), "diverges: 1 passed, 1 failed, 1 not applicable");
        assert_eq!(verdict(&rows()[..2]), "conforms: 1 passed, 0 failed, 1 not applicable");
    }

    #[test]
    fn a_divergence_says_what_was_expected_and_how_to_repeat_it() {
        let rows = rows();
        let Ending::Failed(failure) = &rows[2].ending else { panic!("it failed") };
        let text = divergence(&rows[2], failure);
        let expected = "\nfirst divergence\n  case      random::b\n  what      count\n  expected  200\n  got       19 9\n  \
                        seed      7 (KEYSTEAD_SEED=7 repeats it)\n  in full   count: expected 200, got 19 9 (";
        assert!(text.starts_with(expected), "{text}");
    }
}
