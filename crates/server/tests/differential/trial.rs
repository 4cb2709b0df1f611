//! One test: scripts of a family, one after the other, until enough commands were compared.

use std::collections::HashSet;
use std::io::Write;
use std::time::Duration;

use keystead_commands::table;
use keystead_core::Stopwatch;
use keystead_testkit::Checked;
use keystead_testkit::rng::{Rng, SEED_VARIABLE, fresh_seed, seed_from_env};
use libtest_mimic::Failed;

use crate::compare::{self, Outcome};
use crate::coverage::{Coverage, Ending, row};
use crate::families::{BASE, FAMILIES, Family};
use crate::grammar::fill;
use crate::own::OWN;
use crate::peers::{HASTE, PATIENCE, Peers};
use crate::pools::Pools;
use crate::regressions::REGRESSIONS;
use crate::script::{Judges, Script, Step, words};
use crate::{dataset, edge, generate, run, shrink};

/// Where the scripts of the short form begin.
const SEED: u64 = 1;

/// How many commands a test compares.
const COMMANDS: u64 = 8000;

/// The edge compares one of so many.
const EDGE_SHARE: u64 = 10;

/// After how many scripts Keystead is started again, where it is.
const RESTART_EVERY: u64 = 8;

/// What a test is about.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    family: Option<&'static Family>,
    /// What Keystead is started with.
    arguments: &'static [&'static str],
    sharded: bool,
    /// Whether Keystead is started again now and then, and must have kept everything.
    restarts: bool,
    /// Whether Keystead is the worker of `edge/`, over REST.
    pub(crate) at_edge: bool,
}

impl Subject {
    /// One family, in memory.
    pub(crate) fn family(family: &'static Family) -> Subject {
        let arguments = &["--durability", "memory"];
        Subject {
            name: family.name,
            family: Some(family),
            arguments,
            sharded: false,
            restarts: false,
            at_edge: false,
        }
    }

    /// All families, in memory.
    pub(crate) fn mixed() -> Subject {
        let arguments = &["--durability", "memory"];
        Subject { name: "mixed", family: None, arguments, sharded: false, restarts: false, at_edge: false }
    }

    /// All families, kept, and read back after restarts.
    pub(crate) fn mixed_at_commit() -> Subject {
        let arguments = &["--durability", "commit"];
        Subject { name: "mixed_at_commit", arguments, restarts: true, ..Subject::mixed() }
    }

    /// All families, on keys that are mostly on another shard than their connection.
    pub(crate) fn mixed_on_shards() -> Subject {
        let arguments = &["--durability", "memory", "--shards", "4"];
        Subject { name: "mixed_on_4_shards", arguments, sharded: true, ..Subject::mixed() }
    }

    /// The same on the worker of `edge/`, where a restart is an eviction.
    pub(crate) fn at_edge(self) -> Subject {
        Subject { at_edge: true, ..self }
    }

    fn script(&self, seed: u64) -> Script {
        self.limited(match self.family {
            Some(family) => generate::family(family, seed),
            None => generate::mixed(seed, self.sharded),
        })
    }

    /// Without what the subject cannot run.
    fn limited(&self, script: Script) -> Script {
        if self.at_edge { edge::over_rest(script) } else { script }
    }

    fn start(&self) -> Checked<Peers> {
        if self.at_edge { Peers::at_edge() } else { Peers::start(self.arguments) }
    }

    /// After how many scripts it is started again.
    fn restart_every(&self) -> u64 {
        if self.at_edge { 1 } else { RESTART_EVERY }
    }

    /// How many commands it compares: a share of them at the edge.
    fn commands(&self) -> u64 {
        if self.at_edge { wanted() / EDGE_SHARE } else { wanted() }
    }
}

