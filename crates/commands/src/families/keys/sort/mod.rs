//! `SORT key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA] [STORE destination]`,
//! `SORT_RO key` with the same options except STORE

mod options;
mod order;
mod pattern;

use keystead_core::Millis;
use keystead_core::key::slot;
use keystead_model::Bytes;
use keystead_model::keyspace::Expire;
use keystead_model::value::{Kind, List, Value};

use self::options::Options;
use self::order::{Weights, sorted};
use self::pattern::Pattern;
use crate::errors::{self, Fail};
use crate::meter;
use crate::{Args, CommandResult, Ctx, Reply};

pub(super) fn sort(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    run(ctx, args.at(1), &Options::parse(args, true)?)
}

pub(super) fn sort_ro(ctx: &mut Ctx<'_>, args: Args<'_>) -> CommandResult {
    run(ctx, args.at(1), &Options::parse(args, false)?)
}

fn run(ctx: &mut Ctx<'_>, key: &[u8], options: &Options<'_>) -> CommandResult {
    check_shards(ctx, key, options)?;
    let found = in_order(ctx, key, options)?;
    let gets: &[Pattern<'_>] = if options.get.is_empty() { &[Pattern::Itself] } else { &options.get };
    let mut output = Vec::with_capacity(found.len());
    for element in found {
        for get in gets {
            let item = get.resolve(ctx, &element)?;
            // The same large value may be read repeatedly; the stored result has the same bound as a reply.
            if !meter::copied(item.as_ref().map_or(0, Bytes::len)) {
                return Ok(Reply::Nil);
            }
            output.push(item);
        }
    }
    let Some(destination) = options.store else {
        return Ok(Reply::Array(
            output
                .into_iter()
                .map(|item| item.map_or(Reply::Nil, |bytes| Reply::Bulk(bytes.into())))
                .collect(),
        ));
    };
    let mut list = List::new();
    for item in &output {
        list.push_back(item.as_ref().unwrap_or(&Bytes::new()));
    }
    let never = Expire::At(Millis::NEVER);
    ctx.keys.replace(destination, Value::List(list), never, ctx.now)?;
    Ok(Reply::count(output.len()))
}

/// The requested elements, in the requested order.
fn in_order(ctx: &mut Ctx<'_>, key: &[u8], options: &Options<'_>) -> Result<Vec<Bytes>, Fail> {
    let kind = ctx.keys.kind(key, ctx.now)?;
    if kind.is_some_and(|kind| !matches!(kind, Kind::List | Kind::Set | Kind::ZSet)) {
        return Err(errors::WRONG_TYPE);
    }
    // A set has no order of its own; the stored result must be deterministic.
    let plain = options.by == Some(Pattern::Nothing);
    let stored_set = plain && kind == Some(Kind::Set) && options.store.is_some();
    if plain && !stored_set {
        return Ok(in_own_order(ctx, key, options)?);
    }
    let elements: Vec<Bytes> = match ctx.keys.value(key, ctx.now)? {
        Some(Value::List(list)) => list.iter().map(|(_, element)| Bytes::from(element)).collect(),
        Some(Value::Set(set)) => set.iter().map(Bytes::from).collect(),
        Some(Value::ZSet(zset)) => zset.iter().map(|(member, _)| Bytes::from(member)).collect(),
        _ => return Ok(Vec::new()),
    };
    let by = options.by.as_ref().filter(|_| !stored_set);
    let weights = Weights::of(ctx, &elements, by, options.alpha || stored_set)?;
    let mut found = sorted(elements, weights, options.descending);
    let range = options.range(found.len());
    found.truncate(range.end);
    found.drain(..range.start);
    Ok(found)
}

/// The elements in their stored order: no more are read than requested.
fn in_own_order(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    options: &Options<'_>,
) -> Result<Vec<Bytes>, keystead_core::Error> {
    Ok(match ctx.keys.value(key, ctx.now)? {
        Some(Value::List(list)) => {
            let range = options.range(list.len());
            if options.descending {
                let range = list.len() - range.end..list.len() - range.start;
                list.iter_rev_range(range).map(|(_, element)| Bytes::from(element)).collect()
            } else {
                list.iter_range(range).map(|(_, element)| Bytes::from(element)).collect()
            }
        }
        Some(Value::Set(set)) => {
            let range = options.range(set.len());
            set.iter().skip(range.start).take(range.len()).map(Bytes::from).collect()
        }
        Some(Value::ZSet(zset)) => {
            let range = options.range(zset.len());
            if range.is_empty() {
                Vec::new()
            } else if options.descending {
                let from = zset.iter_rev_from(zset.len() - 1 - range.start);
                from.take(range.len()).map(|(member, _)| Bytes::from(member)).collect()
            } else {
                let from = zset.iter_from(range.start);
                from.take(range.len()).map(|(member, _)| Bytes::from(member)).collect()
            }
        }
        _ => Vec::new(),
    })
}

/// Rejects patterns that may refer to keys of other shards or nodes, as Redis Cluster does: the result would be wrong.
fn check_shards(ctx: &Ctx<'_>, key: &[u8], options: &Options<'_>) -> Result<(), Fail> {
    let leads_away = |pattern: &Pattern<'_>| match pattern {
        Pattern::Itself | Pattern::Nothing => false,
        Pattern::Key { prefix, .. } => pattern::tag(prefix).is_none_or(|tag| slot(tag) != slot(key)),
    };
    let by = options.by.as_ref().is_some_and(leads_away);
    let get = options.get.iter().any(leads_away);
    if (by || get) && (ctx.hub.host.shards() > 1 || ctx.hub.cluster.get().is_some()) {
        let option = if by { "BY" } else { "GET" };
        return Err(Fail::text(format!(
            "ERR {option} option of SORT denied in cluster mode when keys formed by the pattern may be in different slots."
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
