//! 200 concurrent applies are 200, and 200 checks at limit 50 admit 50, from three processes at the same time.
//!
//! The processes are this binary again, with the URL of the store in a variable. Before each round all of them are ready, and then begin at
//! the same time; rounds are repeated until steps of different processes have mixed.

#[path = "../support/mod.rs"]
mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use keystead_core::{Key, Millis, Store, StoreExt, SystemClock, Ttl};
use keystead_limit::strategy::{Ask, Check, FixedWindow};
use keystead_testkit::rng::fresh_seed;
use keystead_testkit::runner::within;
use keystead_testkit::scene::together;
use keystead_testkit::servers::SharedServer;
use keystead_testkit::steps::{FixedCount, increment};
use keystead_testkit::{Checked, Failure};
use libtest_mimic::{Arguments, Trial};

use support::{ON_SERVERS, OnServer, trial};

const URL: &str = "KEYSTEAD_PROCESS_URL";
const PREFIX: &str = "KEYSTEAD_PROCESS_PREFIX";
const SHARE: &str = "KEYSTEAD_PROCESS_SHARE";

/// How many applies and checks each process makes in a round.
const SHARES: [usize; 3] = [66, 67, 67];

/// In so many parts, one after the other.
const WAVES: usize = 6;

/// At least so many rounds, each on keys of its own.
const ROUNDS: usize = 10;
/// And at least so many in which a process counted between two counts of another.
const MIXED: usize = 3;
/// After so many, processes that never mix are a failure of the test.
const ROUNDS_MAX: usize = 60;

/// Far more than the slowest store needs.
const DEADLINE: Duration = Duration::from_secs(240);

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "a process reports to the one that started it")]
fn main() -> ExitCode {
    if let (Ok(url), Ok(prefix), Ok(share)) =
        (std::env::var(URL), std::env::var(PREFIX), std::env::var(SHARE))
    {
        return match within(DEADLINE, work(url, prefix, share.parse().unwrap_or(0))) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                eprintln!("{failure}");
                ExitCode::FAILURE
            }
        };
    }
    let trials = ON_SERVERS.iter().map(test).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn test(on_server: &'static OnServer) -> Trial {
    let unfit = on_server.is_approximate().then_some("its steps are approximate by design");
    trial(on_server, "three_processes_count_exactly", unfit, DEADLINE, three_processes_count_exactly)
}

/// What one process has seen in a round.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// How many checks were admitted, by a step without a script and by one with.
    admitted: [usize; 2],
    /// Its first and its last count of all applies.
    counts: [u64; 2],
}

/// What one process does: a round for each line that it reads.
#[allow(clippy::print_stdout, reason = "a process reports to the one that started it")]
async fn work(url: String, prefix: String, share: usize) -> Checked {
    let store = keystead_stores::connect(&url, Arc::new(SystemClock)).await?;
    let mut number = 0;
    loop {
        println!("ready");
        let line = tokio::task::spawn_blocking(|| std::io::stdin().lock().lines().next()).await?;
        let Some(Ok(_)) = line else { break };
        let Seen { admitted, counts } = round(&store, &format!("{prefix}-{number}"), share).await?;
        println!("{} {} {} {}", admitted[0], admitted[1], counts[0], counts[1]);
        number += 1;
    }
    store.close().await?;
    Ok(())
}

async fn round(store: &Arc<dyn Store>, prefix: &str, share: usize) -> Checked<Seen> {
    let mut seen = Vec::with_capacity(share);
    // Steps of a process that wait for a key share a write: several waves, so that others come in between.
    for wave in 0..WAVES {
        let count = share * (wave + 1) / WAVES - share * wave / WAVES;
        seen.extend(together(count, |_| counted(Arc::clone(store), prefix.to_owned())).await?);
    }
    let counts = seen.iter().map(|one| one.0);
    Ok(Seen {
        admitted: [seen.iter().filter(|one| one.1).count(), seen.iter().filter(|one| one.2).count()],
        counts: [counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0)],
    })
}

/// The count of an apply, and whether two checks were admitted: one by a step without a script, and one by a step with one.
async fn counted(store: Arc<dyn Store>, prefix: String) -> Checked<(u64, bool, bool)> {
    let key = |name: &str| Key::join(&prefix, name);
    let count = store.apply(&key("applies")?, &increment(Ttl::Never)).await?;
    let limit = FixedCount { limit: 50, window_ms: 3_600_000 };
    let counted = store.apply(&key("counted")?, &limit).await?;
    let strategy = FixedWindow::new(50, 3_600_000_000)?;
    let check = Check { strategy, ask: Ask::units(1), at: Some(Millis(1000)) };
    Ok((count, counted, store.apply(&key("checked")?, &check).await?.0.allowed))
}

