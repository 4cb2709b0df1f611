//! The OpenAPI descriptions of offline sync. Pure.

use keystead_commands::bounds::{
    SYNC_CLIENT_BYTES_MAX, SYNC_FIELD_BYTES_MAX, SYNC_ITEMS_MAX, SYNC_RETENTION_MS, SYNC_SKEW_MS_MAX,
    SYNC_VALUE_BYTES_MAX,
};
use keystead_core::Code;
use serde_json::json;
use utoipa::openapi::path::OperationBuilder;
use utoipa::openapi::response::ResponseBuilder;

use super::super::events;
use super::super::kv::watch::LAST_EVENT_ID;
use super::super::kv::{self, openapi::KEY};
use super::super::openapi::common::{error_response, store_failures};
use super::super::openapi::part::{self, Shape};
use super::super::reply::code;
use super::items::{ID_MAX, name};
use super::pull::name as pulling;
use crate::bounds::SYNC_PULL_LIMIT_MAX;

pub(in super::super) const TAG: &str = "sync";

const PUSH: &str = "SyncRequest";
const RESULT: &str = "SyncResult";
const PAGE: &str = "SyncPage";

/// The words of a result.
const STATUSES: [&str; 5] = ["applied", "stale", "conflict", "refused", "retry"];

pub(in super::super) fn schemas() -> Vec<(&'static str, Shape)> {
    vec![(PUSH, request_schema()), (RESULT, result_schema()), (PAGE, page_schema())]
}

fn whole() -> utoipa::openapi::schema::ObjectBuilder {
    part::between(0, ID_MAX)
}

fn version() -> Shape {
    part::any_of([part::counter(1).into(), part::null().into()])
}

/// An item whose other members are invalid is a result, not an error, so their types are in words.
fn request_schema() -> Shape {
    let about = format!(
        "`{}`: the document. `{}`: the member of it (at most {SYNC_FIELD_BYTES_MAX} bytes); without it, all of it. `{}`: the new value (at most {SYNC_VALUE_BYTES_MAX} bytes), or `{}`: true. `{}`: when it was made, in milliseconds since 1970. `{}`: it only applies to this version, 0: to none. `{}`: the version that the client saw.",
        name::KEY,
        name::FIELD,
        name::VALUE,
        name::DELETE,
        name::TS,
        name::IF_VERSION,
        name::SEEN
    );
    let item = part::members([(name::ID, part::between(1, ID_MAX).into())]).description(Some(about));
    let client = part::matching(&format!("^[A-Za-z0-9._:-]{{1,{SYNC_CLIENT_BYTES_MAX}}}$"));
    part::required(
        part::closed().property("client_ts", whole()),
        [("client", client.into()), ("items", part::list(item).max_items(Some(SYNC_ITEMS_MAX)).into())],
    )
    .into()
}

fn result_schema() -> Shape {
    let error = part::required(
        part::closed().property("lastId", part::between(1, ID_MAX)),
        [("code", part::string().into()), ("message", part::string().into())],
    )
    .description(Some(
        "`lastId`: the last id of this client in the slot of the key, if that of the item was not greater.",
    ));
    let winner = part::required(
        part::closed()
            .property(name::VALUE, part::anything())
            .property("deleted", part::fixed_true())
            .property("omitted", part::fixed_true())
            .property(name::TS, part::counter(0))
            .property("client", part::string()),
        [("version", version())],
    )
    .description(Some(
        "The current value of the member or document, who wrote it and when, as far as that is known.",
    ));
    part::required(
        part::closed()
            .property("version", version())
            .property(name::TS, part::counter(0))
            .property("clamped", part::fixed_true())
            .property("again", part::fixed_true())
            .property("lost", part::list(part::string()))
            .property("winner", winner)
            .property("error", error),
        [(name::ID, part::between(1, ID_MAX).into()), ("status", part::one_of(&STATUSES).into())],
    )
    .description(Some(format!(
        "`stale`: a newer write won. `conflict`: `ifVersion`. `refused`: it can never be applied. `retry`: send it again. `clamped`: its time was over {} seconds ahead of the server's. `again`: it was settled before. `lost`: members that newer writes had changed.",
        SYNC_SKEW_MS_MAX / 1000
    )))
    .into()
}

