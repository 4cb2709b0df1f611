//! The database of an object: its keys, and what commands need beside them. Touches the object's storage.
//!
//! Invariant: whatever a request changes is one transaction of the rows. When it is undone, or the platform rejects it, the keyspace is as the
//! rows are.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use keystead_commands::ctx::{Dialect, Publication, Rights};
use keystead_commands::hub::{Facts, Host, Hub};
use keystead_commands::session::Session;
use keystead_commands::{Ctx, Random};
use keystead_core::{Code, Error, Millis, Result, ShardId};
use keystead_model::effect::{Effect, Fact};
use keystead_model::keyspace::Keyspace;
use keystead_model::sql::{Sql, migrate_on_demand};
use wasm_bindgen::{JsCast, JsValue};
use worker::{Date, State};

use crate::bounds::{CHANGE_BYTES_MAX, HELD_BYTES, MAILBOX_BYTES_MAX, RECLAIM_INTERVAL_MS, RECLAIM_SLICE};
use crate::buffer::pending::{self, Pending};
use crate::buffer::settings::Definition;
use crate::buffer::{self, Watch};
use crate::spread;
use crate::sql::{Figures, ObjectSql, failed, text_of};
use crate::storage::ObjectStorage;

/// The open database of an object.
pub(crate) struct Database {
    storage: ObjectStorage,
    /// For what stands beside the keys.
    sql: ObjectSql,
    watch: Watch,
    /// Nothing only while it is opened again.
    keys: Option<Keyspace>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) random: Random,
    pub(crate) session: Session,
    figures: Figures,
    alarm: Alarm,
    effects: Vec<Effect>,
    /// The last sync token.
    token: u64,
    /// Which of the objects of the database this is.
    pub(crate) object: ShardId,
}

/// When the alarm of the object is due. It outlives its database, which may be opened again; nothing while the platform was not asked, as after a
/// waking.
pub(crate) type Alarm = Rc<Cell<Option<Millis>>>;

/// Whether a transaction's changes stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completion {
    Commit,
    Undo,
}

impl Completion {
    pub(crate) fn commit_if(stays: bool) -> Completion {
        if stays { Completion::Commit } else { Completion::Undo }
    }
}

/// The keys of a transaction, and what commands need beside them.
pub(crate) struct Open<'a> {
    pub(crate) keys: &'a mut Keyspace,
    pub(crate) hub: &'a Hub,
    pub(crate) random: &'a mut Random,
    pub(crate) now: Millis,
    object: ShardId,
}

impl<'a> Open<'a> {
    /// The context of the next command.
    pub(crate) fn ctx(&mut self, rights: Rights) -> Ctx<'_> {
        let ctx = Ctx::new(self.keys, self.now, self.random, self.hub);
        Ctx { dialect: Dialect::Upstash, may_wait: false, rights, shard: self.object, ..ctx }
    }
}

/// The current time, which stands still while a request runs.
pub(crate) fn now() -> Millis {
    Millis(Date::now().as_millis())
}

/// What the object is, for commands that ask: one of so many objects of the database.
struct EdgeHost {
    objects: usize,
}

impl Host for EdgeHost {
    fn needs_token(&self) -> bool {
        true
    }

    fn is_token(&self, _: &[u8]) -> bool {
        false
    }

    /// The objects are its shards: a script may not touch keys of another.
    fn shards(&self) -> usize {
        self.objects
    }

    fn facts(&self) -> Facts {
        Facts {
            version: env!("CARGO_PKG_VERSION"),
            durability: "fsync",
            log_level: "notice",
            shards: 1,
            run_id: "0".repeat(40),
            ..Facts::default()
        }
    }
}

