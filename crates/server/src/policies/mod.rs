//! Named rate limits: the `[limit.NAME]` tables of the settings file, and the active policies.
//!
//! | To find                                   | open         |
//! |-------------------------------------------|--------------|
//! | how a policy is written                   | [`mod@file`] |
//! | one active policy, and its counts         | [`active`]   |
//! | keys that are denied most                 | [`denied`]   |
//! | metrics                                   | [`counts`]   |
//! | reload of a changed file                  | [`reload`]   |
//!
//! Touches the stores that policies name. Invariant: there is always a complete set of active policies; a new set replaces it
//! completely or not at all.

pub mod active;
pub mod counts;
pub mod denied;
pub mod file;
pub mod reload;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use keystead_core::{Code, Error, MemoryOptions, MemoryStore, Result, Store};
use keystead_engine::Engine;

use active::{ActivePolicy, Backend};
use counts::PolicyMetrics;
use file::Definition;

use crate::bounds::MEMORY_KEYS_MAX;
use crate::stores;

/// The name of the server's own database as a store.
pub const ENGINE: &str = "engine";
/// The name of the server's own memory as a store.
pub const MEMORY: &str = "memory";

/// All active policies.
#[derive(Default)]
pub struct Set {
    /// By name.
    pub by_name: BTreeMap<String, Arc<ActivePolicy>>,
    /// Why the current file was rejected.
    pub problem: Option<String>,
}

/// A policy of a new set.
enum Found<'a> {
    /// It is active already.
    Same(Arc<ActivePolicy>),
    /// It is new or has changed; its store is open.
    New(&'a Definition, Backend, Arc<dyn Store>),
}

/// The policies of a server.
pub struct Policies {
    set: RwLock<Arc<Set>>,
    engine: Engine,
    memory: MemoryStore,
    /// The stores of URLs. They are opened once, and closed when no policy uses them.
    others: Mutex<HashMap<String, Arc<dyn Store>>>,
    metrics: PolicyMetrics,
}

impl Policies {
    /// No policies yet.
    #[must_use]
    pub fn new(engine: Engine, metrics: PolicyMetrics) -> Policies {
        // A flood of random keys must not use all memory. These options are always valid.
        let bounded = MemoryStore::open(MemoryOptions::default().max_keys(MEMORY_KEYS_MAX));
        Policies {
            set: RwLock::default(),
            engine,
            memory: bounded.unwrap_or_default(),
            others: Mutex::default(),
            metrics,
        }
    }

