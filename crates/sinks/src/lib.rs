//! Targets of write-behind by URL: other people's databases, which Keystead keeps up to date in batches.
//!
//! A new target is one file with a `SCHEME` and an implementation of [`Sink`], one row in [`SCHEMES`], one in `FEATURES`, and one cargo
//! feature. A target with tables builds its statements with [`keystead_rows`] and checks its columns with it; one without ignores both and
//! takes keys and JSON from the [`Row`]s.
//!
//! | To find                                             | open        |
//! |-----------------------------------------------------|-------------|
//! | rows, layouts, statements, positions                | [`keystead_rows`] |
//! | a batch as a transaction of an SQL server           | `session`   |
//! | the name of a change, for targets without tables    | `event`     |
//! | event logs: appending, reading, compacting           | [`mod@log`] |
//! | PostgreSQL; SQLite; MySQL and MariaDB               | `postgres`; `sqlite`; `mysql` |
//! | HTTP; NATS JetStream                                | `webhook`; `nats` |
//!
//! Touches what the URL names. Invariant: a batch and the position that it reaches become visible together or not at all.

pub mod bounds;
#[cfg(any(feature = "webhook", feature = "nats"))]
mod event;
pub mod log;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod session;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "webhook")]
mod webhook;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use keystead_core::{Code, Error, Result, parse_duration_ms};
use keystead_rows::{param, positions, statement, table};
use keystead_stores::connect::Url;

use bounds::{DEADLINE, DEADLINE_RANGE};

pub use keystead_rows::{batch, layout};

pub use batch::{Batch, Change, Position, Rejection, Row, Shown, Written};
pub use layout::{Deletes, Layout, Values};
pub use log::LogTarget;

/// What a call of a sink returns.
pub type SinkFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// What a target can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// It keeps the position beside the rows, in one transaction. Otherwise the caller keeps it, and rows may arrive twice.
    pub keeps_position: bool,
    /// It can list and compare rows.
    pub readable: bool,
}

/// A target. One caller at a time writes to it.
pub trait Sink: Send + Sync {
    /// The scheme of its URL.
    fn scheme(&self) -> &'static str;

    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// Connects, creates the table of positions, and checks that the layout fits the target.
    ///
    /// # Errors
    /// `config_invalid` with what to do when the layout does not fit; `store_unavailable`.
    fn probe(&self) -> SinkFuture<'_, ()>;

    /// The position that the target has reached; nothing before the first batch, and nothing if it keeps none.
    ///
    /// # Errors
    /// `store_unavailable`.
    fn position(&self) -> SinkFuture<'_, Option<Position>>;

    /// Writes rows and position in one transaction. A row that the target rejects keeps the whole batch out: the caller leaves it out of
    /// the next attempt.
    ///
    /// # Errors
    /// `store_unavailable`; of unknown outcome when the batch may have been written. [`position`](Sink::position) then says so.
    fn write<'a>(&'a self, batch: &'a Batch) -> SinkFuture<'a, Written>;

    /// Keys of rows (none if it is not readable) in ascending order after this one, at most so many; with `before`, only of rows that were last written by a batch before
    /// that one.
    ///
    /// # Errors
    /// `store_unavailable`.
    fn keys<'a>(
        &'a self,
        after: Option<&'a str>,
        before: Option<u64>,
        most: usize,
    ) -> SinkFuture<'a, Vec<String>>;

    /// The keys of these rows whose row in the target differs, or is missing, or is there though it is deleted.
    ///
    /// # Errors
    /// `unsupported` when it is not readable; `store_unavailable`.
    fn differing<'a>(&'a self, rows: &'a [Row]) -> SinkFuture<'a, Vec<String>>;

    /// The rows of these keys, for people: those that the target has. Of an event log, use [`log::look`].
    ///
    /// # Errors
    /// `unsupported` when it is not readable; `store_unavailable`.
    fn look<'a>(&'a self, keys: &'a [String]) -> SinkFuture<'a, Vec<Shown>>;

    /// Ends its connections.
    fn close(&self) -> SinkFuture<'_, ()>;

    /// Its event log, if the layout has one and this kind of target can keep one.
    fn log(&self) -> Option<&dyn LogTarget> {
        None
    }
}

/// A kind of target, and the form of its URL.
pub struct Scheme {
    /// The scheme of the URL.
    pub name: &'static str,
    /// The form of the URL.
    pub form: &'static str,
    /// Its purpose, in one line.
    pub about: &'static str,
    open: Open,
}

