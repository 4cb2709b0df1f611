//! The server while its database loads: what listeners need before there is an [`App`], and the log lines about the progress.
//! Touches nothing by itself.
//!
//! A database that loads quickly is opened before any connection is accepted. Otherwise the listeners accept connections, respond
//! to what needs no data, and hand the connections over to the shards when the database is open.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use keystead_commands::hub::{Hub, Loading, ShutDown};
use keystead_core::Stopwatch;
use keystead_engine::{Engine, LoadProgress, LoadStage, Portion, ShardLoad};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::app::App;
use crate::bounds::{LOAD_REPORT_INTERVAL, SILENCE};
use crate::resp::Server;
use crate::settings::Settings;

/// A server whose database is not open yet.
pub struct Starting {
    /// The values in force.
    pub(crate) settings: Settings,
    /// What Redis commands share.
    pub(crate) hub: Arc<Hub>,
    pub(crate) load: Load,
    clients_max: usize,
    engine: Arc<OnceLock<Engine>>,
    shut_down: Arc<watch::Sender<Option<ShutDown>>>,
    app: watch::Sender<Option<Arc<App>>>,
}

impl Starting {
    /// A server whose RESP listener is on `resp_port` and accepts at most `clients_max` clients.
    #[must_use]
    pub fn new(settings: Settings, load: Load, resp_port: u16, clients_max: usize) -> Starting {
        let (shut_down, engine) = (Arc::new(watch::Sender::new(None)), Arc::default());
        let host = Server::new(
            &settings,
            Arc::clone(&engine),
            load.clone(),
            resp_port,
            clients_max,
            Arc::clone(&shut_down),
        );
        let hub = Arc::new(Hub::new(Box::new(host)));
        hub.config.set_clients_max(clients_max);
        Starting { settings, hub, load, clients_max, engine, shut_down, app: watch::Sender::new(None) }
    }

    /// Most connections of each listener.
    #[must_use]
    pub fn clients_max(&self) -> usize {
        self.clients_max
    }

    /// The server with its database. Connections are held until [`announce`](Starting::announce).
    #[must_use]
    pub fn with_engine(&self, engine: Engine) -> App {
        let _ = self.engine.set(engine.clone());
        let (hub, shut_down) = (Arc::clone(&self.hub), Arc::clone(&self.shut_down));
        App::new(self.settings.clone(), engine, hub, shut_down, self.load.began)
    }

    /// Hands the connections over.
    pub fn announce(&self, app: Arc<App>) {
        self.app.send_replace(Some(app));
    }

    /// Waits for the server with its database.
    pub async fn opened(&self) -> Arc<App> {
        let mut app = self.app.subscribe();
        let opened = app.wait_for(Option::is_some).await.ok().and_then(|app| app.clone());
        match opened {
            Some(app) => app,
            // The sender is not dropped before `self`, so the wait cannot fail.
            None => std::future::pending().await,
        }
    }

    /// Waits until a client ends the server with SHUTDOWN.
    pub async fn shut_down(&self) {
        let _ = self.shut_down.subscribe().wait_for(Option::is_some).await;
    }
}

/// The loading of a database.
#[derive(Clone)]
pub struct Load {
    progress: LoadProgress,
    began: Stopwatch,
}

impl Load {
    /// It begins now, and reports here.
    #[must_use]
    pub fn begin(progress: LoadProgress) -> Load {
        Load { progress, began: Stopwatch::start() }
    }

    /// Number of shards, once it is known.
    #[must_use]
    pub fn shards(&self) -> Option<usize> {
        Some(self.progress.shards().len()).filter(|shards| *shards > 0)
    }

    /// How long it has taken.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// How far it is: the earliest stage of all shards, and sums over them.
    #[must_use]
    pub fn now(&self) -> Loading {
        let sums = Sums::of(&self.progress.shards());
        let of = |portion: Portion| [portion.done, portion.total];
        Loading {
            stage: stage_name(sums.stage),
            percent: sums.current().percent(),
            elapsed_ms: self.began.elapsed().as_millis() as u64,
            keys: of(sums.keys),
            journal_bytes: of(sums.journal_bytes),
        }
    }

    /// Logs how far it is, now and then, if it takes long.
    pub async fn report(&self) -> Infallible {
        sleep(SILENCE).await;
        tracing::warn!(
            "loading the database: until it is done, Redis clients get LOADING and HTTP requests get 503"
        );
        let (mut last, mut watch) = (Sums::of(&self.progress.shards()), Stopwatch::start());
        tracing::warn!("{}", last.line(None));
        loop {
            sleep(LOAD_REPORT_INTERVAL).await;
            let sums = Sums::of(&self.progress.shards());
            tracing::warn!("{}", sums.line(Some((last, watch.elapsed()))));
            (last, watch) = (sums, Stopwatch::start());
        }
    }

