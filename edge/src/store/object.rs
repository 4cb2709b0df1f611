//! Records in the SQLite of a Durable Object of their own. Touches its storage, and the clock of the platform.
//!
//! Invariant: nothing is awaited between the first and the last item of a request, so that requests run one after the other.

use std::cell::{Cell, RefCell};

use keystead_commands::ctx::Rights;
use keystead_core::{Millis, Result};
use keystead_http_api::error::ApiError;
use keystead_model::sql::{Cell as SqlCell, Param, Sql};
use wasm_bindgen::{JsCast, JsValue};
use worker::{DurableObject, Env, Request, Response, State, durable_object};

use super::items::{self, Call, Outcome, Swap};
use super::{Backend, Rows, named, too_large};
use crate::bounds::{RECLAIM_INTERVAL_MS, STORE_SWEEP_ROWS_MAX};
use crate::database::now;
use crate::exchange::{Reply, body_of, head_of};
use crate::gate;
use crate::kv::ApiResult;
use crate::object::Arrived;
use crate::settings;
use crate::sql::{Figures, ObjectSql};
use crate::storage::ObjectStorage;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS records (key TEXT PRIMARY KEY, version INTEGER NOT NULL, record TEXT NOT NULL, \
                     reclaim_at INTEGER) WITHOUT ROWID";
const INDEX: &str =
    "CREATE INDEX IF NOT EXISTS records_to_reclaim ON records (reclaim_at) WHERE reclaim_at IS NOT NULL";
const READ: &str = "SELECT version, record FROM records WHERE key = ?1";
const WRITE: &str = "INSERT INTO records (key, version, record, reclaim_at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (key) DO \
                     UPDATE SET version = excluded.version, record = excluded.record, reclaim_at = excluded.reclaim_at";
const SWEEP: &str =
    "DELETE FROM records WHERE key IN (SELECT key FROM records WHERE reclaim_at <= ?1 LIMIT ?2)";
const NEXT: &str = "SELECT min(reclaim_at) FROM records WHERE reclaim_at IS NOT NULL";

/// An object with records.
#[durable_object]
pub struct Records {
    state: State,
    env: Env,
    open: RefCell<Option<Open>>,
    /// When the next alarm is due. Nothing if that is not known yet.
    alarm: Cell<Option<Millis>>,
}

struct Open {
    storage: ObjectStorage,
    sql: ObjectSql,
    figures: Figures,
}

impl DurableObject for Records {
    fn new(state: State, env: Env) -> Self {
        Records { state, env, open: RefCell::default(), alarm: Cell::default() }
    }

    async fn fetch(&self, mut request: Request) -> worker::Result<Response> {
        let head = head_of(&request)?;
        // The Worker has checked this; an object can be reached by others.
        if let Some(reply) = gate::before(&self.env, &head) {
            return reply.into_response(&head);
        }
        let Some(body) = body_of(&mut request, &head).await? else {
            return too_large().into_response(&head);
        };
        if self.alarm.get().is_none() {
            let due = self.state.storage().get_alarm().await?;
            // Meanwhile another request may have set one.
            if self.alarm.get().is_none() {
                self.alarm.set(Some(due.map_or(Millis::NEVER, |due| Millis(due.max(0) as u64))));
            }
        }
        let rights =
            settings::rights_of(&self.env, &head.headers, head.uri.query()).unwrap_or(Rights::ReadOnly);
        let replied = self.respond(&Arrived { head: &head, body: &body, rights });
        replied.unwrap_or_else(|error| Reply::api_error(&error)).into_response(&head)
    }

    async fn alarm(&self) -> worker::Result<Response> {
        match self.sweep() {
            Ok(()) => Response::empty(),
            // The platform calls again.
            Err(error) => Err(worker::Error::RustError(error.to_string())),
        }
    }
}

