//! `PUT`, `PATCH` and `DELETE /kv/{key}?ifVersion=N&ttl=30s`. Touches the shard of the key.

use hyper::header::{CONTENT_TYPE, HeaderMap};
use keystead_commands::documents::once::{Kept, Known, Once};
use keystead_commands::documents::patch::{Form, Patch};
use keystead_commands::documents::{self, Change};
use keystead_commands::json::document;
use keystead_core::Millis;
use keystead_model::Bytes;
use keystead_model::keyspace::{Expire, Keyspace};

use super::super::here::Here;
use super::super::request::Asked;
use super::Done;
use super::answer::{self, Refused};
use super::asked::{self, Expiry, Guard, Parameters, name};

/// What `PUT` and `PATCH` take.
pub(super) const WRITING: &[&str] = &[name::IF_VERSION, name::TTL, name::EXPIRES_AT];
/// What `DELETE` takes.
pub(super) const DELETING: &[&str] = &[name::IF_VERSION];

/// The types of patches.
pub(super) const SHALLOW: &str = "application/json";
pub(super) const MERGE: &str = "application/merge-patch+json";
pub(super) const OPERATIONS: &str = "application/json-patch+json";

pub(super) async fn put(here: &Here, asked: &Asked) -> Done {
    let parameters = Parameters::of(&asked.head, WRITING)?;
    let text = document::normal(&asked.body).map_err(|flaw| Refused::flaw("the body", &flaw))?;
    // A full replacement: what is not said is not kept.
    let expiry = asked::expiry(&parameters, Expire::At(Millis::NEVER))?;
    let guard = asked::guard(&asked.head.headers, &parameters)?;
    write(here, asked, Change::Put(Bytes::from(text.into_bytes())), guard, expiry).await
}

pub(super) async fn patch(here: &Here, asked: &Asked) -> Done {
    let parameters = Parameters::of(&asked.head, WRITING)?;
    let form = form_of(&asked.head.headers)?;
    let patch = Patch::read(form, &asked.body).map_err(|flaw| Refused::flaw("the body", &flaw))?;
    let expiry = asked::expiry(&parameters, Expire::Keep)?;
    let guard = asked::guard(&asked.head.headers, &parameters)?;
    write(here, asked, Change::Patch(patch), guard, expiry).await
}

pub(super) async fn delete(here: &Here, asked: &Asked) -> Done {
    let parameters = Parameters::of(&asked.head, DELETING)?;
    let guard = asked::guard(&asked.head.headers, &parameters)?;
    write(here, asked, Change::Delete, guard, Expiry::As(Expire::Keep)).await
}

fn form_of(headers: &HeaderMap) -> Result<Form, Refused> {
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or(SHALLOW);
    match media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        // What curl says of any body.
        SHALLOW | "application/x-www-form-urlencoded" => Ok(Form::Shallow),
        MERGE => Ok(Form::Merge),
        OPERATIONS => Ok(Form::Operations),
        other => Err(Refused::Media(format!("a patch is {SHALLOW}, {MERGE} or {OPERATIONS}, not {other}"))),
    }
}

async fn write(here: &Here, asked: &Asked, change: Change, guard: Guard, expiry: Expiry) -> Done {
    let key = asked::key(&asked.head)?;
    let once = asked::once(asked)?;
    let shards = here.app.engine.shards();
    let shard = here.app.engine.shard_of(&key);
    claim(here, once.as_ref(), shard).await?;
    let ran = here
        .run_at(shard, true, move |keys, now| {
            let run = |keys: &mut Keyspace| {
                let Some(expire) = expiry.at(now) else {
                    return Err(Refused::bad("expiresAt has passed already"));
                };
                let changed = documents::change(keys, &key, &change, &guard.condition, expire, now)?;
                Ok(answer::changed(&key, changed, guard.status))
            };
            settled(at_most_once(once.as_ref(), keys, (shard, shards), now, run))
        })
        .await?;
    ran.map(|kept| answer::kept(&kept))
}

/// A result, and whether what it changed stays: what is refused has changed nothing, what is broken is undone.
pub(super) fn settled(result: Result<Kept, Refused>) -> (Result<Kept, Refused>, bool) {
    let keep = !matches!(result, Err(Refused::Broken(_)));
    (result, keep)
}

/// Takes the name of a request at the name's home, where that is not the shard of the change: a repeat with other keys may
/// belong to another shard, and still must be seen.
pub(super) async fn claim(here: &Here, once: Option<&Once>, shard: usize) -> Result<(), Refused> {
    let shards = here.app.engine.shards();
    let Some(once) = once.filter(|once| once.home(shards) != shard).cloned() else { return Ok(()) };
    let home = once.home(shards);
    let is_ours = here.run_at(home, true, move |keys, now| (once.claim(keys, shards, now), true)).await??;
    if is_ours { Ok(()) } else { Err(used_otherwise()) }
}

fn used_otherwise() -> Refused {
    Refused::Unprocessable("this Idempotency-Key was used for another request".to_owned())
}

/// Runs a request that has a name only if it has not run before; else gives its first answer again.
pub(super) fn at_most_once(
    once: Option<&Once>,
    keys: &mut Keyspace,
    place: (usize, usize),
    now: Millis,
    run: impl FnOnce(&mut Keyspace) -> Result<Kept, Refused>,
) -> Result<Kept, Refused> {
    let Some(once) = once else { return run(keys) };
    match once.look(keys, place, now)? {
        Known::Again(kept) => return Ok(kept),
        Known::Other => return Err(used_otherwise()),
        Known::New => {}
    }
    let kept = match run(keys) {
        Ok(kept) => kept,
        Err(Refused::Broken(error)) => return Err(Refused::Broken(error)),
        Err(refused) => refused.kept(),
    };
    once.keep(keys, place, &kept, now)?;
    Ok(kept)
}
