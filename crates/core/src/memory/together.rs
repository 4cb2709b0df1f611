//! Steps on several keys: the locks of their shards are always taken in the order of the shards, so that no two jobs
//! deadlock.

use std::any::Any;
use std::sync::MutexGuard;

use super::shard::Shard;
use super::{MemoryStore, lock};
use crate::clock::Millis;
use crate::erased::ErasedStep;
use crate::error::{Code, Error, Result};
use crate::key::Key;
use crate::store::StoreFuture;
use crate::together::{Applies, Job, Together};

impl Together for MemoryStore {
    fn run_together<'a>(&'a self, keys: &'a [Key], job: Job) -> StoreFuture<'a, Box<dyn Any + Send>> {
        StoreFuture::Ready(self.check_open().and_then(|()| {
            let mut shards: Vec<usize> = keys.iter().map(|key| self.shard_index(key).1).collect();
            shards.sort_unstable();
            shards.dedup();
            let lock_of = |index: usize| (index, lock(&self.inner.shards[index]));
            let mut held: Vec<_> = shards.into_iter().map(lock_of).collect();
            let clock = &*self.inner.clock;
            let now = clock.now();
            for (_, shard) in &mut held {
                shard.in_order(now, clock);
            }
            job.run(&mut Held { store: self, held, now })
        }))
    }
}

struct Held<'a> {
    store: &'a MemoryStore,
    /// In ascending order of the shards.
    held: Vec<(usize, MutexGuard<'a, Shard>)>,
    now: Millis,
}

impl Applies for Held<'_> {
    fn now(&self) -> Millis {
        self.now
    }

    fn apply_erased(&mut self, key: &Key, step: &mut dyn ErasedStep) -> Result<()> {
        let (hash, index) = self.store.shard_index(key);
        let held_at = self.held.binary_search_by_key(&index, |(index, _)| *index).map_err(|_| {
            Error::new(Code::Internal, format!("the multi-key job did not declare the key {key}"))
        })?;
        self.held[held_at].1.apply(hash, key.as_bytes(), step, self.now)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{Change, Clock, MemoryOptions, Step, Store, StoreExt, Ttl, step_fn};

    fn add(n: u64) -> impl Step<State = u64, Reply = u64> {
        step_fn(move |state: Option<&u64>, _| {
            let sum = state.copied().unwrap_or(0) + n;
            Change::Put(sum, Ttl::Never, sum)
        })
    }

    fn keys(names: &[&str]) -> Vec<Key> {
        names.iter().map(|name| Key::new(name).unwrap()).collect()
    }

    #[test]
    fn no_reader_sees_only_some_of_the_steps() {
        let store = MemoryStore::open(MemoryOptions::default().shards(4)).unwrap();
        let both = keys(&["a", "b", "c", "d"]);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (store, mut both) = (store.clone(), both.clone());
                both.rotate_left(thread);
                scope.spawn(move || {
                    for _ in 0..2000 {
                        let names = both.clone();
                        let job = move |held: &mut dyn Applies| {
                            names.iter().map(|key| held.apply(key, &add(1))).collect::<Result<Vec<_>>>()
                        };
                        let seen = store.together().unwrap().apply_together_sync(&both, job).unwrap();
                        assert!(seen.iter().all(|n| *n == seen[0]), "{seen:?}");
                    }
                });
            }
        });
        assert_eq!(store.apply_sync(&both[0], &add(0)).unwrap(), 8000);
    }

    #[test]
    fn the_clock_is_read_once_and_an_undeclared_key_is_rejected() {
        struct Counting(Arc<AtomicUsize>);
        impl Clock for Counting {
            fn now(&self) -> Millis {
                Millis(1000 + self.0.fetch_add(1, Ordering::SeqCst) as u64)
            }
        }
        let reads = Arc::new(AtomicUsize::new(0));
        let options = MemoryOptions::default().shards(4096).clock(Counting(reads.clone()));
        let store = MemoryStore::open(options).unwrap();
        let named = keys(&["a", "b", "c"]);
        let names = named.clone();
        let job = move |held: &mut dyn Applies| {
            for key in &names {
                held.apply(key, &add(1))?;
            }
            let other = held.apply(&Key::new("other").unwrap(), &add(1));
            assert_eq!(other.unwrap_err().code(), Code::Internal);
            Ok(held.now())
        };
        assert_eq!(store.together().unwrap().apply_together_sync(&named, job).unwrap(), Millis(1000));
        assert_eq!(reads.load(Ordering::SeqCst), 1);
        store.close();
        let error = store.together().unwrap().apply_together_sync(&named, |_| Ok(())).unwrap_err();
        assert_eq!(error.code(), Code::StoreUnavailable);
    }
}
