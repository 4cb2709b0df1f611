//! The OpenAPI descriptions of the documents API. Pure.

use hyper::header::{IF_MATCH, IF_NONE_MATCH};
use keystead_commands::bounds::{JSON_DEPTH_MAX, PATCH_OPERATIONS_MAX};
use keystead_core::Code;
use keystead_core::bounds::KEY_BYTES_MAX;
use serde_json::json;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::path::{OperationBuilder, Parameter};
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::ObjectBuilder;

use super::super::events;
use super::super::openapi::common::{
    KEY_USED, coded, error_response, idempotency_key, moved, store_failures,
};
use super::super::openapi::part::{self, Shape};
use super::super::reply::code;
use super::list::{CURSOR, LINES, LISTING, WATCHING};
use super::params::name;
use super::{read, watch, write};
use crate::bounds::{BATCH_OPERATIONS_MAX, LIST_LIMIT_MAX, WAIT_MS_MAX};

pub(in super::super) const TAG: &str = "documents";

pub(in super::super) const KEY: &str = "Key";
/// An operation of a batch, or one that is written with a decision.
pub(in super::super) const OPERATION: &str = "Operation";
const DOCUMENT: &str = "Document";
const BATCH: &str = "Batch";
const RESULTS: &str = "Results";
const PATCH: &str = "JsonPatch";

/// Whole numbers with units.
const DURATION: &str = "([0-9]+(ms|s|m|h|d|w))+";
/// An entity tag, and several of them.
const ETAG: &str = r#"(W/)?"[!#-~]*""#;

const BAD: &str = Code::BadRequest.as_str();
const CONFLICT: &str = Code::Conflict.as_str();
const WRONG_TYPE: &str = Code::WrongType.as_str();
const TOO_LARGE: &str = Code::TooLarge.as_str();

pub(in super::super) fn schemas() -> Vec<(&'static str, Shape)> {
    let key = part::either([
        part::string().min_length(Some(1)).max_length(Some(KEY_BYTES_MAX)).into(),
        part::required(part::closed(), [("base64", base64().into())]).into(),
    ]);
    let document = part::required(
        part::closed().property(name::EXPIRES_AT, moment()),
        [("key", part::named(KEY)), ("value", part::anything().into()), ("version", part::counter(1).into())],
    )
    .description(Some("Numbers keep all their digits, members their order."));
    let absent = part::required(part::closed(), [("key", part::named(KEY))])
        .description(Some("A key without a document."));
    let result = part::either([part::named(DOCUMENT), absent.into()]);
    let results = part::required(part::closed(), [("results", part::list(result).into())]);
    vec![
        (KEY, key),
        (DOCUMENT, document.into()),
        (OPERATION, operation_schema()),
        (BATCH, batch_schema()),
        (RESULTS, results.into()),
        (PATCH, patch_schema()),
    ]
}

fn base64() -> ObjectBuilder {
    const DIGIT: &str = "[A-Za-z0-9+/]";
    let last = format!("{DIGIT}{{4}}|{DIGIT}[AQgw]==|{DIGIT}{{2}}[AEIMQUYcgkosw048]=");
    part::matching(&format!("^({DIGIT}{{4}})*({last})$"))
        .content_encoding("base64")
        .description(Some("A key that is not UTF-8."))
}

fn moment() -> ObjectBuilder {
    part::between(0, i64::MAX as u64).description(Some("In milliseconds since 1970."))
}

fn lifetime() -> ObjectBuilder {
    part::matching(&format!("^(none|keep|{DURATION})$"))
        .examples(["30s"])
        .description(Some("The time to live; `none`: no expiry; `keep`: unchanged."))
}

fn operation_schema() -> Shape {
    let version = part::any_of([part::counter(0).into(), part::null().into()]);
    let operation = |ops: &[&str]| {
        part::required(
            part::closed().property(name::IF_VERSION, version.clone()),
            [("op", part::one_of(ops).into()), ("key", part::named(KEY))],
        )
    };
    let reading = operation(&["get", "delete"]);
    // Both set the expiry. The builder has no method for `not`.
    let contradiction =
        Extensions::from_iter([("not", json!({ "required": [name::TTL, name::EXPIRES_AT] }))]);
    let writing = part::required(operation(&["put", "patch"]), [("value", part::anything().into())])
        .property(name::TTL, lifetime())
        .property(name::EXPIRES_AT, moment())
        .extensions(Some(contradiction));
    part::either([reading.into(), writing.into()])
}

