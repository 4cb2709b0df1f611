//! Named rate limits: what `[limit.NAME]` tables of the settings file say, and what runs of it.
//!
//! | To find                                   | open         |
//! |-------------------------------------------|--------------|
//! | how a policy is written                   | [`mod@file`] |
//! | one policy in force, and its counts       | [`named`]    |
//! | keys that are denied most                 | [`denied`]   |
//! | metrics                                   | [`counts`]   |
//! | a changed file takes effect               | [`reload`]   |
//!
//! Touches the stores that policies name. Invariant: there is always a whole set in force; a new one takes its place at once or
//! not at all.

pub mod counts;
pub mod denied;
pub mod file;
pub mod named;
pub mod reload;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use keystead_core::{Code, Error, MemoryStore, Result, Store};
use keystead_engine::Engine;

use counts::PolicyMetrics;
use file::Definition;
use named::{Named, Place};

/// The word for the server's own database as a store.
pub const ENGINE: &str = "engine";
/// The word for the server's own memory as a store.
pub const MEMORY: &str = "memory";

/// Every policy in force.
#[derive(Default)]
pub struct Set {
    /// By name.
    pub by_name: BTreeMap<String, Arc<Named>>,
    /// Why the file as it is now did not take effect.
    pub problem: Option<String>,
}

/// The policies of a server.
pub struct Policies {
    set: RwLock<Arc<Set>>,
    engine: Engine,
    memory: Arc<dyn Store>,
    /// The stores of URLs. They are opened once, and closed when no policy names them.
    others: Mutex<HashMap<String, Arc<dyn Store>>>,
    metrics: PolicyMetrics,
}

impl Policies {
    /// None yet.
    #[must_use]
    pub fn new(engine: Engine, metrics: PolicyMetrics) -> Policies {
        Policies {
            set: RwLock::default(),
            engine,
            memory: Arc::new(MemoryStore::new()),
            others: Mutex::default(),
            metrics,
        }
    }

