//! `PUT`, `PATCH` and `DELETE /kv/{key}?ifVersion=N&ttl=30s`. Touches the shard of the key.

use hyper::header::{CONTENT_TYPE, HeaderMap};
use keystead_commands::documents::patch::{Form, Patch};
use keystead_commands::documents::{self, Change};
use keystead_commands::json::document;
use keystead_core::Millis;
use keystead_model::Bytes;
use keystead_model::keyspace::Expire;

use super::super::here::Here;
use super::super::once;
use super::super::parameters::Parameters;
use super::super::refused::Refused;
use super::super::reply;
use super::super::request::Asked;
use super::Done;
use super::answer;
use super::asked::{self, Expiry, Guard, name};

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
    let shard = here.app.engine.shard_of(&key);
    let ran = once::run_at(here, shard, once, move |keys, now| {
        let Some(expire) = expiry.at(now) else {
            return Ok((Refused::bad("expiresAt has passed already").kept(), ()));
        };
        let changed = documents::change(keys, &key, &change, &guard.condition, expire, now);
        let answered = changed.map(|changed| answer::changed(&key, changed, guard.status));
        answered.or_else(|miss| Refused::from(miss).unless_broken()).map(|kept| (kept, ()))
    });
    let (kept, ()) = ran.await?;
    Ok(reply::kept(kept))
}
