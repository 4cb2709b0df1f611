//! Redis as a compare-and-set backend: by a script, or by WATCH, MULTI and EXEC.

use std::sync::Arc;

use keystead_core::bounds::{KEY_BYTES_MAX, STATE_BYTES_MAX};
use keystead_core::{Capabilities, Code, Error, Key, Millis, Result};
use redis::Value;

use super::failure::{Failure, unexpected};
use super::node::Node;
use super::target::{Atomic, Options, TimeSource};
use super::wire::{Prepared, Wire};
use crate::cas::record::version_of;
use crate::cas::{Backend, Reading, Stored, Swap, Swapped, VersionToken};

pub(super) struct RedisBackend {
    pub(super) wire: Arc<Wire>,
    pub(super) options: Options,
    read: Prepared,
    swap: Prepared,
}

impl RedisBackend {
    pub(super) fn new(wire: Arc<Wire>, options: Options) -> Self {
        let (read, swap) = (Prepared::new(include_str!("read.lua")), Prepared::new(include_str!("swap.lua")));
        RedisBackend { wire, options, read, swap }
    }

    fn is_on_server_time(&self) -> bool {
        self.options.time == TimeSource::Server
    }

    /// The two round trips of a transaction. Until EXEC is sent nothing can have happened.
    async fn swap_watched(&self, node: &Node, key: &Key, swap: &Swap<'_>) -> Result<Swapped, Failure> {
        let not_sent = |failure| match failure {
            Failure::Lost(message) => Failure::NotSent(message),
            other => other,
        };
        let mut connection = node.exclusive().await?;
        let mut look = redis::pipe();
        look.cmd("WATCH").arg(key.as_bytes()).cmd("GET").arg(key.as_bytes());
        let mut seen = connection.call_all(&look).await.map_err(not_sent)?.into_iter();
        let watched = seen.next().unwrap_or(Value::Nil).extract_error();
        watched.map_err(|error| not_sent(Failure::of(&error)))?;
        let value = seen.next().unwrap_or(Value::Nil).extract_error();
        let stored = stored(value.map_err(|error| not_sent(Failure::of(&error)))?);
        let stored = stored
            .map_err(|error| Failure::Rejected { code: "CORRUPT".into(), detail: error.to_string() })?;
        if stored.as_ref().map(|stored| stored.token) != swap.expected {
            let mut unwatch = redis::pipe();
            unwatch.cmd("UNWATCH");
            if connection.call_all(&unwatch).await.is_ok() {
                connection.give_back();
            }
            return Ok(self.conflict(stored));
        }
        let mut transaction = redis::pipe();
        transaction.cmd("MULTI");
        let set = transaction.cmd("SET").arg(key.as_bytes()).arg(swap.text);
        if let Some(reclaim_ms) = swap.reclaim_ms {
            set.arg("PX").arg(px(reclaim_ms));
        }
        transaction.cmd("EXEC");
        let mut replies = connection.call_all(&transaction).await?.into_iter();
        // If the server does not take the write, EXEC says only that nothing was executed.
        for queued in replies.by_ref().take(2) {
            queued.extract_error().map_err(|error| Failure::of(&error))?;
        }
        let Some(executed) = replies.next() else {
            return Err(Failure::Lost("the reply of EXEC is missing".to_owned()));
        };
        match executed.extract_error().map_err(|error| Failure::of(&error))? {
            Value::Nil => {
                connection.give_back();
                Ok(Swapped::Conflict(None))
            }
            _ => {
                connection.give_back();
                Ok(Swapped::Done(VersionToken(swap.version.into())))
            }
        }
    }

    fn conflict(&self, stored: Option<Stored>) -> Swapped {
        // On the server's clock another attempt needs its time, so it reads again.
        Swapped::Conflict((!self.is_on_server_time()).then_some(Reading { stored, now: None }))
    }
}