    /// Those in force at this moment.
    #[must_use]
    pub fn set(&self) -> Arc<Set> {
        // Nobody panics while it is replaced.
        Arc::clone(&self.set.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The policy of this name, if it is in force.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Arc<Named>> {
        self.set.read().unwrap_or_else(PoisonError::into_inner).by_name.get(name).cloned()
    }

    /// Puts these policies into force, in place of those that are. One that is the same goes on with its counts. It may block
    /// while a store is opened.
    ///
    /// # Errors
    /// When a store cannot be opened: then nothing has changed.
    pub fn replace(&self, definitions: &[Definition]) -> Result<()> {
        let before = self.set();
        let mut by_name = BTreeMap::new();
        for definition in definitions {
            let name = &definition.name;
            let named = match before.by_name.get(name).filter(|named| named.definition == *definition) {
                Some(same) => Arc::clone(same),
                None => {
                    let (place, store) = self.store(definition.store.as_str()).map_err(|error| {
                        Error::new(error.code(), format!("limit.{name}: store: {}", error.message()))
                    })?;
                    Arc::new(Named::new(definition.clone(), place, store, self.metrics.of(name)))
                }
            };
            by_name.insert(name.clone(), named);
        }
        for gone in before.by_name.keys().filter(|name| !by_name.contains_key(*name)) {
            self.metrics.forget(gone);
        }
        self.put(Set { by_name, problem: None });
        Ok(())
    }

    /// Notes why the file did not take effect. The policies stay.
    pub fn refuse(&self, problem: String) {
        let by_name = self.set().by_name.clone();
        self.put(Set { by_name, problem: Some(problem) });
    }

    /// Stores that no policy names any longer, to be closed.
    #[must_use]
    pub fn unused(&self) -> Vec<Arc<dyn Store>> {
        let set = self.set();
        let is_used =
            |url: &String| set.by_name.values().any(|named| named.definition.store.as_str() == *url);
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        others.extract_if(|url, _| !is_used(url)).map(|(_, store)| store).collect()
    }

    fn put(&self, set: Set) {
        *self.set.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(set);
    }

    fn store(&self, word: &str) -> Result<(Place, Arc<dyn Store>)> {
        match word {
            ENGINE => return Ok((Place::Engine, Arc::new(self.engine.clone()))),
            MEMORY => return Ok((Place::Sync, Arc::clone(&self.memory))),
            _ if !word.contains(':') => {
                let message =
                    format!("'{word}' is no store: write engine, memory, or a URL such as sqlite:DIR");
                return Err(Error::new(Code::ConfigInvalid, message));
            }
            _ => {}
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let store = match others.get(word) {
            Some(store) => Arc::clone(store),
            None => {
                let store = keystead_stores::open(word)?;
                others.insert(word.to_owned(), Arc::clone(&store));
                store
            }
        };
        let place = if store.capabilities().sync { Place::Sync } else { Place::Elsewhere };
        Ok((place, store))
    }

    /// The stores of all URLs, to be closed with the server.
    #[must_use]
    pub fn others(&self) -> Vec<Arc<dyn Store>> {
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        others.drain().map(|(_, store)| store).collect()
    }
}

#[cfg(test)]
mod tests {
    use keystead_engine::Options;

    use super::*;

    fn policies() -> Policies {
        Policies::new(Engine::open(&Options::in_memory()).unwrap(), PolicyMetrics::new())
    }

    fn definitions(text: &str) -> Vec<Definition> {
        file::parse(text, "k.toml").unwrap()
    }

    const ONE: &str = "[limit.a]\nlimit = 2\nperiodMs = \"60s\"\nfail = \"closed\"\nstore = \"memory\"\n";

    #[tokio::test]
    async fn a_policy_that_is_the_same_goes_on_and_another_begins() {
        let policies = policies();
        policies.replace(&definitions(ONE)).unwrap();
        let first = policies.find("a").unwrap();
        policies.replace(&definitions(ONE)).unwrap();
        assert!(Arc::ptr_eq(&first, &policies.find("a").unwrap()));
        policies.replace(&definitions(&ONE.replace("limit = 2", "limit = 3"))).unwrap();
        assert!(!Arc::ptr_eq(&first, &policies.find("a").unwrap()));
        policies.replace(&[]).unwrap();
        assert!(policies.find("a").is_none());
    }

    #[tokio::test]
    async fn a_store_that_cannot_be_opened_leaves_everything_as_it_was() {
        let policies = policies();
        policies.replace(&definitions(ONE)).unwrap();
        for (store, why) in
            [("redsi", "'redsi' is no store"), ("mysql://u:pw@h", "there is no store 'mysql'")]
        {
            let error = policies
                .replace(&definitions(&ONE.replace("\"memory\"", &format!("\"{store}\""))))
                .unwrap_err();
            assert!(error.message().starts_with("limit.a: store: "), "{error}");
            assert!(error.message().contains(why) && !error.message().contains("pw"), "{error}");
        }
        assert!(policies.find("a").is_some());
        policies.refuse("k.toml:3: odd".to_owned());
        assert_eq!(policies.set().problem.as_deref(), Some("k.toml:3: odd"));
        assert!(policies.find("a").is_some(), "what was in force is");
    }

    #[tokio::test]
    async fn a_store_of_a_url_is_shared_and_let_go_of() {
        let policies = policies();
        let dir = tempfile::tempdir().unwrap();
        let url = format!("\"sqlite:{}\"", dir.path().display());
        let both = ONE.to_owned() + &ONE.replace("limit.a", "limit.b");
        policies.replace(&definitions(&both.replace("\"memory\"", &url))).unwrap();
        assert!(policies.unused().is_empty());
        policies.replace(&definitions(ONE)).unwrap();
        let unused = policies.unused();
        assert_eq!(unused.len(), 1);
        unused[0].close().await.unwrap();
    }
}
