//! `POST /admin/backup` with `{"dir":"/an/absolute/path"}`: a consistent copy of the running database. Touches a
//! directory of the server's file system, through the engine.
//!
//! The response is `{"dir":"...","revisions":[...],"bytes":N}`, one revision a shard.

use std::path::{Path, PathBuf};

use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use keystead_commands::json::document;
use keystead_core::{Code, Error, Result};
use keystead_engine::{Durability, Engine};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use utoipa::openapi::path::OperationBuilder;

use super::context::HttpContext;
use super::openapi::SERVER;
use super::openapi::common::{error_response, store_failures};
use super::openapi::part;
use super::reply::{self, Reply};
use super::request::HttpRequest;
use crate::functions;

pub(super) async fn backup(context: &HttpContext, request: &HttpRequest) -> Reply {
    match run(context, request).await {
        Ok(body) => reply::json(StatusCode::OK, body),
        Err(error) => reply::error(&error),
    }
}

pub(super) fn describe() -> OperationBuilder {
    let dir = || part::matching("^/").description(Some("A directory of the server's machine."));
    let wanted =
        part::content_like(part::members([("dir", dir().into())]), json!({ "dir": "/backups/today" }));
    let copied = part::required(
        part::closed(),
        [
            ("dir", dir().into()),
            ("revisions", part::list(part::counter(0)).into()),
            ("bytes", part::counter(0).into()),
        ],
    );
    let unsupported = "A database with durability `memory` has no files to copy.";
    let operation = part::operation(SERVER, "backup", "Copies the running database into an empty directory")
        .request_body(Some(part::body("Where to.", [(part::JSON, wanted)])))
        .response("200", part::json("The copy, with the revision of each shard.", copied))
        .response(
            "400",
            error_response(
                "The directory is not empty, or its path is not absolute.",
                &[Code::BadRequest.as_str()],
            ),
        )
        .response("501", error_response(unsupported, &[Code::Unsupported.as_str()]));
    part::with(operation, &store_failures())
}

async fn run(context: &HttpContext, request: &HttpRequest) -> Result<Value> {
    let dir = dir_of(&request.head.headers, &request.body)?;
    let (engine, runtime) = (context.app.engine.clone(), Handle::current());
    let functions =
        (context.app.settings.durability != Durability::Memory).then(|| context.app.settings.data.clone());
    // A thread of its own, because the copy is synced; it continues when the client disconnects.
    let copying = tokio::task::spawn_blocking(move || copy(&engine, &runtime, functions.as_deref(), &dir));
    copying
        .await
        .unwrap_or_else(|e| Err(Error::unknown(Code::Internal, format!("the backup was aborted: {e}"))))
}

/// `data`: the directory of the function libraries. They are copied last, so that a copied key never needs a function that is missing.
fn copy(engine: &Engine, runtime: &Handle, data: Option<&Path>, dir: &Path) -> Result<Value> {
    let copied = runtime.block_on(engine.backup(dir)).and_then(|revisions| {
        if let Some(dump) = data.map_or(Ok(None), functions::load)? {
            functions::save(dir, &dump)?;
        }
        Ok(revisions.into_iter().map(|revision| revision.0).collect::<Vec<u64>>())
    });
    match &copied {
        Ok(revisions) => tracing::info!(dir = %dir.display(), ?revisions, "backup"),
        Err(error) => tracing::warn!(dir = %dir.display(), %error, "backup failed"),
    }
    let revisions = copied?;
    let bytes = size_of(dir)
        .map_err(|e| Error::new(Code::StoreUnavailable, "the copy cannot be read back").with_source(e))?;
    Ok(json!({ "dir": dir, "revisions": revisions, "bytes": bytes }))
}

fn dir_of(headers: &HeaderMap, body: &[u8]) -> Result<PathBuf> {
    let bad = |why: &str| {
        Err(Error::new(
            Code::BadRequest,
            format!("{why}: send {{\"dir\":\"/an/absolute/path\"}} as application/json"),
        ))
    };
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    // A page in a browser on this machine can send requests to loopback, but this media type only after a preflight request.
    if !media.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json") {
        return bad("the body is not declared as JSON");
    }
    let Ok(body) = document::parse(body) else {
        return bad("the body is not JSON");
    };
    match body["dir"].as_str().map(PathBuf::from) {
        // A relative path would depend on the server's working directory.
        Some(dir) if dir.is_absolute() => Ok(dir),
        Some(_) => bad("the directory is not an absolute path"),
        None => bad("the body names no directory"),
    }
}

/// Bytes of all files below a directory.
fn size_of(dir: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let (entry, meta) = entry.and_then(|entry| entry.metadata().map(|meta| (entry, meta)))?;
        bytes += if meta.is_dir() { size_of(&entry.path())? } else { meta.len() };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(media: &str, body: &'static str) -> Result<PathBuf> {
        dir_of(&HeaderMap::from_iter([(CONTENT_TYPE, media.parse().unwrap())]), body.as_bytes())
    }

    #[test]
    fn only_an_absolute_path_in_declared_json_is_taken() {
        const GOOD: &str = r#"{"dir":"/a/b"}"#;
        for media in ["application/json", "Application/JSON; charset=utf-8"] {
            assert_eq!(request(media, GOOD).unwrap(), Path::new("/a/b"));
        }
        for (media, body, why) in [
            ("text/plain", GOOD, "not declared as JSON"),
            ("application/json", "dir=/a", "not JSON"),
            ("application/json", r#"{"dir":"a/b"}"#, "not an absolute path"),
            ("application/json", r#"{"dir":""}"#, "not an absolute path"),
            ("application/json", r#"{"to":"/a"}"#, "names no directory"),
            ("application/json", r#"{"dir":7}"#, "names no directory"),
            ("application/json", "[]", "names no directory"),
        ] {
            let error = request(media, body).unwrap_err();
            assert_eq!(error.code(), Code::BadRequest);
            assert!(error.message().contains(why), "{error}");
        }
    }
}
