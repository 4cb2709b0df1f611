//! Makes a named test of every (store, case) pair, compatible with Rust's own test harness.
//!
//! Skipped cases are determined before anything runs, because `cargo nextest` lists the tests first. The reason is in brackets before
//! the name of the test, which every tool shows.

use std::future::Future;
use std::process::ExitCode;

use keystead_core::{Capabilities, Store};
use libtest_mimic::{Arguments, Failed, Trial};

use crate::cases::{Case, DECISION_GROUPS, Group};
use crate::runner::{DEADLINE, Ending, Entrant};
use crate::setup::{NotOpened, Opener, Setup};

/// The environment variable with the families of stores that are required, or `all`.
pub const REQUIRE_VARIABLE: &str = "REQUIRE";

/// The registered stores.
#[derive(Default)]
pub struct Conformance {
    entrants: Vec<Entrant>,
}

/// The suite, with no stores yet.
#[must_use]
pub fn conformance() -> Conformance {
    Conformance::default()
}

impl Conformance {
    /// Registers a store. The first word of the label is its family, which `REQUIRE=` names.
    #[must_use]
    pub fn store<S, F>(self, label: &str, open: impl Fn(Setup) -> F + Send + Sync + 'static) -> Self
    where
        S: Store + 'static,
        F: Future<Output = Result<S, NotOpened>> + Send + 'static,
    {
        self.enter(label, None, Opener::new(open))
    }

    /// Registers a store that keeps at most `max_keys` keys. It runs only the cases for bounded stores.
    #[must_use]
    pub fn bounded_store<S, F>(
        self,
        label: &str,
        max_keys: usize,
        open: impl Fn(Setup) -> F + Send + Sync + 'static,
    ) -> Self
    where
        S: Store + 'static,
        F: Future<Output = Result<S, NotOpened>> + Send + 'static,
    {
        self.enter(label, Some(max_keys), Opener::new(open))
    }

    fn enter(mut self, label: &str, max_keys: Option<usize>, opener: Opener) -> Self {
        self.entrants.push(Entrant { label: label.to_owned(), opener, max_keys, deadline: DEADLINE });
        self
    }

    /// Runs the tests that the command line selects, with the arguments of every Rust test.
    #[must_use]
    pub fn run(self) -> ExitCode {
        let args = Arguments::from_args();
        let required = Required::from_env();
        let trials = self.entrants.iter().flat_map(|entrant| trials(entrant, &args, &required)).collect();
        libtest_mimic::run(&args, trials).exit_code()
    }
}

/// Which families are required.
struct Required(Vec<String>);

impl Required {
    fn from_env() -> Self {
        Required::parse(&std::env::var(REQUIRE_VARIABLE).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let names = text.split(',').map(|name| name.trim().to_ascii_lowercase());
        Required(names.filter(|name| !name.is_empty()).collect())
    }

    fn contains(&self, family: &str) -> bool {
        self.0.iter().any(|name| name == "all" || name.eq_ignore_ascii_case(family))
    }
}

/// The result of probing a store.
enum Found {
    Store(Capabilities),
    /// Every case is skipped with this reason.
    Missing(String),
    /// Every case fails with this reason.
    Unusable(String),
}

fn trials(entrant: &Entrant, args: &Arguments, required: &Required) -> Vec<Trial> {
    let decisions = if entrant.max_keys.is_some() { &[][..] } else { DECISION_GROUPS };
    let groups = entrant.groups().iter().chain(decisions);
    let rows = groups.flat_map(|group| group.cases.iter().map(move |case| (group, case)));
    // nextest runs every test in a process of its own, and a filter may be for one store: no other is opened.
    let is_chosen = |(group, case): (&Group, &Case)| {
        args.filter.as_ref().is_none_or(|filter| name_of(entrant, group, case).contains(filter))
    };
    if !rows.clone().any(is_chosen) {
        return Vec::new();
    }
    let found = find(entrant, required);
    rows.map(|(group, case)| trial(entrant, group, case, &found)).collect()
}

fn name_of(entrant: &Entrant, group: &Group, case: &Case) -> String {
    format!("{}::{}::{}", entrant.label, group.name, case.name)
}

fn find(entrant: &Entrant, required: &Required) -> Found {
    match entrant.probe() {
        Ok(Ok(can)) => Found::Store(can),
        Ok(Err(NotOpened::Missing(reason))) if required.contains(entrant.family()) => {
            Found::Unusable(format!("{} is required and missing: {reason}", entrant.family()))
        }
        Ok(Err(NotOpened::Missing(reason))) => Found::Missing(reason),
        Ok(Err(broken @ NotOpened::Broken(_))) => Found::Unusable(broken.to_string()),
        Err(failure) => Found::Unusable(failure.to_string()),
    }
}

fn trial(entrant: &Entrant, group: &'static Group, case: &'static Case, found: &Found) -> Trial {
    let name = name_of(entrant, group, case);
    let skip = match found {
        Found::Store(can) => case.needs.iter().find_map(|need| need.unmet(*can)).map(str::to_owned),
        Found::Missing(reason) => Some(reason.clone()),
        Found::Unusable(reason) => {
            let reason = reason.clone();
            return Trial::test(name, move || Err(Failed::from(reason)));
        }
    };
    let entrant = entrant.clone();
    let trial = Trial::test(name, move || match entrant.run(group, case) {
        Ending::Passed => Ok(()),
        // A skipped case that is run nevertheless must not count as passed.
        Ending::Skipped(reason) => Err(Failed::from(format!("skipped: {reason}"))),
        Ending::Failed(failure) => Err(Failed::from(failure)),
    });
    match skip {
        Some(reason) => trial.with_ignored_flag(true).with_kind(format!("skipped: {}", one_line(&reason))),
        None => trial,
    }
}

/// A reason in a form that is valid in a test's name.
fn one_line(reason: &str) -> String {
    reason.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broken::{Fault, TextStore};

    fn missing() -> Entrant {
        let opener = Opener::new(|_| async { Err::<TextStore, _>(NotOpened::missing("no\nserver here")) });
        Entrant { label: "redis 7, script".to_owned(), opener, max_keys: None, deadline: DEADLINE }
    }

    fn present() -> Entrant {
        let opener = Opener::new(|s| async move { Ok(TextStore::alone(s.clock(), Fault::None)) });
        Entrant { label: "text".to_owned(), opener, max_keys: None, deadline: DEADLINE }
    }

    /// Prints nothing to stdout: a tool that counts results there must not count these.
    fn run_silently(trials: Vec<Trial>) -> libtest_mimic::Conclusion {
        let logfile = Some("/dev/null".to_owned());
        libtest_mimic::run(&Arguments { logfile, ..Arguments::default() }, trials)
    }

    #[test]
    fn a_missing_backend_is_skipped_with_its_reason() {
        let trials = trials(&missing(), &Arguments::default(), &Required::parse("postgres"));
        assert!(trials.len() > 30 && trials.iter().all(Trial::has_ignored_flag));
        assert_eq!(trials[0].kind(), "skipped: no server here");
        let conclusion = run_silently(trials);
        assert_eq!(conclusion.num_passed, 0);
        assert!(conclusion.num_ignored > 30);
    }

    #[test]
    fn a_required_backend_that_is_missing_fails() {
        for require in ["all", "postgres, redis", "REDIS"] {
            let trials = trials(&missing(), &Arguments::default(), &Required::parse(require));
            assert!(trials.iter().all(|trial| !trial.has_ignored_flag()));
            let conclusion = run_silently(trials);
            assert_eq!((conclusion.num_passed, conclusion.num_ignored), (0, 0), "{require}");
        }
    }

    #[test]
    fn a_case_that_capabilities_exclude_is_skipped_and_its_opposite_runs() {
        let trials = trials(&present(), &Arguments::default(), &Required::parse(""));
        let skipped = |name: &str| trials.iter().find(|t| t.name() == name).unwrap().has_ignored_flag();
        assert!(skipped("text::sync::apply_sync_returns"));
        assert!(!skipped("text::sync::apply_sync_is_rejected"));
    }

    #[test]
    fn the_family_is_the_first_word() {
        assert_eq!(missing().family(), "redis");
        assert_eq!(present().family(), "text");
    }
}
