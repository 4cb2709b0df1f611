//! `POST /sync`: applies the mutations of a client, each on the shard of its key. Touches those shards.
//!
//! The items of one shard are one atomic step, or a few where documents are large, and all shards work and wait for their disks at the
//! same time. If a step fails, it is undone, and its items are applied one by one, so that a bad one does not hold back the others. Invariant: a result is sent when it
//! is durable; an item without a result, for whatever reason, is `retry`.

use std::collections::HashSet;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use hyper::StatusCode;
use keystead_commands::sync::apply::{self, Item, failed};
use keystead_commands::sync::{Outcome, Settled, Status};
use keystead_core::{Error, Millis, ShardId, key};
use keystead_engine::Completion;
use keystead_model::keyspace::Keyspace;

use super::super::context::HttpContext;
use super::super::error::ApiResult;
use super::super::kv::shared;
use super::super::parameters::Parameters;
use super::super::reply;
use super::super::request::HttpRequest;
use super::items::{self, Batch, Entry};
use super::results;

pub(in super::super) async fn push(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    request.require_write()?;
    Parameters::of(&request.head, &[])?;
    shared::require_database(context, "offline sync")?;
    let Batch { client, client_ts, entries } = items::read(&request.body, request.scope.as_ref())?;
    let ids: Vec<u64> = entries.iter().map(Entry::id).collect();
    let mut outcomes: Vec<Option<Outcome>> = Vec::with_capacity(entries.len());
    let mut groups: Vec<Group> = Vec::new();
    for (n, entry) in entries.into_iter().enumerate() {
        outcomes.push(match entry {
            Entry::Rejected(_, settled) => Some(without_effect(settled)),
            Entry::Item(item) => match served(context, &item) {
                Err(settled) => Some(without_effect(settled)),
                Ok(()) => {
                    add(&mut groups, context.app.engine.shard_of(&item.mutation.key), n, item);
                    None
                }
            },
        });
    }
    let positions: Vec<Vec<usize>> = groups.iter().map(|group| group.positions.clone()).collect();
    let applied =
        at_the_same_time(groups.into_iter().map(|group| apply_group(context, &client, group)).collect());
    for (positions, applied) in positions.into_iter().zip(applied.await) {
        for (n, outcome) in positions.into_iter().zip(applied) {
            outcomes[n] = Some(outcome);
        }
    }
    let outcomes = outcomes.into_iter().map(|outcome| {
        outcome.unwrap_or_else(|| without_effect(Settled::because(Status::Retry, "internal", "no result")))
    });
    let outcomes: Vec<Outcome> = outcomes.collect();
    for outcome in &outcomes {
        let result = if outcome.again { "again" } else { outcome.settled.status.as_str() };
        context.app.metrics.record_mutation(result);
    }
    let body = results::body(&ids, outcomes, client_ts, context.app.now());
    Ok(reply::json(StatusCode::OK, body))
}

/// The items of one shard, with their positions in the request.
struct Group {
    shard: ShardId,
    positions: Vec<usize>,
    items: Vec<Item>,
}

fn add(groups: &mut Vec<Group>, shard: ShardId, position: usize, item: Item) {
    match groups.iter_mut().find(|group| group.shard == shard) {
        Some(group) => {
            group.positions.push(position);
            group.items.push(item);
        }
        None => groups.push(Group { shard, positions: vec![position], items: vec![item] }),
    }
}

fn without_effect(settled: Settled) -> Outcome {
    Outcome { settled, again: false, winner: None }
}

/// Whether this node of a cluster serves the key of an item. If it does not, the item may be sent again, to the node that does.
fn served(context: &HttpContext, item: &Item) -> Result<(), Settled> {
    context.require_served([&item.mutation.key[..]]).map_err(|error| {
        let reply: serde_json::Value = serde_json::from_slice(&error.stored().body).unwrap_or_default();
        let text = |name: &str| reply["error"][name].as_str().unwrap_or_default().to_owned();
        let owner = text("owner");
        let words = if owner.is_empty() { text("message") } else { format!("{}: {owner}", text("message")) };
        Settled::because(Status::Retry, &text("code"), words)
    })
}

/// Applies the items of a shard: in one step, or in a few if the documents are large; one by one if a step fails.
async fn apply_group(context: &HttpContext, client: &str, group: Group) -> Vec<Outcome> {
    let (shard, items): (_, Arc<[Item]>) = (group.shard, group.items.into());
    // Those behind one that has to be sent again must not overtake it.
    let mut blocked: HashSet<u16> = HashSet::new();
    let mut outcomes = Vec::with_capacity(items.len());
    let mut one_by_one = false;
    while outcomes.len() < items.len() {
        let first = outcomes.len();
        let end = if one_by_one { first + 1 } else { items.len() };
        let step = Step {
            client: client.to_owned(),
            items: Arc::clone(&items),
            range: first..end,
            blocked: blocked.clone(),
        };
        let applied = match apply_at(context, shard, step).await {
            Ok(applied) => applied,
            Err(error) if end - first == 1 => vec![without_effect(failed(&error))],
            Err(error) => {
                tracing::debug!(%error, "the mutations of a request are applied one by one");
                one_by_one = true;
                continue;
            }
        };
        let held = items[first..].iter().zip(&applied).filter(|(_, outcome)| !outcome.settled.is_final());
        blocked.extend(held.map(|(item, _)| key::slot(&item.mutation.key)));
        outcomes.extend(applied);
    }
    outcomes
}

/// Items that are applied in one step.
struct Step {
    client: String,
    items: Arc<[Item]>,
    range: Range<usize>,
    /// Slots where an earlier mutation has to be sent again.
    blocked: HashSet<u16>,
}

/// Returns the outcomes of the first items, at least of one.
async fn apply_at(context: &HttpContext, shard: ShardId, step: Step) -> Result<Vec<Outcome>, Error> {
    let run = move |keys: &mut Keyspace, now: Millis| {
        let Step { client, items, range, blocked } = step;
        let applied = apply::apply(keys, &client, &items[range], blocked, now);
        let completion = Completion::commit_if(applied.is_ok());
        (applied, completion)
    };
    context.run_at(shard, true, run).await?
}

/// Runs futures at the same time, and returns their results in order.
async fn at_the_same_time<T>(futures: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut pending: Vec<(Pin<Box<_>>, Option<T>)> =
        futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    poll_fn(|cx| {
        let mut is_ready = true;
        for (future, result) in &mut pending {
            if result.is_none() {
                match future.as_mut().poll(cx) {
                    Poll::Ready(value) => *result = Some(value),
                    Poll::Pending => is_ready = false,
                }
            }
        }
        if is_ready { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    pending.into_iter().filter_map(|(_, result)| result).collect()
}
