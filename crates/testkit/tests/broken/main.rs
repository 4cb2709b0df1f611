//! The suite can fail: each deliberately broken store is caught by the cases for it and by no others, every case catches some
//! store, and the correct stores pass.

mod decisions;
mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use keystead_testkit::Setup;
use keystead_testkit::broken::{Fault, SharedRows, TextStore};
use keystead_testkit::cases::{BOUNDED_GROUPS, GROUPS};
use keystead_testkit::runner::{DEADLINE, Ending, Entrant};
use keystead_testkit::setup::Opener;
use libtest_mimic::{Arguments, Failed, Trial};

use rows::{BOUNDED, PLAIN, Row, SERVERS_CLOCK};

const MAX_KEYS: usize = 16;

/// A kind of store: its name, its faults, and how it is opened.
type Kind = (&'static str, &'static [Row], fn(Fault) -> Entrant);

fn main() -> ExitCode {
    let kinds: [Kind; 3] = [
        ("plain", PLAIN, plain),
        ("servers_clock", SERVERS_CLOCK, servers_clock),
        ("bounded", BOUNDED, bounded),
    ];
    let mut trials = vec![Trial::test("every_case_catches_something", every_case_catches_something)];
    for (kind, rows, entrant) in kinds {
        for &(fault, caught_by) in rows.iter().chain(&[(Fault::None, "")]) {
            let name = format!("{kind}::{fault:?}");
            trials.push(Trial::test(name, move || is_caught(&entrant(fault), caught_by)));
        }
    }
    trials.push(Trial::test("approximate::LostUpdate", || is_caught(&approximate(Fault::LostUpdate), "")));
    trials.extend(decisions::trials());
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Two opens with the same setup access the same rows, and no others.
fn entrant(fault: Fault, max_keys: Option<usize>, change: fn(TextStore) -> TextStore) -> Entrant {
    let databases: Arc<Mutex<BTreeMap<String, SharedRows>>> = Arc::default();
    let opener = Opener::new(move |setup: Setup| {
        let mut databases = databases.lock().expect("no opener panics");
        let rows = databases.entry(setup.prefix().to_owned()).or_default().clone();
        async move { Ok(change(TextStore::on(&rows, setup.clock(), fault))) }
    });
    // A store that is known to hang gets a short deadline.
    let deadline = if fault == Fault::LeaksLock { Duration::from_secs(5) } else { DEADLINE };
    Entrant { label: format!("{fault:?}"), opener, max_keys, deadline }
}

fn plain(fault: Fault) -> Entrant {
    entrant(fault, None, |store| store)
}

fn servers_clock(fault: Fault) -> Entrant {
    entrant(fault, None, TextStore::on_servers_clock)
}

fn approximate(fault: Fault) -> Entrant {
    entrant(fault, None, TextStore::approximate)
}

fn bounded(fault: Fault) -> Entrant {
    entrant(fault, Some(MAX_KEYS), |store| store.bounded(MAX_KEYS))
}

/// A walk with a fresh seed may miss a fault, so only correct stores must pass it.
fn depends_on_luck(case: &str) -> bool {
    case.ends_with("_on_a_fresh_seed")
}

fn is_caught(entrant: &Entrant, caught_by: &str) -> Result<(), Failed> {
    let (caught_by, honest) = (names(caught_by), caught_by.is_empty());
    let mut wrong = Vec::new();
    for (name, ending) in entrant.run_all() {
        let (want, caught) = (caught_by.contains(&name), matches!(ending, Ending::Failed(_)));
        if caught != want && (honest || !depends_on_luck(&name)) {
            wrong.push(format!("{name} {} catch it: {ending}", if want { "must" } else { "must not" }));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failed::from(wrong.join("\n"))) }
}

/// A case that no store fails could be deleted without any test failing.
fn every_case_catches_something() -> Result<(), Failed> {
    let rows = PLAIN.iter().chain(SERVERS_CLOCK).chain(BOUNDED);
    let caught_by: BTreeSet<String> = rows.flat_map(|(_, caught_by)| names(caught_by)).collect();
    let every: BTreeSet<String> =
        GROUPS.iter().chain(BOUNDED_GROUPS).flat_map(|group| names(&format!("{}: *", group.name))).collect();
    let idle: Vec<_> = every.difference(&caught_by).filter(|name| !depends_on_luck(name)).collect();
    let unknown: Vec<_> = caught_by.difference(&every).collect();
    if idle.is_empty() && unknown.is_empty() {
        return Ok(());
    }
    Err(Failed::from(format!("cases that catch nothing: {idle:?}; names of no case: {unknown:?}")))
}

/// The full names of the cases in a row: `group: case case group: *`.
fn names(row: &str) -> BTreeSet<String> {
    let (mut names, mut group) = (BTreeSet::new(), "");
    for word in row.split_whitespace() {
        match (word.strip_suffix(':'), word) {
            (Some(name), _) => group = name,
            (None, "*") => {
                let found = GROUPS.iter().chain(BOUNDED_GROUPS).find(|g| g.name == group);
                let cases = found.map_or(&[][..], |g| g.cases);
                names.extend(cases.iter().map(|case| format!("{group}::{}", case.name)));
            }
            (None, case) => {
                names.insert(format!("{group}::{case}"));
            }
        }
    }
    names
}
