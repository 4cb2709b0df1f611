//! PostgreSQL, also through PgBouncer in transaction mode. Accesses that server, and creates one table there.
//!
//! A key is a row with its version and the [text form](crate::cas::record) of its record. Every call is a statement without a name, or one
//! transaction, so that it does not matter which server connection a pooler chooses. A step is atomic by compare-and-set on the version, or
//! (`atomic=lock`) by an advisory lock that is held from the read to the write. Both ways may be mixed on one key.
//!
//! | To find                              | open      |
//! |--------------------------------------|-----------|
//! | logging in, TLS                      | `connect` |
//! | connections for calls                | `pool`    |
//! | the table, its creation, expired rows| `table`   |
//! | reads and swaps, of several rows too | `calls`   |
//! | compare-and-set                      | `backend` |
//! | steps under an advisory lock         | `lock`    |
//! | a job on several keys                | `jobs`    |
//! | errors and their outcome             | `failure` |

mod backend;
mod calls;
pub(crate) mod connect;
pub(crate) mod failure;
mod jobs;
mod lock;
mod pool;
mod table;
mod tls;

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use keystead_core::{Clock, Result, Store};

use super::Scheme;
use super::url::Url;
use crate::bounds::{DEADLINE_PARTS, POSTGRES_CONNECTIONS_MAX};
use crate::cas::CasStore;
use crate::url::deadline_ms;
use backend::{PostgresBackend, RowStore};
use connect::Target;
use jobs::Jobs;
use lock::LockStore;
use pool::Pool;
use table::Table;

const FORM: &str = "postgres://USER:PASSWORD@HOST:5432/DATABASE?table=keystead&atomic=cas&sslmode=disable&connections=16&deadline=5s";

pub(super) const POSTGRES: Scheme =
    Scheme { name: "postgres", form: FORM, about: "PostgreSQL; shared, as durable as the server", open };

pub(super) const POSTGRESQL: Scheme = Scheme {
    name: "postgresql",
    form: "postgresql://USER:PASSWORD@HOST:5432/DATABASE?table=keystead&atomic=cas&sslmode=disable&connections=16&deadline=5s",
    about: "the same",
    open,
};

/// How a step is atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Atomic {
    Cas,
    Lock,
}

impl FromStr for Atomic {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Atomic, &'static str> {
        match text {
            "cas" => Ok(Atomic::Cas),
            "lock" => Ok(Atomic::Lock),
            _ => Err("it is cas or lock"),
        }
    }
}

fn open(url: &Url<'_>, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    let target = Target::of(url)?;
    let name = url.take::<String>("table")?.unwrap_or_else(|| "keystead".to_owned());
    let table = Table::named(&name).ok_or_else(|| url.bad("table is NAME or SCHEMA.NAME"))?;
    let atomic = url.take("atomic")?.unwrap_or(Atomic::Cas);
    let connections: usize = url.take("connections")?.unwrap_or(16);
    if !(1..=POSTGRES_CONNECTIONS_MAX).contains(&connections) {
        return Err(url.bad(&format!("connections is 1 to {POSTGRES_CONNECTIONS_MAX}")));
    }
    if atomic == Atomic::Lock && connections < 2 {
        return Err(url.bad("atomic=lock needs two connections: it checks first that one excludes the other"));
    }
    let deadline_ms = deadline_ms(url)?;
    url.finish()?;
    // A little less than a call may take, so that its error says why.
    let patience = match atomic {
        Atomic::Cas => Duration::from_millis(deadline_ms) / DEADLINE_PARTS as u32 * 9 / 10,
        Atomic::Lock => Duration::from_millis(deadline_ms / 4),
    };
    let pool = Arc::new(Pool::new(target, table, connections, deadline_ms, patience, atomic == Atomic::Lock));
    Ok(match atomic {
        Atomic::Cas => {
            let jobs = Jobs::new(&pool, &clock, deadline_ms);
            let cas = CasStore::new(PostgresBackend::new(&pool), clock, deadline_ms)?;
            Arc::new(RowStore { cas, jobs })
        }
        Atomic::Lock => Arc::new(LockStore::new(pool, clock, deadline_ms)?),
    })
}
