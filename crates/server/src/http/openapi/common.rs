//! What the routes share: errors before a handler runs, errors of the store, the token. Pure.
//!
//! A row says who may call it, so every operation gets these responses from its row.

use keystead_core::Code;
use utoipa::openapi::Ref;
use utoipa::openapi::path::{Operation, Parameter};
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityRequirement, SecurityScheme,
};

use super::part::{self, Common, Shape};
use crate::bounds::{BODY_BYTES_MAX, BODY_TIMEOUT, HEADER_BYTES_MAX, IDEMPOTENCY_KEY_BYTES_MAX};
use crate::http::idempotency::IDEMPOTENCY_KEY;
use crate::http::reply::{self, code};
use crate::http::routes::Access;
use crate::http::upstash;

/// The name of the schema of all errors, except those of the Upstash-compatible API.
pub(in crate::http) const ERROR: &str = "Error";

pub(in crate::http) const UNAUTHORIZED: &str = "A token is set and was not sent, or the server has no token and a page of another site sent the request.";

pub(in crate::http) const FOREIGN_HOST: &str = "No token is set, and the `Host` of the request is not this machine: set one, or allow the name with `allowed-hosts`.";

const BEARER: &str = "bearer";
const QUERY: &str = "query";

/// How a token is sent.
pub(super) fn security_schemes() -> [(&'static str, SecurityScheme); 2] {
    let mut bearer = Http::new(HttpAuthScheme::Bearer);
    bearer.description =
        Some("The server's token, or its read-only token. Only needed if one is set.".to_owned());
    let query = ApiKeyValue::with_description(
        upstash::TOKEN,
        "The same in the query, for clients that cannot set headers. The header is used if both are present.",
    );
    [(BEARER, SecurityScheme::Http(bearer)), (QUERY, SecurityScheme::ApiKey(ApiKey::Query(query)))]
}

/// `{"error":{"code":"...","message":"..."}}`
pub(super) fn schemas() -> Vec<(&'static str, Shape)> {
    let codes: Vec<&str> =
        Code::ALL.iter().map(|code| code.as_str()).chain(code::ALL.iter().copied()).collect();
    let current = part::any_of([part::counter(1).into(), part::null().into()]);
    let inner = part::required(
        part::closed()
            .property("current", current)
            .property("operation", part::at_least(0))
            .property("slot", part::at_least(0))
            .property("node", part::string())
            .property("owner", part::string())
            .property("epoch", part::at_least(1))
            .property("outcome", part::one_of(&[reply::UNKNOWN])),
        [
            ("code", part::one_of(&codes).description(Some("Stable, for programs.")).into()),
            ("message", part::string().description(Some("For people.")).into()),
        ],
    )
    .description(Some(
        "`current`: the current version, or null, if a condition did not hold. `operation`: the index in the batch, from 0. `slot`, `node`, `owner` and `epoch`: which node of the cluster owns the key, its URL, and the epoch of the slot table. `outcome`: present if a change may or may not have happened; otherwise nothing has changed.",
    ));
    vec![(ERROR, part::required(part::closed(), [("error", inner.into())]).into())]
}

/// An error response with one of these codes.
pub(in crate::http) fn error_response(about: &str, codes: &[&str]) -> ResponseBuilder {
    part::json(about, coded(codes))
}

/// The schema of an error with one of these codes.
pub(in crate::http) fn coded(codes: &[&str]) -> Shape {
    let one = part::members([("code", part::one_of(codes).into())]);
    part::all_of([part::named(ERROR), part::members([("error", one.into())]).into()])
}

/// The `Idempotency-Key` header; `about`: what a repeated request does not do.
pub(in crate::http) fn idempotency_key(about: &str) -> Parameter {
    let name = part::string().min_length(Some(1)).max_length(Some(IDEMPOTENCY_KEY_BYTES_MAX));
    let about = format!(
        "Makes the request idempotent: sent again with the same key, it gets the same response and {about}. The key is stored for 24 hours."
    );
    part::in_header(IDEMPOTENCY_KEY.as_str(), &about, name)
}

/// The error for a key that another request used.
pub(in crate::http) const KEY_USED: &str = "The Idempotency-Key was used for another request.";

/// The error for a change that could add memory.
pub(in crate::http) const OUT_OF_MEMORY: &str =
    "The memory limit is reached. What exists can be read and deleted, which makes room.";

/// The errors of the store.
pub(in crate::http) fn store_failures() -> [Common; 3] {
    [
        (
            "500",
            "Broken",
            error_response(
                "A defect of the server, or corrupt data.",
                &[Code::Internal.as_str(), Code::Corrupt.as_str(), Code::ConfigInvalid.as_str()],
            )
            .build(),
        ),
        (
            "503",
            "Unavailable",
            busy(&[
                Code::QueueFull.as_str(),
                Code::StoreUnavailable.as_str(),
                Code::TryAgain.as_str(),
                code::LOADING,
            ]),
        ),
        ("507", "OutOfMemory", error_response(OUT_OF_MEMORY, &[Code::OutOfMemory.as_str()]).build()),
    ]
}

/// The error of a node of a cluster for a key of another one.
pub(in crate::http) fn moved() -> Common {
    let url = part::header("The URL of the node that owns the key.", part::string());
    let epoch = part::header("The epoch of the slot table that says so.", part::at_least(1));
    let response = error_response("Another node of the cluster owns the key.", &[code::MOVED])
        .header("Keystead-Owner", url)
        .header("Keystead-Epoch", epoch);
    ("421", "Moved", response.build())
}

fn busy(codes: &[&str]) -> Response {
    let seconds =
        part::header("When to try again, in seconds: with `queue_full` and `loading`.", part::at_least(1));
    error_response("Too many requests at a time, or the store is unavailable or being loaded.", codes)
        .header("Retry-After", seconds)
        .build()
}

/// All responses that descriptions refer to by name.
pub(super) fn responses() -> Vec<Common> {
    let own = request_errors().into_iter().chain([unauthorized(), moved()]).chain(store_failures());
    own.chain(upstash::openapi::request_errors()).chain(upstash::openapi::store_failures()).collect()
}

/// Adds to an operation the errors before its handler runs, unless it describes them itself.
pub(super) fn complete(operation: &mut Operation, access: Access) {
    let responses = match access {
        Access::Upstash => upstash::openapi::request_errors(),
        Access::Open => request_errors(),
        Access::Token | Access::Documents | Access::Sync => {
            let mut responses = request_errors();
            responses.push(unauthorized());
            responses
        }
    };
    for (status, name, _) in responses {
        let known = operation.responses.responses.entry(status.to_owned());
        known.or_insert_with(|| Ref::from_response_name(name).into());
    }
    let bearer = || SecurityRequirement::new(BEARER, [""; 0]);
    let query = || SecurityRequirement::new(QUERY, [""; 0]);
    // The empty one: a server without a token needs none.
    operation.security = match access {
        Access::Open => Some(Vec::new()),
        Access::Token => Some(vec![bearer(), SecurityRequirement::default()]),
        Access::Upstash | Access::Documents | Access::Sync => {
            Some(vec![bearer(), query(), SecurityRequirement::default()])
        }
    };
}

fn unauthorized() -> Common {
    let scheme = part::fixed_header("How to send it.", part::one_of(&["Bearer"]));
    let response = error_response(UNAUTHORIZED, &[code::UNAUTHORIZED]).header("WWW-Authenticate", scheme);
    ("401", "Unauthorized", response.build())
}

fn request_errors() -> Vec<Common> {
    vec![
        ("403", "Forbidden", error_response(FOREIGN_HOST, &[code::FORBIDDEN]).build()),
        ("408", "TimedOut", error_response(&too_slow(), &[code::TIMED_OUT]).build()),
        ("413", "TooLarge", error_response(&too_large(), &[Code::TooLarge.as_str()]).build()),
        ("431", "HeadersTooLarge", headers_too_large()),
        ("503", "Busy", busy(&[Code::QueueFull.as_str(), code::LOADING])),
    ]
}

pub(in crate::http) fn too_slow() -> String {
    format!("The body did not arrive within {} seconds.", BODY_TIMEOUT.as_secs())
}

pub(in crate::http) fn too_large() -> String {
    format!("The body is over {BODY_BYTES_MAX} bytes, or the route takes none.")
}

pub(in crate::http) fn headers_too_large() -> Response {
    part::response(&format!(
        "The request line and the headers are over {HEADER_BYTES_MAX} bytes. The connection is closed."
    ))
    .build()
}