impl Database {
    /// Opens the database of an object, and creates it when there is none.
    pub(crate) fn open<'a>(
        state: &State,
        objects: usize,
        sinks: impl Iterator<Item = &'a Definition>,
        alarm: Alarm,
    ) -> Result<Database> {
        let sinks: Vec<Definition> = sinks.cloned().collect();
        let storage = state.storage();
        let raw: &JsValue = storage.as_raw().as_ref();
        let storage: ObjectStorage = raw.clone().unchecked_into();
        let mut sql = ObjectSql::new(storage.sql());
        let figures = sql.figures();
        let mut beside = sql.another(storage.sql());
        let (mut waiting, mut due) = (0, Millis::NEVER);
        in_transaction(&storage, &mut || {
            migrate_on_demand(&mut sql)?;
            spread::check(&mut sql, objects)?;
            pending::prepare(&mut sql, &sinks, now())?;
            if !sinks.is_empty() {
                waiting = pending::count(&mut sql)?;
                due = sinks_due(&mut sql, &sinks)?;
            }
            Ok(())
        })?;
        let newest = if sinks.is_empty() { 0 } else { pending::newest(&mut beside)? };
        let watch = Watch::of(sinks, waiting, newest);
        let keys = prepared(Keyspace::on_demand(Box::new(sql))?);
        let hub = Arc::new(Hub::new(Box::new(EdgeHost { objects })));
        let session = Session::new(hub.clients.unlisted(String::new(), now()), true);
        let seed = (js_sys::Math::random() * 9_007_199_254_740_992.0) as u64;
        let random = Random::new(seed);
        // Above those of earlier lives of the object.
        let token = now().0 << 10;
        let (keys, effects) = (Some(keys), Vec::new());
        let mut open = Database {
            storage,
            sql: beside,
            watch,
            keys,
            hub,
            random,
            session,
            figures,
            alarm,
            effects,
            token,
            object: ShardId(0),
        };
        open.wake_exactly(due);
        Ok(open)
    }

    /// Runs something on the keys as one transaction, which is undone if it says so.
    ///
    /// # Errors
    /// The error of the database: nothing was changed.
    pub(crate) fn transact<T>(&mut self, run: impl FnOnce(&mut Open<'_>) -> (T, Completion)) -> Result<T> {
        let Some(mut keys) = self.keys.take() else {
            return Err(Error::new(Code::Internal, "the database is being opened"));
        };
        let (mut run, mut result) = (Some(run), None);
        let (hub, random, at, object) = (&self.hub, &mut self.random, now(), self.object);
        let mut undone = false;
        let (before, sql, mut watch) = (keys.revision(), &mut self.sql, self.watch.figures);
        let committed = in_transaction(&self.storage, &mut || {
            let Some(run) = run.take() else { return Err(failed("a transaction ran twice")) };
            keys.savepoint();
            let (value, completion) =
                run(&mut Open { keys: &mut keys, hub, random: &mut *random, now: at, object });
            result = Some(value);
            if completion == Completion::Undo {
                undone = true;
                return Err(failed("undone"));
            }
            keys.write_rows()?;
            if keys.revision() > before { watch.count(sql) } else { Ok(()) }
        });
        let committed = match committed {
            Ok(()) => keys.release().map(|_| ()),
            Err(_) if undone => {
                keys.rollback();
                Ok(())
            }
            Err(error) => {
                keys.rollback();
                Err(error)
            }
        };
        if committed.is_err() {
            // What is in memory may not be what the rows have.
            self.keys = Some(prepared(keys.reopen()?));
        } else {
            self.keys = Some(keys);
            if !undone {
                self.watch.figures = watch;
            }
            self.finish();
        }
        committed?;
        result.ok_or_else(|| failed("a transaction did not run"))
    }

    /// After each transaction: takes its effects, sets the alarm, bounds what is held.
    fn finish(&mut self) {
        let Some(keys) = &mut self.keys else { return };
        let mut effects = std::mem::take(&mut self.effects);
        keys.take_effects(&mut effects);
        let due = effects.iter().filter_map(|effect| match &effect.fact {
            Fact::Expiry(at) | Fact::HashField { expires_at: at, .. } => Some(*at),
            _ => None,
        });
        let due = due.min().unwrap_or(Millis::NEVER);
        keys.shrink(HELD_BYTES);
        let longest = self.watch.longest_wait(&effects);
        self.effects = effects;
        self.wake_at(due);
        if let Some(ms) = longest {
            self.wake_exactly(now().plus_ms(ms));
        }
    }

    /// Sets the alarm for reclaiming what is due then.
    fn wake_at(&mut self, due: Millis) {
        if due == Millis::NEVER {
            return;
        }
        self.wake_exactly(due.max(now().plus_ms(RECLAIM_INTERVAL_MS)));
    }

    /// Sets the alarm, unless one is set that is due earlier.
    pub(crate) fn wake_exactly(&mut self, at: Millis) {
        // The platform takes no time that has long passed.
        let at = at.max(now());
        if at < self.alarm.get().unwrap_or(Millis::NEVER) {
            self.alarm.set(Some(at));
            // The output gate waits for it, as for every write.
            let _ = self.storage.set_alarm(at.0 as f64);
        }
    }

    /// Reclaims a slice of what is expired, and sets the next alarm: at once while there may be more.
    pub(crate) fn reclaim(&mut self) -> Result<()> {
        let (due, left) = self.transact(|open| {
            let mut left = RECLAIM_SLICE;
            let due = open.keys.reclaim(open.now, &mut left).and_then(|()| open.keys.next_due());
            let completion = Completion::commit_if(due.is_ok());
            (due.map(|due| (due, left)), completion)
        })??;
        match left {
            0 => self.wake_exactly(due),
            _ => self.wake_at(due),
        }
        Ok(())
    }

    /// Runs statements beside the keys as one transaction.
    pub(crate) fn rows<T>(&mut self, run: impl FnOnce(&mut dyn Sql) -> Result<T>) -> Result<T> {
        let (mut run, mut result, sql) = (Some(run), None, &mut self.sql);
        in_transaction(&self.storage, &mut || {
            let Some(run) = run.take() else { return Err(failed("a transaction ran twice")) };
            result = Some(run(sql)?);
            Ok(())
        })?;
        result.ok_or_else(|| failed("a transaction did not run"))
    }

    /// Executes statements of a compute service as one transaction, whose last value says whether rows were written. What is held
    /// is read again then, and sinks get what was noted.
    pub(crate) fn execute<T>(&mut self, run: impl FnOnce(&ObjectSql) -> Result<(T, bool)>) -> Result<T> {
        let sql = ObjectSql::beside(self.storage.sql(), self.figures.clone());
        let (mut run, mut result) = (Some(run), None);
        let (beside, mut figures) = (&mut self.sql, self.watch.figures);
        in_transaction(&self.storage, &mut || {
            let Some(run) = run.take() else { return Err(failed("a transaction ran twice")) };
            let (value, has_written) = run(&sql)?;
            result = Some((value, has_written));
            if has_written { figures.count(beside) } else { Ok(()) }
        })?;
        let (value, has_written) = result.ok_or_else(|| failed("a transaction did not run"))?;
        if let Some(keys) = self.keys.take_if(|_| has_written) {
            let mut keys = prepared(keys.reopen()?);
            let due = keys.next_due()?;
            self.keys = Some(keys);
            self.wake_at(due);
        }
        if figures.has_noted_since(&self.watch.figures) {
            self.watch.figures = figures;
            let due = sinks_due(&mut self.sql, self.watch.sinks())?;
            self.wake_exactly(due);
        }
        Ok(value)
    }

    /// Sends messages to subscribers.
    pub(crate) fn publish(&self, publications: &[Publication]) {
        publications.iter().for_each(|publication| self.hub.bus.publish(publication, MAILBOX_BYTES_MAX));
    }

    /// Whether an error has left it without keys: it must be opened again.
    pub(crate) fn is_lost(&self) -> bool {
        self.keys.is_none()
    }

    /// A number that is different in each response.
    pub(crate) fn next_token(&mut self) -> u64 {
        self.token += 1;
        self.token
    }

    /// Rows that were read and written since the last call.
    pub(crate) fn take_figures(&self) -> [u64; 2] {
        self.figures.take()
    }
}

