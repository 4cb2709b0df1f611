//! What tests of several modules share: a database in memory, random histories, and the properties that span modules.

mod history;
mod scans;
mod sqlite;
mod truth;

use std::sync::Mutex;

use keystead_core::{Answer, Capabilities, ErasedStep, Key, Millis, Result, Step, Store, StoreExt, Together};

use crate::keyspace::Keyspace;
pub(crate) use sqlite::{SharedShelf, Sqlite};

/// Runs a typed step on a keyspace, as a store would.
pub(crate) fn apply<S: Step>(ks: &mut Keyspace, key: &[u8], step: &S, now: Millis) -> Result<S::Reply> {
    OneKeyspace { ks: Mutex::new(ks), now }.apply_sync(&Key::new(key)?, step)
}

struct OneKeyspace<'a> {
    ks: Mutex<&'a mut Keyspace>,
    now: Millis,
}

impl Store for OneKeyspace<'_> {
    fn scheme(&self) -> &'static str {
        "keyspace"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { atomic: true, durable: false, shared: false, sync: true, injected_clock: true }
    }

    fn apply_erased<'a>(&'a self, key: &'a Key, step: &'a mut dyn ErasedStep) -> Answer<'a, ()> {
        Answer::Ready(self.ks.lock().unwrap().apply_step(key.as_bytes(), step, self.now))
    }

    fn reset<'a>(&'a self, key: &'a Key) -> Answer<'a, bool> {
        Answer::Ready(self.ks.lock().unwrap().delete(key.as_bytes(), self.now))
    }

    fn together(&self) -> Option<&dyn Together> {
        None
    }

    fn close(&self) -> Answer<'_, ()> {
        Answer::Ready(Ok(()))
    }
}