/// A process of the test. It is killed if the test ends before it.
struct Process {
    child: Child,
    requests: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
}

impl Process {
    fn start(url: &str, prefix: &str, share: usize) -> Checked<Process> {
        let mut command = Command::new(std::env::current_exe()?);
        command.env(URL, url).env(PREFIX, prefix).env(SHARE, share.to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let requests = child.stdin.take();
        let lines = child.stdout.take().ok_or_else(|| Failure::new("a process without output"))?;
        Ok(Process { child, requests, lines: BufReader::new(lines) })
    }

    fn line(&mut self) -> Checked<String> {
        let mut line = String::new();
        match self.lines.read_line(&mut line)? {
            0 => Err(Failure::new(format_args!("a process ended early: {}", self.child.wait()?))),
            _ => Ok(line.trim().to_owned()),
        }
    }

    fn until_ready(&mut self) -> Checked {
        match self.line()? {
            line if line == "ready" => Ok(()),
            line => Err(Failure::new(format_args!("'{line}' instead of 'ready'"))),
        }
    }

    fn go(&mut self) -> Checked {
        let requests = self.requests.as_mut().ok_or_else(|| Failure::new("it has been ended"))?;
        Ok(requests.write_all(b"go\n")?)
    }

    fn seen(&mut self) -> Checked<Seen> {
        let line = self.line()?;
        let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        match numbers[..] {
            [counted, checked, first, last] => {
                Ok(Seen { admitted: [counted as usize, checked as usize], counts: [first, last] })
            }
            _ => Err(Failure::new(format_args!("'{line}' instead of four numbers"))),
        }
    }

    /// Ends it, as it ends by itself.
    fn end(mut self) -> Checked {
        self.until_ready()?;
        self.requests = None;
        let status = self.child.wait()?;
        status
            .success()
            .then_some(())
            .ok_or_else(|| Failure::new(format_args!("a process ended with {status}")))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended, or nobody waits for it any more.
        let _ = (self.child.kill(), self.child.wait());
    }
}

async fn three_processes_count_exactly(on_server: &'static OnServer) -> Checked {
    let server = SharedServer::get(on_server.kind).await.map_err(Failure::new)?;
    let url = (on_server.url)(server.site());
    let prefix = format!("processes-{}-{:x}", on_server.label, fresh_seed());
    let store = keystead_stores::connect(&url, Arc::new(SystemClock)).await?;
    let (child_url, child_prefix) = (url, prefix.clone());
    let rounds = tokio::task::spawn_blocking(move || rounds(&child_url, &child_prefix)).await??;
    for number in 0..rounds {
        match store.get::<u64>(&Key::join(format!("{prefix}-{number}"), "applies")?).await? {
            Some(200) => {}
            count => {
                return Err(Failure::new(format_args!("{count:?} after 200 applies in round {number}")));
            }
        }
    }
    Ok(())
}

/// Runs the rounds, and returns how many there were.
fn rounds(url: &str, prefix: &str) -> Checked<usize> {
    let mut processes =
        SHARES.iter().map(|share| Process::start(url, prefix, *share)).collect::<Checked<Vec<_>>>()?;
    let (mut number, mut mixed) = (0, 0);
    while number < ROUNDS || mixed < MIXED {
        if number == ROUNDS_MAX {
            return Err(Failure::new(format_args!("{mixed} of {number} rounds had mixed steps")));
        }
        processes.iter_mut().try_for_each(Process::until_ready)?;
        processes.iter_mut().try_for_each(Process::go)?;
        let seen = processes.iter_mut().map(Process::seen).collect::<Checked<Vec<_>>>()?;
        for (i, what) in ["steps", "scripts"].into_iter().enumerate() {
            let admitted: usize = seen.iter().map(|one| one.admitted[i]).sum();
            if admitted != 50 {
                let words = format_args!("round {number}: {admitted} of 200 {what} admitted at limit 50");
                return Err(Failure::new(words));
            }
        }
        let between =
            |one: &Seen, other: &Seen| one.counts[0] < other.counts[0] && other.counts[0] < one.counts[1];
        mixed += usize::from(seen.iter().any(|one| seen.iter().any(|other| between(one, other))));
        number += 1;
    }
    processes.into_iter().try_for_each(Process::end)?;
    Ok(number)
}
