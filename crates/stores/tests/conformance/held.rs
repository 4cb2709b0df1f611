//! A store together with the server that it is on.

use keystead_core::{Capabilities, ErasedStep, Key, Store, StoreFuture, Together};

use crate::support::Opened;

#[deny(clippy::missing_trait_methods)]
impl Store for Opened {
    fn scheme(&self) -> &'static str {
        self.store.scheme()
    }

    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn apply_erased<'a>(&'a self, key: &'a Key, step: &'a mut dyn ErasedStep) -> StoreFuture<'a, ()> {
        self.store.apply_erased(key, step)
    }

    fn reset<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, bool> {
        self.store.reset(key)
    }

    fn together(&self) -> Option<&dyn Together> {
        self.store.together()
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        self.store.close()
    }
}