    /// Logs how long it took, if that was long.
    pub fn report_end(&self) {
        if self.elapsed() >= SILENCE {
            let shards = self.progress.shards();
            tracing::warn!("{}", end_line(&shards, self.elapsed()));
        }
    }
}

fn stage_name(stage: LoadStage) -> &'static str {
    match stage {
        LoadStage::Archive => "archive",
        LoadStage::Journal | LoadStage::Done => "journal",
    }
}

/// The progress of all shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sums {
    stage: LoadStage,
    keys: Portion,
    journal_bytes: Portion,
}

impl Sums {
    fn of(shards: &[ShardLoad]) -> Sums {
        let sum = |of: fn(&ShardLoad) -> Portion| {
            shards.iter().map(of).fold(Portion::default(), std::ops::Add::add)
        };
        Sums {
            stage: shards.iter().map(|shard| shard.stage).min().unwrap_or_default(),
            keys: sum(|shard| shard.keys),
            journal_bytes: sum(|shard| shard.journal_bytes),
        }
    }

    /// What the current stage has done.
    fn current(&self) -> Portion {
        match self.stage {
            LoadStage::Archive => Portion { total: self.keys.total.max(1), ..self.keys },
            LoadStage::Journal | LoadStage::Done => self.journal_bytes,
        }
    }

    /// A line of the log, with the pace since an earlier one.
    fn line(&self, earlier: Option<(Sums, Duration)>) -> String {
        match self.stage {
            LoadStage::Archive => format!(
                "loading the archive: {:.0}% ({} of {} keys)",
                self.current().percent(),
                grouped(self.keys.done),
                grouped(self.keys.total),
            ),
            LoadStage::Journal | LoadStage::Done => {
                let Portion { done, total } = self.journal_bytes;
                let pace = earlier.filter(|(earlier, took)| earlier.stage == self.stage && !took.is_zero());
                let pace = pace.map_or(String::new(), |(earlier, took)| {
                    let bytes = done.saturating_sub(earlier.journal_bytes.done) as f64;
                    format!(", {:.0} MB/s", bytes / 1e6 / took.as_secs_f64())
                });
                format!("replaying the journal: {} of {} GB{pace}", gigabytes(done), gigabytes(total))
            }
        }
    }
}

/// The last line about a load that took this long.
fn end_line(shards: &[ShardLoad], took: Duration) -> String {
    let sums = Sums::of(shards);
    let (keys, seconds) = (grouped(sums.keys.total), took.as_secs_f64());
    let mut line = format!("loaded {keys} keys of the archive");
    if sums.journal_bytes.total > 0 {
        // Shards replay at the same time, so the slowest counts.
        let replayed_ms = shards.iter().map(|shard| shard.journal_ms).max().unwrap_or(0);
        let per_gb = replayed_ms as f64 / 1000.0 / (sums.journal_bytes.total as f64 / 1e9);
        line += &format!(" and {} GB of journal ({per_gb:.1} s per GB)", gigabytes(sums.journal_bytes.total));
    }
    line + &format!(" in {seconds:.1} s")
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / 1e9)
}

/// A number with a comma between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(stage: LoadStage, keys: [u64; 2], bytes: [u64; 2]) -> ShardLoad {
        let of = |[done, total]: [u64; 2]| Portion { done, total };
        ShardLoad { stage, keys: of(keys), journal_bytes: of(bytes), archive_ms: 0, journal_ms: 0 }
    }

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (12_345_678, "12,345,678")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn the_slowest_shard_is_the_stage_and_all_are_counted() {
        let archive = shard(LoadStage::Archive, [1_000, 5_000], [0, 0]);
        let ahead = shard(LoadStage::Journal, [5_000, 5_000], [7, 100]);
        let line = Sums::of(&[archive, ahead]).line(None);
        assert_eq!(line, "loading the archive: 60% (6,000 of 10,000 keys)");
        // Before the keys are counted, nothing is done.
        assert_eq!(Sums::of(&[]).current().percent(), 0.0);
    }

    #[test]
    fn the_journal_has_a_pace_and_an_end() {
        let at = |done| Sums::of(&[shard(LoadStage::Journal, [0, 0], [done, 4_000_000_000])]);
        let earlier = Some((at(200_000_000), Duration::from_secs(2)));
        assert_eq!(at(1_200_000_000).line(None), "replaying the journal: 1.20 of 4.00 GB");
        assert_eq!(at(1_200_000_000).line(earlier), "replaying the journal: 1.20 of 4.00 GB, 500 MB/s");
        let mut done = shard(LoadStage::Done, [9, 9], [4_000_000_000; 2]);
        done.journal_ms = 10_000;
        let line = end_line(&[done], Duration::from_millis(10_100));
        assert_eq!(line, "loaded 9 keys of the archive and 4.00 GB of journal (2.5 s per GB) in 10.1 s");
    }
}