impl Records {
    fn respond(&self, request: &Arrived<'_>) -> ApiResult {
        if request.rights == Rights::ReadOnly {
            return Err(ApiError::ReadOnly);
        }
        if !matches!(named(request.head.uri.path()), Some((Backend::Object, _))) {
            return Err(ApiError::NotFound("this object has records only".to_owned()));
        }
        let calls = items::calls(request.body, Backend::Object)?;
        let mut open = self.open()?;
        let Some(open) = &mut *open else { return Err(crate::sql::failed("it is not open").into()) };
        let several = calls.len() > 1;
        let outcomes: Vec<Outcome> = calls
            .iter()
            .map(|call| self.run(open, call).unwrap_or_else(Outcome::Failed).among(several))
            .collect();
        let mut reply = items::reply(&outcomes);
        Rows(open.figures.take()).mark(&mut reply);
        Ok(reply)
    }

    fn run(&self, open: &mut Open, call: &Call<'_>) -> Result<Outcome> {
        let (mut version, mut record) = (None, None);
        open.sql.query(READ, &[Param::Text(call.key())], &mut |cells| {
            if let [found, SqlCell::Text(text)] = cells {
                (version, record) = (whole(found), Some((*text).to_owned()));
            }
            Ok(())
        })?;
        let Call::Swap(swap) = call else { return Ok(Outcome::Record(record)) };
        if version != swap.expected {
            return Ok(Outcome::of_lost(swap, record));
        }
        let reclaim_at = reclaim_at(swap);
        open.sql.run(
            WRITE,
            &[
                Param::Text(&swap.key),
                Param::Int(swap.version as i64),
                Param::Text(&swap.record),
                reclaim_at.map_or(Param::Null, |at| Param::Int(at.0 as i64)),
            ],
        )?;
        if let Some(at) = reclaim_at {
            self.wake_at(open, at);
        }
        Ok(Outcome::Swapped(swap.version))
    }

    /// Opens the storage. One that cannot be opened is tried again at the next request.
    fn open(&self) -> Result<std::cell::RefMut<'_, Option<Open>>> {
        let mut open = self.open.borrow_mut();
        if open.is_none() {
            let storage = self.state.storage();
            let raw: &JsValue = storage.as_raw().as_ref();
            let storage: ObjectStorage = raw.clone().unchecked_into();
            let mut sql = ObjectSql::new(storage.sql());
            sql.run(TABLE, &[])?;
            sql.run(INDEX, &[])?;
            let figures = sql.figures();
            *open = Some(Open { storage, sql, figures });
        }
        Ok(open)
    }

    /// Sets the alarm, unless one is set that is due earlier.
    fn wake_at(&self, open: &Open, due: Millis) {
        self.wake_exactly(open, due.max(now().plus_ms(RECLAIM_INTERVAL_MS)));
    }

    fn wake_exactly(&self, open: &Open, at: Millis) {
        if self.alarm.get().is_none_or(|alarm| at < alarm) {
            self.alarm.set(Some(at));
            // The output gate waits for it, as for every write.
            let _ = open.storage.set_alarm(at.0 as f64);
        }
    }

    /// Deletes what may be reclaimed, and sets the next alarm: at once while there is more.
    fn sweep(&self) -> Result<()> {
        self.alarm.set(Some(Millis::NEVER));
        let mut open = self.open()?;
        let Some(open) = &mut *open else { return Ok(()) };
        let (at, max) = (Param::Int(now().0 as i64), Param::Int(STORE_SWEEP_ROWS_MAX.into()));
        open.sql.run(SWEEP, &[at, max])?;
        let mut next = None;
        open.sql.query(NEXT, &[], &mut |cells| {
            next = cells.first().and_then(whole);
            Ok(())
        })?;
        match next {
            Some(next) if Millis(next) <= now() => self.wake_exactly(open, now()),
            Some(next) => self.wake_at(open, Millis(next)),
            None => {}
        }
        Ok(())
    }
}

/// When a record may be deleted.
pub(super) fn reclaim_at(swap: &Swap<'_>) -> Option<Millis> {
    // What is too far away for a number of JavaScript stays.
    swap.reclaim_ms.filter(|ms| *ms < 1 << 52).map(|ms| now().plus_ms(ms))
}

fn whole(cell: &SqlCell<'_>) -> Option<u64> {
    match cell {
        SqlCell::Real(number) => Some(*number as u64),
        SqlCell::Text(text) => text.parse().ok(),
        _ => None,
    }
}
