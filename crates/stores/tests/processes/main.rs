//! 200 concurrent applies are 200, and 200 checks at limit 50 admit 50, from three processes at the same time.
//!
//! The processes are this binary again, with the URL of the store in a variable.

#[path = "../support/mod.rs"]
mod support;

use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;

use keystead_core::{Key, Millis, StoreExt, SystemClock, Ttl};
use keystead_limit::strategy::{Ask, Check, FixedWindow};
use keystead_testkit::runner::{DEADLINE, within};
use keystead_testkit::scene::together;
use keystead_testkit::servers::SharedServer;
use keystead_testkit::steps::{FixedCount, increment};
use keystead_testkit::{Checked, Failure, NotOpened};
use libtest_mimic::{Arguments, Failed, Trial};

use support::{ON_SERVERS, OnServer};

const URL: &str = "KEYSTEAD_PROCESS_URL";
const PREFIX: &str = "KEYSTEAD_PROCESS_PREFIX";
const SHARE: &str = "KEYSTEAD_PROCESS_SHARE";

/// How many applies and checks each process makes.
const SHARES: [usize; 3] = [66, 67, 67];

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "a process reports to the one that started it")]
fn main() -> ExitCode {
    if let (Ok(url), Ok(prefix), Ok(share)) =
        (std::env::var(URL), std::env::var(PREFIX), std::env::var(SHARE))
    {
        return match within(DEADLINE, work(url, prefix, share.parse().unwrap_or(0))) {
            Ok(admitted) => {
                println!("{} {}", admitted[0], admitted[1]);
                ExitCode::SUCCESS
            }
            Err(failure) => {
                eprintln!("{failure}");
                ExitCode::FAILURE
            }
        };
    }
    let trials = ON_SERVERS.iter().map(trial).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// What one process does. Returns how many checks were admitted, by a step without a script and by one with.
async fn work(url: String, prefix: String, share: usize) -> Checked<[usize; 2]> {
    let store = keystead_stores::connect(&url, Arc::new(SystemClock)).await?;
    let key = |name: &str| Key::join(&prefix, name);
    let (applies, counted, checked) = (key("applies")?, key("counted")?, key("checked")?);
    let strategy = FixedWindow::new(50, 3_600_000_000)?;
    let admitted = together(share, |_| {
        let store = Arc::clone(&store);
        let (applies, counted, checked) = (applies.clone(), counted.clone(), checked.clone());
        async move {
            store.apply(&applies, &increment(Ttl::Never)).await?;
            let limit = FixedCount { limit: 50, window_ms: 3_600_000 };
            let counted = store.apply(&counted, &limit).await?;
            let check = Check { strategy, ask: Ask::units(1), at: Some(Millis(1000)) };
            Ok((counted, store.apply(&checked, &check).await?.0.allowed))
        }
    })
    .await?;
    store.close().await?;
    Ok([admitted.iter().filter(|one| one.0).count(), admitted.iter().filter(|one| one.1).count()])
}

fn trial(on_server: &'static OnServer) -> Trial {
    let name = format!("{}::three_processes_count_exactly", on_server.label);
    let missing = match (on_server.kind.find)() {
        _ if on_server.is_approximate() => Some("its steps are approximate by design".to_owned()),
        Err(NotOpened::Missing(reason)) => Some(reason),
        _ => None,
    };
    let required = std::env::var("REQUIRE").unwrap_or_default();
    let required = required.split(',').any(|name| name == "all" || name == on_server.kind.name);
    let trial = Trial::test(name, move || {
        within(DEADLINE, three_processes_count_exactly(on_server))
            .map_err(|failure| Failed::from(failure.to_string()))
    });
    match missing {
        Some(reason) if !required || on_server.is_approximate() => {
            trial.with_ignored_flag(true).with_kind(format!("skipped: {reason}"))
        }
        _ => trial,
    }
}

async fn three_processes_count_exactly(on_server: &'static OnServer) -> Checked {
    let server = SharedServer::get(on_server.kind).await.map_err(Failure::new)?;
    let url = (on_server.url)(server.site());
    let prefix = format!("processes-{:x}", keystead_testkit::rng::fresh_seed());
    let mut children = Vec::new();
    for share in SHARES {
        let mut command = Command::new(std::env::current_exe()?);
        command.env(URL, &url).env(PREFIX, &prefix).env(SHARE, share.to_string());
        children.push(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?);
    }
    let mut admitted = [0, 0];
    for child in children {
        let one = tokio::task::spawn_blocking(move || output(child)).await??;
        admitted = [admitted[0] + one[0], admitted[1] + one[1]];
    }
    if admitted != [50, 50] {
        return Err(Failure::new(format_args!("{admitted:?} of 200 checks were admitted at limit 50")));
    }
    let store = keystead_stores::connect(&url, Arc::new(SystemClock)).await?;
    match store.get::<u64>(&Key::join(&prefix, "applies")?).await? {
        Some(200) => Ok(()),
        count => Err(Failure::new(format_args!("{count:?} after 200 applies"))),
    }
}

fn output(child: Child) -> Checked<[usize; 2]> {
    let output = child.wait_with_output()?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let numbers: Vec<usize> = out.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [counted, checked] if output.status.success() => Ok([counted, checked]),
        _ => Err(Failure::new(format_args!("a process ended with {}: {out}{err}", output.status))),
    }
}
