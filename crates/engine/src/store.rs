//! The engine as a [`Store`]: a step runs on the shard's thread, inside the batch, on its native state.

use keystead_core::{Answer, Capabilities, Code, ErasedStep, Error, Key, Store};
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
        Capabilities { atomic: true, durable, shared: false, sync: false, injected_clock: true }
    }

    fn apply_erased<'a>(&'a self, key: &'a Key, step: &'a mut dyn ErasedStep) -> Answer<'a, ()> {
        Answer::pending(async move {
            let mut detached = step.detach();
            let name = key.clone();
            let run = move |keyspace: &mut keystead_model::keyspace::Keyspace, now| {
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

    fn reset<'a>(&'a self, key: &'a Key) -> Answer<'a, bool> {
        Answer::pending(async move {
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

    fn close(&self) -> Answer<'_, ()> {
        Answer::pending(Engine::close(self))
    }
}