    /// The current set.
    #[must_use]
    pub fn set(&self) -> Arc<Set> {
        // Nothing panics while it is replaced.
        Arc::clone(&self.set.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The active policy of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Arc<ActivePolicy>> {
        self.set.read().unwrap_or_else(PoisonError::into_inner).by_name.get(name).cloned()
    }

    /// Replaces the active policies by these. An unchanged policy keeps its counts. It may block while a store is opened.
    ///
    /// # Errors
    /// `config_invalid` for an invalid store, or the error of a store that cannot be opened. The policies are unchanged then, but
    /// stores that were opened meanwhile are [`unused`](Policies::unused).
    pub fn replace(&self, definitions: &[Definition]) -> Result<()> {
        let before = self.set();
        let same = |one: &Definition| {
            before.by_name.get(&one.name).filter(|active| active.definition.is_same(one)).cloned()
        };
        let of_store = |definition: &Definition, error: Error| {
            let Definition { location, name, .. } = definition;
            Error::new(error.code(), format!("{location}: limit.{name}: store: {}", error.message()))
        };
        // All definitions are checked before a store is opened, and all stores opened before metrics are registered.
        for definition in definitions {
            self.check_store(definition, definitions).map_err(|error| of_store(definition, error))?;
        }
        let mut found = Vec::with_capacity(definitions.len());
        for definition in definitions {
            found.push(match same(definition) {
                Some(active) => Found::Same(active),
                None => {
                    let (backend, store) =
                        self.store(definition.store.as_str()).map_err(|error| of_store(definition, error))?;
                    Found::New(definition, backend, store)
                }
            });
        }
        let active = |found| match found {
            Found::Same(active) => active,
            Found::New(definition, backend, store) => {
                let counts = self.metrics.of(&definition.name);
                Arc::new(ActivePolicy::new(definition.clone(), backend, store, counts))
            }
        };
        let by_name: BTreeMap<String, Arc<ActivePolicy>> =
            found.into_iter().map(active).map(|active| (active.definition.name.clone(), active)).collect();
        for removed in before.by_name.keys().filter(|name| !by_name.contains_key(*name)) {
            self.metrics.forget(removed);
        }
        self.put(Set { by_name, problem: None });
        Ok(())
    }

    /// Checks a store as far as possible without opening it.
    fn check_store(&self, definition: &Definition, all: &[Definition]) -> Result<()> {
        let word = definition.store.as_str();
        if [ENGINE, MEMORY].contains(&word) {
            return Ok(());
        }
        let Some((scheme, _)) = word.split_once(':') else {
            let message =
                format!("'{word}' is not a store: write engine, memory, or a URL such as redis://HOST");
            return Err(Error::new(Code::ConfigInvalid, message));
        };
        if keystead_stores::SCHEMES.iter().all(|known| known.name != scheme) {
            // Its error lists the schemes.
            return keystead_stores::open(word).map(drop);
        }
        let Some(directory) = directory_of(word) else { return Ok(()) };
        let is_other = |other: &str| other != word && directory_of(other) == Some(directory);
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        match others.keys().any(|open| is_other(open)) || all.iter().any(|one| is_other(one.store.as_str())) {
            true => Err(Error::new(
                Code::ConfigInvalid,
                "it is open with other parameters, or another policy writes it differently: write the same text \
                 everywhere, and restart the server to change it",
            )),
            false => Ok(()),
        }
    }

    /// Records why the file was rejected. The policies stay active.
    pub fn set_problem(&self, problem: String) {
        let by_name = self.set().by_name.clone();
        self.put(Set { by_name, problem: Some(problem) });
    }

    /// Removes and returns the stores that no policy uses any longer, to be closed.
    #[must_use]
    pub fn unused(&self) -> Vec<Arc<dyn Store>> {
        let set = self.set();
        let is_used =
            |url: &String| set.by_name.values().any(|active| active.definition.store.as_str() == *url);
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        others.extract_if(|url, _| !is_used(url)).map(|(_, store)| store).collect()
    }

    fn put(&self, set: Set) {
        *self.set.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(set);
    }

    fn store(&self, word: &str) -> Result<(Backend, Arc<dyn Store>)> {
        match word {
            ENGINE => return Ok((Backend::Engine, Arc::new(self.engine.clone()))),
            MEMORY => return Ok((Backend::Sync, Arc::new(self.memory.clone()))),
            _ => {}
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let store = match others.get(word) {
            Some(store) => Arc::clone(store),
            None => {
                let store = stores::open(word)?;
                others.insert(word.to_owned(), Arc::clone(&store));
                store
            }
        };
        let backend = if store.capabilities().sync { Backend::Sync } else { Backend::Async };
        Ok((backend, store))
    }

    /// Removes and returns the stores of all URLs, to be closed with the server.
    #[must_use]
    pub fn others(&self) -> Vec<Arc<dyn Store>> {
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        others.drain().map(|(_, store)| store).collect()
    }
}

/// The directory of a URL that names one. It can be opened once, whatever the parameters; a server can be connected to many times.
fn directory_of(url: &str) -> Option<&str> {
    let path = url.strip_prefix("sqlite:")?.split('?').next()?;
    let path = path.strip_prefix("//").unwrap_or(path);
    (!path.is_empty()).then_some(path)
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
    async fn an_unchanged_policy_stays_active_and_a_changed_one_is_replaced() {
        let policies = policies();
        policies.replace(&definitions(ONE)).unwrap();
        let first = policies.find("a").unwrap();
        policies.replace(&definitions(ONE)).unwrap();
        assert!(Arc::ptr_eq(&first, &policies.find("a").unwrap()));
        policies.replace(&definitions(&("\n\n".to_owned() + ONE))).unwrap();
        assert!(Arc::ptr_eq(&first, &policies.find("a").unwrap()), "it is only on another line");
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
            [("redsi", "'redsi' is not a store"), ("mysql://u:pw@h", "there is no store 'mysql'")]
        {
            let error = policies
                .replace(&definitions(&ONE.replace("\"memory\"", &format!("\"{store}\""))))
                .unwrap_err();
            assert!(error.message().starts_with("k.toml:1: limit.a: store: "), "{error}");
            assert!(error.message().contains(why) && !error.message().contains("pw"), "{error}");
        }
        assert!(policies.find("a").is_some());
        policies.set_problem("k.toml:3: odd".to_owned());
        assert_eq!(policies.set().problem.as_deref(), Some("k.toml:3: odd"));
        assert!(policies.find("a").is_some(), "the policies stay active");
    }

    #[tokio::test]
    async fn a_store_of_a_url_is_shared_and_closed_when_unused() {
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

    #[tokio::test]
    async fn one_server_can_be_used_with_different_parameters() {
        let policies = policies();
        let on = |name: &str, store: &str| {
            ONE.replace("limit.a", &format!("limit.{name}")).replace("memory", &format!("redis://h{store}"))
        };
        let text = on("a", "/0") + &on("b", "/0?atomic=cas") + &on("c", "/0") + &on("d", "/1");
        policies.replace(&definitions(&text)).unwrap();
        assert_eq!(policies.find("a").unwrap().backend, Backend::Async);
        assert_eq!(policies.others().len(), 3, "a and c share one");
    }

    #[tokio::test]
    async fn random_keys_do_not_fill_the_memory() {
        let policies = policies();
        policies.replace(&definitions(ONE)).unwrap();
        let active = policies.find("a").unwrap();
        for n in 0..MEMORY_KEYS_MAX + 10_000 {
            active.limiter.check_sync(n.to_le_bytes(), 1).unwrap();
        }
        let kept = policies.memory.len();
        assert!((MEMORY_KEYS_MAX / 2..=MEMORY_KEYS_MAX).contains(&kept), "{kept}");
    }

    #[tokio::test]
    async fn a_rejected_set_leaves_no_traces() {
        let metrics = PolicyMetrics::new();
        let policies = Policies::new(Engine::open(&Options::in_memory()).unwrap(), metrics.clone());
        policies.replace(&definitions(ONE)).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let url = |rest: &str| format!("\"sqlite:{}/{rest}\"", dir.path().display());
        let one = |name: &str, store: &str| {
            ONE.replace("limit.a", &format!("limit.{name}")).replace("\"memory\"", store)
        };
        // Found before anything is opened.
        for wrong in ["\"redsi\"", "\"mysql:x\"", &url("b?durability=commit")] {
            let text = ONE.to_owned() + &one("b", &url("b")) + &one("c", wrong);
            assert_eq!(policies.replace(&definitions(&text)).unwrap_err().code(), Code::ConfigInvalid);
            assert!(!dir.path().join("b").exists() && policies.unused().is_empty(), "{wrong}");
        }
        // Found only by opening it: the stores that were opened before it are unused.
        std::fs::write(dir.path().join("file"), "x").unwrap();
        let text = ONE.to_owned() + &one("b", &url("b")) + &one("c", &url("file"));
        assert_ne!(policies.replace(&definitions(&text)).unwrap_err().code(), Code::ConfigInvalid);
        let unused = policies.unused();
        assert_eq!(unused.len(), 1);
        unused[0].close().await.unwrap();
        let mut registry = prometheus_client::registry::Registry::default();
        metrics.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(text.contains("policy=\"a\"") && !text.contains("policy=\"b\""), "{text}");
    }
}