fn page_schema() -> Shape {
    let document = part::required(
        part::closed().property("expiresAt", part::counter(0)),
        [("key", part::named(KEY)), ("value", part::anything().into()), ("version", part::counter(1).into())],
    );
    let deleted =
        part::required(part::closed(), [("key", part::named(KEY)), ("deleted", part::fixed_true().into())]);
    let change = part::either([document.into(), deleted.into()]);
    part::required(
        part::closed().property("reset", part::fixed_true()).property("complete", part::fixed_true()),
        [
            ("changes", part::list(change).into()),
            ("cursor", part::string().into()),
            ("more", part::boolean().into()),
            ("server_ts", whole().into()),
        ],
    )
    .description(Some("`reset` and `complete`: the first and the last page of a snapshot of everything."))
    .into()
}

fn bad() -> ResponseBuilder {
    error_response("The request is invalid.", &[Code::BadRequest.as_str()])
}

fn forbidden() -> ResponseBuilder {
    error_response("The token may only read, or is for another prefix.", &[code::FORBIDDEN])
}

pub(in super::super) fn push() -> OperationBuilder {
    let example = json!({
        "client": "c1",
        "client_ts": 1_700_000_000_000u64,
        "items": [{ "id": 1, "key": "todo:1", "field": "done", "value": true, "ts": 1_700_000_000_000u64 }],
    });
    let last = part::any_of([part::between(1, ID_MAX).into(), part::null().into()]);
    let results = part::required(
        part::closed().property("skew_ms", part::integer()),
        [("results", part::list(part::named(RESULT)).into()), ("lastId", last), ("server_ts", whole().into())],
    )
    .description(Some(
        "`lastId`: everything up to this id of the request is settled. `skew_ms`: how far the client's time is off, if that is much.",
    ));
    let days = SYNC_RETENTION_MS / (24 * 60 * 60 * 1000);
    let about = format!(
        "Sent again, it changes nothing and has the same results. An item that is invalid, or older than {days} days, is `refused`; the others are applied."
    );
    let operation = part::operation(TAG, "pushSync", "Applies edits that a client made offline")
        .description(Some(about))
        .request_body(Some(part::body(
            "The edits.",
            [(part::JSON, part::content_like(part::named(PUSH), example))],
        )))
        .response("200", part::json("What became of each of them.", results))
        .response(
            "400",
            error_response("The request is invalid.", &[Code::BadRequest.as_str(), code::TOO_MANY_ITEMS]),
        )
        .response("403", forbidden())
        .response("501", kv::openapi::unsupported());
    part::with(operation, &store_failures())
}

pub(in super::super) fn pull() -> OperationBuilder {
    let since =
        "The `cursor` of the last page. Without it, or if it is no longer valid: a snapshot of everything.";
    let data = part::string().content_media_type(part::JSON).description(Some(
        "The document, or its key and version; `{}` when all keys were deleted (`flush`).",
    ));
    let stream = part::content(part::event(data, &["put", "delete", "change", "flush"]));
    let operation =
        part::operation(TAG, "pullSync", "The changes since a client's last visit, or as they happen")
            .description(Some("`Accept: text/event-stream` streams; the ids of events are cursors."))
            .parameter(part::in_query(pulling::SINCE, since, part::string()))
            .parameter(part::in_query(pulling::PREFIX, "Only keys with this prefix.", part::string()))
            .parameter(part::in_query(
                pulling::LIMIT,
                "The maximum of a page.",
                part::between(1, SYNC_PULL_LIMIT_MAX as u64),
            ))
            .parameter(part::in_header(
                LAST_EVENT_ID.as_str(),
                "With `Accept: text/event-stream`: the `id` of the last event that was received.",
                part::string(),
            ))
            .response("200", part::json("A page.", part::named(PAGE)).content(events::MEDIA, stream))
            .response("400", bad())
            .response("403", forbidden())
            .response(
                "410",
                error_response("The changes since then are no longer stored.", &[Code::Gone.as_str()]),
            )
            .response("501", kv::openapi::unsupported());
    part::with(operation, &store_failures())
}