fn batch_schema() -> Shape {
    let operations = part::list(part::named(OPERATION))
        .min_items(Some(1))
        .max_items(Some(BATCH_OPERATIONS_MAX))
        .description(Some(
            "All of them, or none. Their keys are on one shard. An `ifVersion` of null: the key must be absent.",
        ));
    part::required(part::closed(), [("operations", operations.into())]).into()
}

fn patch_schema() -> Shape {
    let pointer = || part::matching("^(/([^~/]|~[01])*)*$");
    let with_value = part::members([
        ("op", part::one_of(&["add", "replace", "test"]).into()),
        ("path", pointer().into()),
        ("value", part::anything().into()),
    ]);
    let remove = part::members([("op", part::one_of(&["remove"]).into()), ("path", pointer().into())]);
    let from = part::members([
        ("op", part::one_of(&["move", "copy"]).into()),
        ("from", pointer().into()),
        ("path", pointer().into()),
    ]);
    part::list(part::either([with_value.into(), remove.into(), from.into()]))
        .max_items(Some(PATCH_OPERATIONS_MAX))
        .description(Some("RFC 6902, all or nothing."))
        .into()
}

/// A parameter of the query. A test finds those without a description.
fn in_query(name: &str) -> Parameter {
    let (about, shape) = match name {
        name::IF_VERSION => ("The version that the document must have; another is 409.", part::counter(0)),
        name::FLUSHED => (
            "How long to wait until the change is in the target of each sink that has the key; `keystead-flushed` says whether it is.",
            wait(),
        ),
        name::TTL => ("The time to live. Not together with `expiresAt`.", lifetime()),
        name::EXPIRES_AT => ("When the document expires. It must not have passed.", moment()),
        name::WAIT => ("Waits so long for the next change: 304 if there was none.", wait()),
        name::SINCE_VERSION => (
            "With `wait`: the version that is known. Default: waits until the document exists.",
            part::counter(0),
        ),
        name::PREFIX => ("Only keys with this prefix.", part::string()),
        name::LIMIT => ("The maximum of a page. Default: all.", part::between(1, LIST_LIMIT_MAX as u64)),
        name::CURSOR => {
            ("Where the page begins: the header `keystead-cursor` of the last page.", part::counter(0))
        }
        name::VALUES => ("Documents instead of keys.", part::one_of(&["true", "false", ""])),
        _ => ("", part::string()),
    };
    part::in_query(name, about, shape)
}

fn wait() -> ObjectBuilder {
    part::matching(&format!("^{DURATION}$"))
        .examples(["10ms"])
        .description(Some(format!("At most {} seconds.", WAIT_MS_MAX / 1000)))
}

fn known(operation: OperationBuilder, names: &[&str]) -> OperationBuilder {
    names.iter().fold(operation, |operation, name| operation.parameter(in_query(name)))
}

fn key() -> Parameter {
    let about = "Any bytes, percent-encoded, also `/`.";
    part::in_path("key", about, part::string().min_length(Some(1)).max_length(Some(KEY_BYTES_MAX)))
}

