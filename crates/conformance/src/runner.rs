//! Runs one case on one store: on a runtime of its own, within a deadline, so that a hang is a failure.

use std::fmt;
use std::future::Future;
use std::sync::mpsc;
use std::time::Duration;

use keystead_core::{Capabilities, Store};
use tokio::runtime::{Builder, Runtime};

use crate::cases::{BOUNDED_GROUPS, Case, GROUPS, Group};
use crate::failure::{Checked, Failure};
use crate::scene::Scene;
use crate::setup::{NotOpened, Opener, Setup};

/// How long a case may take, in real time. Far more than any needs, even on a loaded machine.
pub const DEADLINE: Duration = Duration::from_secs(60);

const WORKERS: usize = 4;

/// A registered store.
#[derive(Clone)]
pub struct Entrant {
    /// Its name in the names of the tests. The first word is its family, which `REQUIRE=` names.
    pub label: String,
    /// Opens it.
    pub opener: Opener,
    /// The most keys that it keeps, if it is bounded.
    pub max_keys: Option<usize>,
    /// How long a case may take.
    pub deadline: Duration,
}

/// How a case ended.
#[derive(Debug)]
pub enum Ending {
    /// It passed.
    Passed,
    /// It failed.
    Failed(Failure),
    /// It was not run, for this reason.
    Skipped(String),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Passed => f.write_str("passed"),
            Ending::Failed(failure) => write!(f, "failed: {failure}"),
            Ending::Skipped(reason) => write!(f, "skipped: {reason}"),
        }
    }
}

impl Entrant {
    /// The groups of cases that concern this store.
    #[must_use]
    pub fn groups(&self) -> &'static [Group] {
        if self.max_keys.is_some() { BOUNDED_GROUPS } else { GROUPS }
    }

    /// The first word of the label.
    #[must_use]
    pub fn family(&self) -> &str {
        let end = self.label.find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        &self.label[..end.unwrap_or(self.label.len())]
    }

    /// Opens the store once, to determine whether it is available and what it declares.
    ///
    /// # Errors
    /// When it is missing, broken, or does not return in time.
    pub fn probe(&self) -> Checked<Result<Capabilities, NotOpened>> {
        let (opener, setup) = (self.opener.clone(), Setup::new("probe"));
        within(self.deadline, async move {
            Ok(match opener.open(setup).await {
                Ok(store) => {
                    let can = store.capabilities();
                    store.close().await?;
                    Ok(can)
                }
                Err(not_opened) => Err(not_opened),
            })
        })
    }

    /// Runs a case, if the store declares what the case needs.
    #[must_use]
    pub fn run(&self, group: &Group, case: &'static Case) -> Ending {
        self.run_with(Setup::new(format!("{}::{}", group.name, case.name)), case)
    }

    /// The same with this setup.
    #[must_use]
    pub fn run_with(&self, setup: Setup, case: &'static Case) -> Ending {
        let (opener, max_keys) = (self.opener.clone(), self.max_keys);
        let ran = within(self.deadline, async move {
            let scene = Scene::open(setup, opener, max_keys).await?;
            let can = scene.store().capabilities();
            let ending = match case.needs.iter().find_map(|need| need.unmet(can)) {
                Some(reason) => Ok(Ending::Skipped(reason.to_owned())),
                None => (case.run)(&scene).await.map(|()| Ending::Passed),
            };
            // Also after a failure, since the next case may need the same files. The case may have closed it already; a store that
            // hangs here reaches the deadline.
            let _ = scene.store().close().await;
            ending
        });
        ran.unwrap_or_else(Ending::Failed)
    }

    /// Runs every case and returns its result, by its name `group::case`.
    #[must_use]
    pub fn run_all(&self) -> Vec<(String, Ending)> {
        let rows = self.groups().iter().flat_map(|group| group.cases.iter().map(move |case| (group, case)));
        rows.map(|(group, case)| (format!("{}::{}", group.name, case.name), self.run(group, case))).collect()
    }
}

/// Runs a future on a runtime of its own.
///
/// The deadline is kept outside the runtime: a store that blocks every worker would stop its timers too.
///
/// # Errors
/// When the future fails, panics or does not end in time.
pub fn within<T, F>(deadline: Duration, future: F) -> Checked<T>
where
    T: Send + 'static,
    F: Future<Output = Checked<T>> + Send + 'static,
{
    let runtime = runtime()?;
    let (send, receive) = mpsc::sync_channel(1);
    let task = runtime.spawn(future);
    runtime.spawn(async move {
        // After the deadline the receiver is dropped.
        let _ = send.send(task.await);
    });
    let ended = receive.recv_timeout(deadline);
    runtime.shutdown_background();
    match ended {
        Ok(joined) => joined?,
        Err(_) => Err(Failure::new(format_args!("no end within {deadline:?}: something hangs"))),
    }
}

fn runtime() -> Checked<Runtime> {
    Ok(Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hang_is_a_failure_even_when_every_worker_is_blocked() {
        let (release, blocked) = mpsc::channel::<()>();
        let blocked = std::sync::Arc::new(std::sync::Mutex::new(blocked));
        let hang = async move {
            for _ in 0..WORKERS {
                let blocked = std::sync::Arc::clone(&blocked);
                tokio::spawn(async move { drop(blocked.lock().map(|b| b.recv())) });
            }
            std::future::pending::<Checked>().await
        };
        let failure = within(Duration::from_millis(50), hang).unwrap_err().to_string();
        assert!(failure.contains("something hangs"), "{failure}");
        drop(release);
    }

    #[test]
    fn a_panic_is_a_failure() {
        let failure = within::<(), _>(DEADLINE, async { std::panic::panic_any("boom") }).unwrap_err();
        assert!(failure.to_string().contains("panic"), "{failure}");
    }
}