impl Backend for RedisBackend {
    fn scheme(&self) -> &'static str {
        self.wire.scheme
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            atomic: true,
            durable: true,
            shared: true,
            sync: false,
            injected_clock: !self.is_on_server_time(),
            key_bytes_max: KEY_BYTES_MAX,
            state_bytes_max: STATE_BYTES_MAX,
        }
    }

    async fn read(&self, key: &Key) -> Result<Reading> {
        if !self.is_on_server_time() {
            let value = self.wire.call(key, redis::cmd("GET").arg(&*self.wire.name(key))).await?;
            return Ok(Reading { stored: stored(value)?, now: None });
        }
        if self.options.atomic == Atomic::Watch {
            // Without scripts: the time first, so that it is never later than what is read.
            let now = time(&self.wire.call(key, &redis::cmd("TIME")).await?)?;
            let value = self.wire.call(key, redis::cmd("GET").arg(&*self.wire.name(key))).await?;
            return Ok(Reading { stored: stored(value)?, now: Some(now) });
        }
        let reply = self.wire.eval(&[key], &self.read, |_| {}).await?;
        match reply {
            Value::Array(fields) => {
                let [value, now] =
                    <[Value; 2]>::try_from(fields).map_err(|f| unexpected(&Value::Array(f)))?;
                Ok(Reading { stored: stored(value)?, now: Some(time(&now)?) })
            }
            other => Err(unexpected(&other)),
        }
    }

    async fn swap(&self, key: &Key, swap: &Swap<'_>) -> Result<Swapped> {
        if self.options.atomic == Atomic::Watch {
            let mut route = self.wire.route(key).await?;
            loop {
                match self.swap_watched(&route.node, key, swap).await {
                    Ok(swapped) => return Ok(swapped),
                    Err(failure) => route.follow(failure).await?,
                }
            }
        }
        let keys = [key];
        let reply = self.wire.eval(&keys, &self.swap, |command| {
            match swap.expected {
                Some(VersionToken(version)) => command.arg(version.to_string()),
                None => command.arg("-"),
            };
            command.arg(swap.text);
            match swap.reclaim_ms {
                Some(reclaim_ms) => command.arg(px(reclaim_ms)),
                None => command.arg("-"),
            };
        });
        match reply.await? {
            Value::Array(fields) => match &fields[..] {
                [Value::Int(1)] => Ok(Swapped::Done(VersionToken(swap.version.into()))),
                [Value::Int(0), ..] => {
                    let value = fields.into_iter().nth(1).unwrap_or(Value::Nil);
                    Ok(self.conflict(stored(value)?))
                }
                _ => Err(unexpected(&Value::Array(fields))),
            },
            other => Err(unexpected(&other)),
        }
    }

    async fn close(&self) -> Result<()> {
        self.wire.close();
        Ok(())
    }
}

/// Redis refuses an expiry beyond 2^63 milliseconds; this is 30,000 years.
fn px(reclaim_ms: u64) -> u64 {
    reclaim_ms.min(1_000_000_000_000_000)
}

fn stored(value: Value) -> Result<Option<Stored>> {
    let bytes = match value {
        Value::Nil => return Ok(None),
        Value::BulkString(bytes) => bytes,
        other => return Err(unexpected(&other)),
    };
    let foreign = || {
        Error::new(
            Code::Corrupt,
            "the key holds a value that this store did not write: use a prefix of its own",
        )
    };
    let text = String::from_utf8(bytes).map_err(|_| foreign())?;
    let version = version_of(&text).ok_or_else(foreign)?;
    Ok(Some(Stored { token: VersionToken(version.into()), text }))
}

/// The milliseconds of a reply of TIME.
fn time(value: &Value) -> Result<Millis> {
    let number = |value: &Value| match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok()?.parse::<u64>().ok(),
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    };
    match value {
        Value::Array(fields) if fields.len() == 2 => match (number(&fields[0]), number(&fields[1])) {
            (Some(seconds), Some(micros)) => Ok(Millis(seconds * 1000 + micros / 1000)),
            _ => Err(unexpected(value)),
        },
        other => Err(unexpected(other)),
    }
}
