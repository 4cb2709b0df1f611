//! `POST /limit/{policy}/reserve` and `.../settle`: costs that are known only afterwards. Touches the store of the policy.

use hyper::StatusCode;
use keystead_core::{Error, Key, Stopwatch};
use keystead_limit::Reserved;
use keystead_limit::strategy::AnyStrategy;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::here::Here;
use super::super::kv::answer::Refused;
use super::super::kv::asked::Parameters;
use super::super::reply;
use super::super::request::Asked;
use super::asked::{self, KeyText};
use super::lease::whole;
use super::{Done, answer, policy, run, writer};
use crate::limits::{RESERVATION_MS, RESERVATION_MS_MAX};
use crate::policies::named::{Named, Place};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Estimate<'a> {
    #[serde(borrow)]
    key: KeyText<'a>,
    cost: u64,
    /// How long it waits to be settled.
    #[serde(default, rename = "ttlMs")]
    ttl_ms: Option<u64>,
}

pub(super) async fn reserve(here: &Here, asked: &Asked, name: &str) -> Done {
    let denial = asked::denial(&asked.head)?;
    let named = policy(here, name)?;
    let body: Estimate<'_> = asked::body(&asked.body, r#"{"key":"ada","cost":4000,"ttlMs":60000}"#)?;
    writer(asked)?;
    has_units(&named)?;
    let ttl_ms = body.ttl_ms.unwrap_or(RESERVATION_MS);
    if !(1..=RESERVATION_MS_MAX).contains(&ttl_ms) {
        return Err(Refused::bad(format!("ttlMs is a whole number from 1 to {RESERVATION_MS_MAX}")));
    }
    let stopwatch = Stopwatch::start();
    let reserved = match named.place {
        Place::Engine => {
            let reserving = named.limiter.reserving(&body.key.0, body.cost, ttl_ms)?;
            let [key, note] = reserving.keys();
            together(here, &key, &note)?;
            let ran = run::on_engine(here, &key, true, move |held| reserving.run(held)).await;
            let id = ran.as_ref().ok().and_then(|reserved| reserved.id);
            let settled = named.limiter.settled(ran.map(|reserved| (reserved.decision, reserved.now)));
            settled.map(|(decision, now)| Reserved { decision, now, id })
        }
        Place::Sync | Place::Elsewhere => named.limiter.reserve(&body.key.0, body.cost, ttl_ms).await,
    };
    named.count(&body.key.0, reserved.as_ref().ok().map(|reserved| &reserved.decision), stopwatch.elapsed());
    let Reserved { decision, now, id } = reserved?;
    let more = id.map(|id| {
        let expires_at = now.plus_ms(ttl_ms).0;
        ("reservation", json!({ "id": id, "cost": body.cost, "expiresAt": expires_at }))
    });
    Ok(answer::decided(&named, &decision, now, more.as_slice(), denial)?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bill<'a> {
    #[serde(borrow)]
    key: KeyText<'a>,
    id: u64,
    cost: u64,
}

pub(super) async fn settle(here: &Here, asked: &Asked, name: &str) -> Done {
    Parameters::of(&asked.head, &[])?;
    let named = policy(here, name)?;
    let body: Bill<'_> = asked::body(&asked.body, r#"{"key":"ada","id":1,"cost":1500}"#)?;
    writer(asked)?;
    has_units(&named)?;
    let id = whole(body.id)?;
    let settled = match named.place {
        Place::Engine => {
            let settling = named.limiter.settling(&body.key.0, id, body.cost)?;
            let [key, note] = settling.keys();
            together(here, &key, &note)?;
            let ran = run::on_engine(here, &key, true, move |held| settling.run(held)).await?;
            ran.map(|(decision, _)| decision)
        }
        Place::Sync | Place::Elsewhere => named.limiter.settle_reserved(&body.key.0, id, body.cost).await?,
    };
    let Some(decision) = settled else {
        return Err(Refused::NotFound(
            "there is no such reservation: it is settled already, or has expired, and its estimate stands"
                .to_owned(),
        ));
    };
    let mut text = decision.to_json()?;
    answer::push(&mut text, &[("settled", Value::from(body.cost))]);
    Ok(reply::json(StatusCode::OK, text))
}

fn has_units(named: &Named) -> Result<(), Refused> {
    match named.definition.policy.strategy() {
        AnyStrategy::Concurrency(_) => {
            Err(Refused::bad("a concurrency policy has leases, not units: acquire and release them"))
        }
        _ => Ok(()),
    }
}

/// Only keys with braces that are no tag can come apart.
fn together(here: &Here, key: &Key, note: &Key) -> Result<(), Error> {
    let shard = |key: &Key| here.app.engine.shard_of(key.as_bytes());
    match shard(key) == shard(note) {
        true => Ok(()),
        false => Err(Error::new(
            keystead_core::Code::BadRequest,
            "on several shards a reservation needs a key without braces, or with a {tag}",
        )),
    }
}
