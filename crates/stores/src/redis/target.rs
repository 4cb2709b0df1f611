//! What a Redis URL names: servers, a login, and how steps are run. Pure.

use std::str::FromStr;

use keystead_core::{Result, parse_duration_ms};

use crate::authority::decoded;
use crate::bounds::DEADLINE_MS;
use crate::net::{self, Address, Tls};
use crate::url::Url;

const PORT: u16 = 6379;

/// The user, the database, and whether the connection is encrypted.
pub(super) struct Login {
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
    pub(super) db: i64,
    pub(super) tls: Option<Tls>,
}

/// How a step is atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Atomic {
    /// By a script of the step, if it has one; else by the compare-and-set script.
    Script,
    /// By the compare-and-set script only.
    Cas,
    /// By WATCH, MULTI and EXEC, without any script.
    Watch,
}

impl FromStr for Atomic {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Atomic, &'static str> {
        match text {
            "script" => Ok(Atomic::Script),
            "cas" => Ok(Atomic::Cas),
            "watch" => Ok(Atomic::Watch),
            _ => Err("it is script, cas or watch"),
        }
    }
}

/// Whose time steps get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeSource {
    Client,
    Server,
}

impl FromStr for TimeSource {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<TimeSource, &'static str> {
        match text {
            "client" => Ok(TimeSource::Client),
            "server" => Ok(TimeSource::Server),
            _ => Err("it is client or server"),
        }
    }
}

/// The parameters of a Redis URL.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) atomic: Atomic,
    pub(super) time: TimeSource,
    pub(super) deadline_ms: u64,
}

impl Options {
    pub(super) fn of(url: &Url<'_>) -> Result<Options> {
        let deadline = url.take::<String>("deadline")?;
        let deadline_ms = deadline.map_or(Ok(DEADLINE_MS), |text| parse_duration_ms(&text))?;
        let options = Options {
            atomic: url.take("atomic")?.unwrap_or(Atomic::Script),
            time: url.take("clock")?.unwrap_or(TimeSource::Client),
            deadline_ms,
        };
        url.finish()?;
        Ok(options)
    }
}

/// The servers of `//user:password@host:port,host:port/db`, and the login.
pub(super) fn parse(url: &Url<'_>, encrypted: bool) -> Result<(Vec<Address>, Login)> {
    parse_on(url, encrypted, PORT)
}

/// The same with another default port.
pub(super) fn parse_on(url: &Url<'_>, encrypted: bool, port: u16) -> Result<(Vec<Address>, Login)> {
    let rest = url.path.strip_prefix("//").ok_or_else(|| url.bad("the address is missing"))?;
    let (authority, db) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (Some(user), hosts),
        None => (None, authority),
    };
    let (username, password) = match user.map(|user| user.split_once(':').unwrap_or((user, ""))) {
        Some((name, password)) => (decoded(url, name)?, decoded(url, password)?),
        None => (None, None),
    };
    let addresses = hosts.split(',').map(|host| Address::parse(host, port)).collect::<Option<Vec<_>>>();
    let addresses = addresses.ok_or_else(|| url.bad("the address is not host:port"))?;
    let db = match db {
        "" => 0,
        db => db.parse().map_err(|_| url.bad("the database is not a number"))?,
    };
    let tls = match encrypted {
        true => Some(net::system_tls().map_err(|error| url.bad(&error))?),
        false => None,
    };
    Ok((addresses, Login { username, password, db, tls }))
}