fn tags() -> ObjectBuilder {
    part::matching(&format!(r"^(\*|{ETAG}( *, *{ETAG})*)$")).examples([r#""3""#])
}

fn if_match() -> Parameter {
    part::in_header(
        IF_MATCH.as_str(),
        "The versions that the document may have; `*`: any. Another is 412.",
        tags(),
    )
}

fn last_event_id() -> Parameter {
    let about = "With `Accept: text/event-stream`: the `id` of the last event that was received.";
    // Without a pattern: it is ignored where nothing is streamed.
    part::in_header(watch::LAST_EVENT_ID.as_str(), about, part::string())
}

/// Adds what all requests that write share.
fn changing(operation: OperationBuilder) -> OperationBuilder {
    operation
        .parameter(idempotency_key("changes nothing"))
        .response("403", error_response("The token may only read.", &[code::FORBIDDEN]))
}

/// Adds what all requests about one document share.
fn of_one(operation: OperationBuilder) -> OperationBuilder {
    let too_large = format!("The key is over {KEY_BYTES_MAX} bytes, or the body or document is too large.");
    finished(operation.parameter(key()).parameter(if_match()))
        .response("412", error_response("The condition of a header does not hold.", &[CONFLICT]))
        .response("413", error_response(&too_large, &[TOO_LARGE]))
}

/// Adds the responses that all requests share.
fn finished(operation: OperationBuilder) -> OperationBuilder {
    let bad = "The request is invalid, or its parts contradict each other.";
    let operation = operation.response("400", error_response(bad, &[BAD])).response("501", unsupported());
    part::with(part::with(operation, &store_failures()), &[moved()])
}

/// The error where `--documents-store` is set.
pub(in super::super) fn unsupported() -> ResponseBuilder {
    let about = "The documents are in a store (`documents-store`), which has no lists, batches, waiting, streams of changes and `Idempotency-Key`.";
    error_response(about, &[Code::Unsupported.as_str()])
}

fn writing(operation: OperationBuilder) -> OperationBuilder {
    let absent = "`*`: the document must not exist.";
    let operation =
        operation.parameter(part::in_header(IF_NONE_MATCH.as_str(), absent, part::one_of(&["*"])));
    of_one(changing(known(operation, write::WRITING)))
        .response("200", shown("It was changed."))
        .response("201", shown("It was created."))
        .response("409", conflict())
}

fn conflict() -> ResponseBuilder {
    error_response(
        "The condition of a parameter does not hold, with the current version; or the key holds a value that is not a document.",
        &[CONFLICT, WRONG_TYPE],
    )
}

fn shown(about: &str) -> ResponseBuilder {
    part::json(about, part::named(DOCUMENT)).header("ETag", etag())
}

fn etag() -> utoipa::openapi::header::Header {
    part::fixed_header("The version, in quotes.", part::matching(r#"^"[0-9]+"$"#))
}

fn not_found() -> ResponseBuilder {
    error_response("There is no such document.", &[code::NOT_FOUND])
}

fn gone() -> ResponseBuilder {
    error_response("The changes since that `Last-Event-ID` are no longer stored.", &[Code::Gone.as_str()])
}

fn events_text() -> utoipa::openapi::content::Content {
    let data = part::string().content_media_type(part::JSON).description(Some(
        "The document, or its key and version; `{}` when all keys were deleted (`flush`).",
    ));
    part::content(part::event(data, &["put", "delete", "change", "flush"]))
}

pub(in super::super) fn get() -> OperationBuilder {
    let operation = part::operation(
        TAG,
        "getDocument",
        "Reads a document, waits for its next change, or streams all changes",
    )
    .description(Some("`Accept: text/event-stream` streams; then there are no parameters in the query."))
    .parameter(part::in_header(IF_NONE_MATCH.as_str(), "Versions that are known: 304.", tags()))
    .parameter(last_event_id());
    of_one(known(operation, read::READING))
        .response("200", shown_or_streamed())
        .response("304", part::response("It has not changed.").header("ETag", etag()))
        .response("404", not_found())
        .response("409", error_response("The key holds a value that is not a document.", &[WRONG_TYPE]))
        .response("410", gone())
}

fn shown_or_streamed() -> ResponseBuilder {
    part::json("The document, or its changes.", part::named(DOCUMENT))
        .content(events::MEDIA, events_text())
        .header(
            "ETag",
            part::header("The version, in quotes. A stream has none.", part::matching(r#"^"[0-9]+"$"#)),
        )
}

pub(in super::super) fn put() -> OperationBuilder {
    let about = format!("Any JSON, nested at most {JSON_DEPTH_MAX} deep.");
    let any = part::content_like(part::anything(), json!({ "name": "Ada", "visits": 1 }));
    let operation = part::operation(TAG, "putDocument", "Replaces a document, or creates it")
        .description(Some("Clears the expiry, unless `ttl` or `expiresAt` say otherwise."))
        .request_body(Some(part::body(&about, [(write::SHALLOW, any)])))
        .response("422", unprocessable(KEY_USED));
    writing(operation)
}

pub(in super::super) fn patch() -> OperationBuilder {
    let forms = [
        (write::SHALLOW, part::content_like(part::anything(), json!({ "visits": 2 }))),
        (write::MERGE, part::content_like(part::anything(), json!({ "visits": null }))),
        (
            write::OPERATIONS,
            part::content_like(
                part::named(PATCH),
                json!([{ "op": "add", "path": "/tags", "value": ["new"] }]),
            ),
        ),
    ];
    let about = "As `application/json` two objects merge their top-level members; as a merge patch at all levels, and null removes (RFC 7396).";
    let operation = part::operation(TAG, "patchDocument", "Changes a document, or creates it")
        .description(Some("Keeps the expiry, unless `ttl` or `expiresAt` say otherwise."))
        .request_body(Some(part::body(about, forms)))
        .response(
            "404",
            error_response("There is no document that a JSON patch could change.", &[code::NOT_FOUND]),
        )
        .response("415", error_response("A patch of another type.", &[code::UNSUPPORTED_MEDIA_TYPE]))
        .response(
            "422",
            unprocessable(
                "The patch does not fit the document, or the Idempotency-Key was used for another request.",
            ),
        );
    writing(operation)
}

fn unprocessable(about: &str) -> ResponseBuilder {
    error_response(about, &[code::UNPROCESSABLE])
}

pub(in super::super) fn delete() -> OperationBuilder {
    let absent =
        part::in_header(IF_NONE_MATCH.as_str(), "`*`: the document must not exist.", part::one_of(&["*"]));
    let operation = part::operation(TAG, "deleteDocument", "Deletes a document").parameter(absent);
    of_one(changing(known(operation, write::DELETING)))
        .response("204", part::response("It was deleted."))
        .response("404", not_found())
        .response("409", conflict())
        .response("422", unprocessable(KEY_USED))
}

pub(in super::super) fn list() -> OperationBuilder {
    let item = part::any_of([part::named(KEY), part::named(DOCUMENT)]);
    let lines = part::string().description(Some("One object per line: `{\"key\":...}`, or a document."));
    let cursor = part::header("While more follows: where the next page begins.", part::counter(0));
    let found = part::json("All of them in no particular order, or their changes.", part::list(item))
        .content(LINES, part::content(lines))
        .content(events::MEDIA, events_text())
        .header(CURSOR.as_str(), cursor);
    let operation = part::operation(TAG, "listDocuments", "Lists the documents, or streams their changes")
        .description(Some(format!(
            "`Accept: text/event-stream` streams, and takes only: {}.",
            WATCHING.join(", ")
        )))
        .parameter(last_event_id());
    finished(known(operation, LISTING))
        .response("200", found)
        .response("403", error_response("A read-only token may not list all keys.", &[code::FORBIDDEN]))
        .response("410", gone())
}

pub(in super::super) fn batch() -> OperationBuilder {
    let example =
        json!({ "operations": [{ "op": "put", "key": "a", "value": 1 }, { "op": "get", "key": "a" }] });
    let operation = part::operation(TAG, "batch", "Runs several operations as one, all or nothing")
        .request_body(Some(part::body("", [(part::JSON, part::content_like(part::named(BATCH), example))])));
    let too_large = format!(
        "More than {BATCH_OPERATIONS_MAX} operations, or a key, a body or a response that is too large."
    );
    finished(changing(known(operation, &[name::FLUSHED])))
        .response("200", part::json("The result of each.", part::named(RESULTS)))
        .response("404", part::json("There is no document to delete.", coded(&[code::NOT_FOUND])))
        .response("409", conflict())
        .response("413", error_response(&too_large, &[TOO_LARGE]))
        .response("422", unprocessable(KEY_USED))
}