type Open = fn(&Url<'_>, Layout) -> Result<Arc<dyn Sink>>;

/// Every kind of target in this build.
pub static SCHEMES: &[Scheme] = &[
    #[cfg(feature = "postgres")]
    postgres::POSTGRES,
    #[cfg(feature = "postgres")]
    postgres::POSTGRESQL,
    #[cfg(feature = "sqlite")]
    sqlite::SCHEME,
    #[cfg(feature = "mysql")]
    mysql::MYSQL,
    #[cfg(feature = "mysql")]
    mysql::MARIADB,
    #[cfg(feature = "nats")]
    nats::SCHEME,
    #[cfg(feature = "webhook")]
    webhook::HTTPS,
    #[cfg(feature = "webhook")]
    webhook::HTTP,
];

/// The schemes, and the cargo feature that each needs.
const FEATURES: &[(&str, &str)] = &[
    ("postgres", "postgres"),
    ("postgresql", "postgres"),
    ("sqlite", "sqlite"),
    ("mysql", "mysql"),
    ("mariadb", "mysql"),
    ("nats", "nats"),
    ("https", "webhook"),
    ("http", "webhook"),
];

/// Opens the target that a URL names. It connects when it is first used: [`Sink::probe`] finds out whether that works.
///
/// # Errors
/// `config_invalid` for a URL or layout that is not valid. It contains no password.
pub fn open(url: &str, layout: Layout) -> Result<Arc<dyn Sink>> {
    let name = url.split_once(':').map(|(name, _)| name);
    let Some(scheme) = SCHEMES.iter().find(|scheme| Some(scheme.name) == name) else {
        if let Some((scheme, feature)) = FEATURES.iter().find(|(scheme, _)| Some(*scheme) == name) {
            let message = format!("this build has no target '{scheme}': build it with --features {feature}");
            return Err(Error::new(Code::ConfigInvalid, message));
        }
        let forms: Vec<&str> = SCHEMES.iter().map(|scheme| scheme.form).collect();
        // A URL can contain a password: only its scheme is repeated.
        let name = name.unwrap_or("without a scheme");
        let message = format!("there is no target '{name}': the targets are {}", forms.join(", "));
        return Err(Error::new(Code::ConfigInvalid, message));
    };
    let keeps_events = layout.values == Values::Events;
    let sink = (scheme.open)(&Url::of(&url[scheme.name.len() + 1..], scheme.form)?, layout)?;
    if keeps_events && sink.log().is_none() {
        let message = format!(
            "a target '{}' keeps no event log: use postgres, sqlite or mysql, or another mode",
            scheme.name
        );
        return Err(Error::new(Code::ConfigInvalid, message));
    }
    Ok(sink)
}

/// The deadline of a call (`deadline=`).
#[cfg_attr(
    not(any(feature = "postgres", feature = "mysql", feature = "nats", feature = "webhook")),
    allow(dead_code, reason = "a file has none")
)]
fn deadline(url: &Url<'_>) -> Result<Duration> {
    let deadline = match url.take::<String>("deadline")? {
        Some(text) => Duration::from_millis(parse_duration_ms(&text)?),
        None => DEADLINE,
    };
    if !DEADLINE_RANGE.contains(&deadline) {
        let (from, to) = (DEADLINE_RANGE.start(), DEADLINE_RANGE.end());
        return Err(url.bad(&format!("deadline is {from:?} to {to:?}")));
    }
    Ok(deadline)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheme_names_its_feature() {
        for Scheme { name, .. } in SCHEMES {
            assert!(FEATURES.iter().any(|(scheme, _)| scheme == name), "{name} in FEATURES");
        }
    }

    #[test]
    fn a_target_without_tables_keeps_no_event_log() {
        for url in ["nats://127.0.0.1/STREAM", "https://whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5@host/"]
        {
            let error = open(url, Layout::events("s", "", "t")).err().unwrap();
            assert_eq!(error.code(), Code::ConfigInvalid);
            assert!(error.message().contains("keeps no event log: use postgres, sqlite or mysql"), "{error}");
        }
    }

    #[test]
    fn an_unknown_scheme_lists_the_targets_and_reveals_no_password() {
        for url in ["oracle://root:secret@host", "secret"] {
            let error = open(url, Layout::whole("s", "", "t")).err().unwrap();
            assert_eq!(error.code(), Code::ConfigInvalid);
            assert!(error.message().contains("the targets are postgres://"), "{error}");
            assert!(!error.message().contains("secret"), "{error}");
        }
    }
}