/// Runs the test.
///
/// # Errors
/// With the smallest script that shows a difference, or the rows of the table that were not hit.
pub(crate) fn run_all(subject: &Subject) -> Result<(), String> {
    let mut peers = subject.start().map_err(|failure| failure.to_string())?;
    let (mut coverage, mut compared, watch) = (Coverage::default(), 0, Stopwatch::start());
    compared += fixed(subject, &mut peers, &mut coverage)?;
    let (commands, differences) = (subject.commands(), number_from_env("KEYSTEAD_DIFFERENCES").unwrap_or(1));
    let (mut failures, mut seen, mut scripts) = (Vec::new(), HashSet::new(), 0);
    // The short form sends the same scripts every time, so that a red run means a change; the long form explores.
    let explores = std::env::var_os("KEYSTEAD_COMMANDS").is_some();
    let mut seed = seed_from_env().unwrap_or_else(|| if explores { fresh_seed() } else { SEED });
    while compared < commands {
        let script = subject.script(seed);
        match run_once(&script, &mut peers, &mut coverage, PATIENCE) {
            Ok(steps) => {
                compared += steps;
                scripts += 1;
                if subject.restarts && scripts % subject.restart_every() == 0 {
                    restart(&mut peers).map_err(|words| format!("{words}\n\nthe script:\n{script}"))?;
                }
            }
            Err(difference) => {
                let (kind, words) = explain(subject, script, &difference, seed, &mut peers);
                if seen.insert(kind) {
                    failures.push(words);
                }
                if failures.len() as u64 >= differences {
                    return Err(failures.join("\n\n"));
                }
            }
        }
        seed = seed.wrapping_add(1);
    }
    if !failures.is_empty() {
        return Err(failures.join("\n\n"));
    }
    say(&format!(
        "[compared: {compared} commands of {}, {} successes and {} errors, in {:.1} s]",
        subject.name,
        coverage.count(Ending::Success),
        coverage.count(Ending::Error),
        watch.elapsed().as_secs_f64()
    ));
    // The table is Keystead's: another server that stands in for it has not got all of its commands.
    // A share of the commands does not hit them all.
    let rows = rows(subject).filter(|_| !peers.subject.stands_in() && !subject.at_edge);
    let missing = coverage.missing(rows);
    if missing.is_empty() {
        Ok(())
    } else {
        Err(format!("rows of the table that were not hit:\n  {}", missing.join("\n  ")))
    }
}

/// Starts Keystead again: it must hold what it held.
fn restart(peers: &mut Peers) -> Result<(), String> {
    let before = dataset::read(&mut peers.subject, Judges::Valkey);
    peers.subject.restart().map_err(|failure| failure.to_string())?;
    let after = dataset::read(&mut peers.subject, Judges::Valkey);
    match dataset::difference(&before, &after) {
        Some(difference) => Err(format!("after a restart: {difference}")),
        None => Ok(()),
    }
}

/// The fixed part of every run: regressions, and replies that are Keystead's own.
fn fixed(subject: &Subject, peers: &mut Peers, coverage: &mut Coverage) -> Result<u64, String> {
    let judges = subject.family.map_or(Judges::Both, |family| family.judges);
    let arity = subject.limited(generate::arity(judges, rows(subject).filter(|spec| !is_newest(spec))));
    let mut compared = run_once(&arity, peers, coverage, PATIENCE)?;
    for regression in REGRESSIONS.iter().filter(|regression| regression.family == subject.name) {
        let script = subject.limited(Script::parse(regression.judges, regression.text));
        compared += run_once(&script, peers, coverage, PATIENCE)
            .map_err(|difference| format!("an old difference is back: {difference}\n{script}"))?;
    }
    // They are those over TCP.
    if peers.subject.stands_in() || subject.at_edge {
        return Ok(compared);
    }
    for own in OWN.iter().filter(|own| own.family == subject.name) {
        let request = words(own.request);
        let reply = peers.subject.ask(&request);
        coverage.note(&request, &reply);
        if format!("{reply:?}") != own.reply {
            return Err(format!("the reply to {} is {reply:?}, not {}", own.request, own.reply));
        }
        compared += 1;
    }
    Ok(compared)
}

fn wanted() -> u64 {
    match std::env::var("KEYSTEAD_COMMANDS") {
        Ok(text) if text.trim() == "endless" => u64::MAX,
        _ => number_from_env("KEYSTEAD_COMMANDS").unwrap_or(COMMANDS),
    }
}

fn number_from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.trim().parse().ok()
}

/// The rows of the table that a test must cover: those of its family, split by which servers know them.
fn rows(subject: &Subject) -> impl Iterator<Item = &'static keystead_commands::Spec> {
    let family = subject.family;
    table::leaves().filter(move |spec| family.is_some_and(|family| belongs(family, spec)))
}

