//! The engine as a [`Store`]: a step runs on the shard's thread, inside the batch, on its native state.

use std::any::Any;

use keystead_core::bounds::{KEY_BYTES_MAX, STATE_BYTES_MAX};
use keystead_core::{
    Applies, Capabilities, Code, ErasedStep, Error, Job, Key, Millis, Result, Store, StoreFuture, Together,
};
use keystead_model::keyspace::{Held, Keyspace};
use keystead_model::value::Kind;

use crate::engine::Engine;
use crate::options::Durability;

#[deny(clippy::missing_trait_methods)]
impl Store for Engine {
    fn scheme(&self) -> &'static str {
        "sqlite"
    }

    fn capabilities(&self) -> Capabilities {
        let durable = self.durability() != Durability::Memory;
        Capabilities {
            atomic: true,
            durable,
            shared: false,
            sync: false,
            injected_clock: true,
            key_bytes_max: KEY_BYTES_MAX,
            state_bytes_max: STATE_BYTES_MAX,
        }
    }

    fn apply_erased<'a>(&'a self, key: &'a Key, step: &'a mut dyn ErasedStep) -> StoreFuture<'a, ()> {
        StoreFuture::pending(async move {
            let mut detached = step.detach();
            let name = key.clone();
            let run = move |keyspace: &mut Keyspace, now| {
                keyspace.apply_step(name.as_bytes(), &mut *detached, now)?;
                Ok(detached)
            };
            let mut detached = self.write(key.as_bytes(), run).await?;
            if let Some(reply) = detached.take_reply() {
                step.put_reply(reply);
            }
            Ok(())
        })
    }

    fn reset<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, bool> {
        StoreFuture::pending(async move {
            let name = key.clone();
            self.write(key.as_bytes(), move |keyspace, now| match keyspace.kind(name.as_bytes(), now)? {
                None => Ok(false),
                Some(Kind::State) => keyspace.delete(name.as_bytes(), now),
                Some(kind) => {
                    let held = kind.redis_name();
                    Err(Error::new(
                        Code::WrongType,
                        format!("the key holds a {held}, not the state of a step"),
                    ))
                }
            })
            .await
        })
    }

    fn together(&self) -> Option<&dyn Together> {
        Some(self)
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        StoreFuture::pending(Engine::close(self))
    }
}

/// One job on one shard: an error undoes what it changed. Keys on different shards cannot be changed atomically.
#[deny(clippy::missing_trait_methods)]
impl Together for Engine {
    fn run_together<'a>(&'a self, keys: &'a [Key], job: Job) -> StoreFuture<'a, Box<dyn Any + Send>> {
        StoreFuture::pending(async move {
            let Some(first) = keys.first() else {
                return Err(Error::new(Code::BadRequest, "a multi-key job must declare its keys"));
            };
            let shard = self.shard_of(first.as_bytes());
            if keys.iter().any(|key| self.shard_of(key.as_bytes()) != shard) {
                return Err(Error::new(
                    Code::Unsupported,
                    "the keys are on different shards (give them the same {tag} to keep them together)",
                ));
            }
            let declared = keys.to_vec();
            let run = move |keyspace: &mut Keyspace, now| {
                job.run(&mut Declared { held: Held { keyspace, now }, declared: &declared })
            };
            self.write(first.as_bytes(), run).await
        })
    }
}

/// What a job may access: the keys that it declared.
struct Declared<'a> {
    held: Held<'a>,
    declared: &'a [Key],
}

impl Applies for Declared<'_> {
    fn now(&self) -> Millis {
        self.held.now
    }

    fn apply_erased(&mut self, key: &Key, step: &mut dyn ErasedStep) -> Result<()> {
        if !self.declared.contains(key) {
            let message = format!("the multi-key job did not declare the key {key}");
            return Err(Error::new(Code::Internal, message));
        }
        self.held.apply_erased(key, step)
    }
}
