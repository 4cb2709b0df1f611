//! `/sinks`: the sinks of the object, and flushing one now. Touches the object's storage and D1.

use std::time::Duration;

use http::{Method, StatusCode};
use keystead_commands::ctx::Rights;
use keystead_core::{Code, Error};
use keystead_http_api::error::ApiError;
use keystead_http_api::parameters::Parameters;
use keystead_http_api::written;
use serde_json::{Value, json};
use worker::Delay;

use super::Buffer;
use super::flush::Flushed;
use crate::bounds::FLUSH_BATCHES_MAX;
use crate::database::now;
use crate::exchange::{JSON, Reply};
use crate::kv::ApiResult;
use crate::object::{Arrived, Database};

/// How long a request waits before it looks again whether another one has written its batch.
const BUSY_MS: u64 = 20;

const PATHS: &str = "the paths are /sinks, /sinks/NAME, /sinks/NAME/quarantine, and with POST /sinks/NAME/flush, /retry and /resync";

pub(crate) async fn respond(object: &Database, request: &Arrived<'_>) -> Reply {
    let replied = answer(object, request).await;
    replied.unwrap_or_else(|error| Reply::api_error(&error))
}

async fn answer(object: &Database, request: &Arrived<'_>) -> ApiResult {
    Parameters::of(request.head, &[])?;
    let path: Vec<&str> = request.head.uri.path().split('/').skip(2).collect();
    let is_read = matches!(request.head.method, Method::GET | Method::HEAD);
    let buffers = object.buffers()?;
    let find = |name: &str| {
        buffers.iter().find(|one| one.definition.name == name).ok_or_else(|| {
            ApiError::NotFound(format!("there is no sink '{name}': sinks are in the variable SINKS"))
        })
    };
    if !is_read && request.rights != Rights::All {
        return Err(ApiError::ReadOnly);
    }
    let body = match (path.as_slice(), is_read) {
        ([] | [""], true) => {
            let all: Vec<Value> =
                buffers.iter().map(|one| summary(object, one)).collect::<Result<_, Error>>()?;
            json!({ "sinks": all })
        }
        ([name], true) => summary(object, find(name)?)?,
        ([name, "quarantine"], true) => quarantine(object, find(name)?)?,
        ([name, "flush"], false) => flush(object, find(name)?).await?,
        ([name, "retry"], false) => {
            let keys = object.pending(find(name)?, |pending| pending.retry(now()))?;
            object.wake_for_sinks()?;
            json!({ "keys": keys })
        }
        ([name, "resync"], false) => {
            object.begin_anew(find(name)?).await?;
            object.wake_for_sinks()?;
            summary(object, find(name)?)?
        }
        _ => return Err(ApiError::NotFound(PATHS.to_owned())),
    };
    Ok(Reply::new(StatusCode::OK, JSON, format!("{body}\n").into_bytes()))
}

fn summary(object: &Database, buffer: &Buffer) -> Result<Value, Error> {
    let (definition, now) = (&buffer.definition, now());
    object.pending(buffer, |pending| {
        let (state, oldest) = (pending.state()?, pending.oldest()?);
        Ok(json!({
            "name": definition.name,
            "target": format!("d1:{}", definition.binding),
            "table": definition.layout.table,
            "prefix": definition.layout.prefix,
            "mode": "write-back",
            "pending": pending.count()?,
            "oldestPendingMs": oldest.map_or(0, |since| now.0.saturating_sub(since.0)),
            "rows": state.rows,
            "batches": state.batch,
            "lastFlushMs": state.flushed_at.map(|at| at.0),
            "quarantined": pending.quarantined()?,
            "resyncing": state.resync.is_some(),
            "failures": state.failures,
            "problem": state.problem.map(|message| json!({ "message": message })),
        }))
    })
}

fn quarantine(object: &Database, buffer: &Buffer) -> Result<Value, Error> {
    let cases = object.pending(buffer, |pending| pending.cases())?;
    let keys = cases.iter().map(|(key, reason, attempts, since)| {
        json!({ "key": written::shown(key), "reason": reason, "attempts": attempts, "sinceMs": since })
    });
    Ok(json!({ "keys": keys.collect::<Vec<_>>() }))
}

/// Writes what waits, until nothing does.
async fn flush(object: &Database, buffer: &Buffer) -> Result<Value, ApiError> {
    for _ in 0..FLUSH_BATCHES_MAX {
        match object.flush(buffer).await {
            Ok(Flushed::All) => return Ok(summary(object, buffer)?),
            Ok(Flushed::Some) => {}
            Ok(Flushed::Busy) => Delay::from(Duration::from_millis(BUSY_MS)).await,
            Err(error) => {
                object.wake_for_sinks()?;
                let words = format!("not everything reached D1: {}", error.message());
                return Err(Error::new(Code::StoreUnavailable, words).into());
            }
        }
    }
    object.wake_for_sinks()?;
    Err(Error::new(Code::StoreUnavailable, "not everything reached D1 yet: it goes on by itself").into())
}