fn belongs(family: &Family, spec: &keystead_commands::Spec) -> bool {
    let titled = table::FAMILIES.iter().find(|(title, _)| *title == family.title);
    let inside = titled.is_some_and(|(_, rows)| {
        rows.iter().any(|row| {
            spec.full_name == row.full_name || spec.full_name.starts_with(&format!("{}|", row.full_name))
        })
    });
    let newer = spec.since.split('.').map(|part| part.parse().unwrap_or(0)).ge([7u32, 4]);
    inside && (title_is_split(family) == newer || !has_newer_sibling(family))
}

/// Whether no judge has it: of Redis 8.2 and later, or of Keystead. Its replies are in [`OWN`].
fn is_newest(spec: &keystead_commands::Spec) -> bool {
    spec.since.starts_with("0.") || spec.since.split('.').map(|part| part.parse().unwrap_or(0)).ge([8u32, 2])
}

fn title_is_split(family: &Family) -> bool {
    family.judges == Judges::Valkey
}

fn has_newer_sibling(family: &Family) -> bool {
    FAMILIES.iter().any(|other| other.title == family.title && other.judges != family.judges)
}

/// Runs a script and returns what differs, or how many steps were compared.
fn run_once(
    script: &Script,
    peers: &mut Peers,
    coverage: &mut Coverage,
    patience: Duration,
) -> Result<u64, String> {
    let ran = run::run(script, peers, patience);
    match compare::compare(script, &ran, coverage) {
        Outcome::Differs(place) => {
            let redis = ran.redis.as_ref().map(|replies| format!("\n    redis:    {:?}", replies[place]));
            let step = script.steps().nth(place).map(Step::to_string).unwrap_or_default();
            return Err(format!(
                "step {}, {step}{}\n    valkey:   {:?}\n    keystead: {:?}",
                place + 1,
                redis.unwrap_or_default(),
                ran.valkey[place],
                ran.subject[place]
            ));
        }
        Outcome::Parted(place) => return Ok(place as u64 + 1),
        Outcome::Same => {}
    }
    let subject = dataset::read(&mut peers.subject, script.judges);
    let valkey = dataset::difference(&dataset::read(&mut peers.valkey, script.judges), &subject);
    let redis = match (script.judges, &mut peers.redis) {
        (Judges::Both, Some(redis)) => dataset::difference(&dataset::read(redis, script.judges), &subject),
        _ => valkey.clone(),
    };
    match (redis, valkey) {
        (Some(redis), Some(_)) => Err(redis),
        _ => Ok(script.steps().count() as u64),
    }
}

/// Shrinks the script and describes its difference, with the text by which it equals another one.
fn explain(subject: &Subject, script: Script, first: &str, seed: u64, peers: &mut Peers) -> (String, String) {
    let mut unused = Coverage::default();
    let small = shrink::shrink(script, |smaller| run_once(smaller, peers, &mut unused, HASTE).is_err());
    let difference = run_once(&small, peers, &mut unused, HASTE).err();
    let difference =
        difference.unwrap_or_else(|| format!("{first}\nit did not happen again: it depends on time"));
    let kind = small.steps().last().map(Step::name).unwrap_or_default();
    let words = format!(
        "{SEED_VARIABLE}={seed} repeats it in the test {}\n{difference}\n\nthe smallest script that shows it:\n{small}",
        subject.name
    );
    (kind, words)
}

/// Every command of the table is in a template of its family.
pub(crate) fn every_row_has_a_template() -> Result<(), Failed> {
    let (mut rng, mut pools) = (Rng::new(1), Pools::new());
    let own = OWN.iter().filter_map(|own| row(&words(own.request))).map(|spec| spec.full_name);
    let mut named: HashSet<_> = own.collect();
    for template in
        FAMILIES.iter().flat_map(|family| family.templates.iter().chain(family.scenes)).chain(BASE)
    {
        // Alternatives of subcommands show after some draws.
        for _ in 0..60 {
            let group = fill(template, &mut rng, &mut pools).group;
            named.extend(group.iter().filter_map(|step| row(&step.args)).map(|spec| spec.full_name));
        }
    }
    let without: Vec<&str> =
        table::leaves().map(|spec| spec.full_name).filter(|name| !named.contains(name)).collect();
    if without.is_empty() { Ok(()) } else { Err(format!("commands without a template: {without:?}").into()) }
}

/// A note in a test's output.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