/// When the first of these sinks writes again.
pub(crate) fn sinks_due<'a>(
    sql: &mut dyn Sql,
    sinks: impl IntoIterator<Item = &'a Definition>,
) -> Result<Millis> {
    let mut due = Millis::NEVER;
    for one in sinks {
        let mut pending = Pending { sql: &mut *sql, sink: &one.name };
        let (oldest, state) = (pending.oldest()?, pending.state()?);
        due = due.min(buffer::due(oldest, &state, one).unwrap_or(Millis::NEVER));
    }
    Ok(due)
}

fn prepared(mut keys: Keyspace) -> Keyspace {
    keys.set_change_bytes_max(CHANGE_BYTES_MAX);
    keys
}

/// Runs something in a transaction of the storage, which is rolled back when it fails.
fn in_transaction(storage: &ObjectStorage, run: &mut dyn FnMut() -> Result<()>) -> Result<()> {
    let mut failure = None;
    let done = storage.transaction_sync(&mut || match run() {
        Ok(()) => Ok(JsValue::UNDEFINED),
        Err(error) => {
            let thrown = js_sys::Error::new(error.message());
            failure = Some(error);
            Err(thrown.into())
        }
    });
    match (done, failure) {
        (_, Some(error)) => Err(error),
        // After a panic in the transaction nothing may run any more: what is in memory is half done.
        (Err(error), None) if error.has_type::<js_sys::WebAssembly::RuntimeError>() => {
            wasm_bindgen::throw_val(error)
        }
        (Err(error), None) => Err(failed(&text_of(&error))),
        (Ok(_), None) => Ok(()),
    }
}
