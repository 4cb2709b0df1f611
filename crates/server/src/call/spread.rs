//! Requests on several shards, at once or one shard after the other. Touches their queues.

use std::future::Future;
use std::pin::Pin;

use keystead_commands::bounds::REPLY_BYTES_MAX;
use keystead_commands::errors::Fail;
use keystead_commands::spec::Spread;
use keystead_commands::{Args, Command, Reply, Spec, meter, number};
use keystead_core::{Result, ShardId};
use tokio::sync::oneshot;

use super::job::Served;
use super::{Caller, ended};

/// The lowest bits of a scan's cursor are the shard; the others are the cursor within it.
const CURSOR_SHARD_BITS: u32 = 8;

pub(crate) type Later<T> = Pin<Box<dyn Future<Output = T>>>;

impl Caller {
    /// Runs a request on several shards, and returns one reply when it is durable on all of them.
    pub(crate) fn spread(&mut self, spread: Spread, spec: &'static Spec, args: Args<'_>) -> Later<Served> {
        match spread {
            Spread::Cursor => return self.scan(spec, args),
            Spread::Keys => return self.split(spec, args),
            _ => {}
        }
        let first = if spread == Spread::Some { self.random.below(self.shards) } else { 0 };
        let replies: Vec<_> = (0..self.shards)
            .map(|n| self.send(ShardId((first + n) % self.shards), spec, args.to_command(), None, None))
            .collect();
        Box::pin(async move {
            let mut all = Vec::new();
            for reply in replies {
                all.push(received(reply).await);
            }
            Served::plain(combine(spread, all))
        })
    }

    /// Runs a request on the shards of its keys, each with its own.
    fn split(&mut self, spec: &'static Spec, args: Args<'_>) -> Later<Served> {
        let name = args.at(0);
        let mut parts: Vec<Vec<&[u8]>> = vec![Vec::new(); self.shards];
        let shard_of_key: Vec<usize> = args
            .from(1)
            .map(|key| {
                let shard = self.app.engine.shard_of(key).0;
                parts[shard].push(key);
                shard
            })
            .collect();
        let sent: Vec<_> = parts
            .into_iter()
            .enumerate()
            .map(|(shard, keys)| {
                let command = || Command::new(std::iter::once(name).chain(keys.iter().copied()));
                (!keys.is_empty()).then(|| self.send(ShardId(shard), spec, command(), None, None))
            })
            .collect();
        Box::pin(async move {
            let mut replies = Vec::with_capacity(sent.len());
            for reply in sent {
                replies.push(match reply {
                    Some(reply) => received(reply).await,
                    None => Reply::Array(Vec::new()),
                });
            }
            Served::plain(put_together(replies, &shard_of_key))
        })
    }

    /// Continues a scan on the shard in the lowest bits of its cursor, so that it visits all shards.
    fn scan(&mut self, spec: &'static Spec, args: Args<'_>) -> Later<Served> {
        let cursor = std::str::from_utf8(args.at(1)).ok().and_then(|text| text.parse::<u64>().ok());
        let shards = self.shards as u64;
        let mask = (1 << CURSOR_SHARD_BITS) - 1;
        let shard = cursor.map_or(0, |cursor| cursor & mask) % shards;
        // The command rejects an invalid cursor.
        let within = cursor.map(|cursor| (cursor >> CURSOR_SHARD_BITS).to_string().into_bytes());
        let within = within.unwrap_or_else(|| args.at(1).to_vec());
        let words = args.from(0).enumerate().map(|(n, word)| if n == 1 { &within[..] } else { word });
        let reply = self.send(ShardId(shard as usize), spec, Command::new(words), None, None);
        Box::pin(async move {
            let mut reply = received(reply).await;
            if let Reply::Array(parts) = &mut reply
                && let Some(Reply::Bulk(next)) = parts.first()
                && let Some(next) = number::parse_int(next)
            {
                let next = match next as u64 {
                    0 if shard + 1 < shards => shard + 1,
                    0 => 0,
                    next => next << CURSOR_SHARD_BITS | shard,
                };
                parts[0] = Reply::text(next.to_string());
            }
            Served::plain(reply)
        })
    }
}

async fn received(reply: Result<oneshot::Receiver<Served>>) -> Reply {
    match reply {
        Ok(reply) => match reply.await {
            Ok(served) => served.reply,
            Err(_) => Reply::Error(Fail::Broken(ended())),
        },
        Err(error) => Reply::Error(Fail::Broken(error)),
    }
}

fn combine(spread: Spread, all: Vec<Reply>) -> Reply {
    if let Some(error) = all.iter().find(|reply| reply.is_error()) {
        return error.clone();
    }
    match spread {
        Spread::Sum => {
            let numbers = all.iter().map(|reply| if let Reply::Int(n) = reply { *n } else { 0 });
            Reply::Int(numbers.fold(0, i64::saturating_add))
        }
        Spread::Join => {
            let lists = all.into_iter().flat_map(|reply| match reply {
                Reply::Array(items) | Reply::Set(items) => items,
                other => vec![other],
            });
            Reply::Array(lists.collect())
        }
        Spread::Some => all.into_iter().find(|reply| *reply != Reply::Nil).unwrap_or(Reply::Nil),
        Spread::Local | Spread::Each | Spread::Cursor | Spread::Keys => {
            all.into_iter().next().unwrap_or(Reply::Nil)
        }
    }
}

/// The reply to a request that was split: the sum of its parts, or an element for each key, in the order of the keys.
fn put_together(replies: Vec<Reply>, shard_of_key: &[usize]) -> Reply {
    if let Some(error) = replies.iter().find(|reply| reply.is_error()) {
        return error.clone();
    }
    if replies.iter().any(|reply| matches!(reply, Reply::Int(_))) {
        return combine(Spread::Sum, replies);
    }
    let mut parts: Vec<_> = replies
        .into_iter()
        .map(|reply| match reply {
            Reply::Array(items) => items.into_iter(),
            other => vec![other].into_iter(),
        })
        .collect();
    let items: Vec<Reply> =
        shard_of_key.iter().map(|shard| parts[*shard].next().unwrap_or(Reply::Nil)).collect();
    let bytes = |item: &Reply| if let Reply::Bulk(value) = item { value.len() } else { 0 };
    if items.iter().map(bytes).sum::<usize>() > REPLY_BYTES_MAX {
        return Reply::Error(meter::too_large(REPLY_BYTES_MAX));
    }
    Reply::Array(items)
}
