//! What the routes share: refusals before a handler runs, errors of the store, the token. Pure.
//!
//! The rows know who may call them, so every operation gets these answers from its row and cannot forget them.

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
use crate::http::reply::code;
use crate::http::routes::Access;
use crate::http::upstash;

/// The name of the schema of every refusal that has the form of the house.
pub(in crate::http) const ERROR: &str = "Error";

pub(in crate::http) const STRANGER: &str =
    "A token is set and was not brought, or a page of another site asks a server without one.";

pub(in crate::http) const FOREIGN_HOST: &str = "No token is set, and the request asks for another host than this machine: set one, or allow the name with `allowed-hosts`.";

const BEARER: &str = "bearer";
const QUERY: &str = "query";

/// How a token is brought.
pub(super) fn security_schemes() -> [(&'static str, SecurityScheme); 2] {
    let mut bearer = Http::new(HttpAuthScheme::Bearer);
    bearer.description =
        Some("The server's token, or its read-only token. None is needed where none is set.".to_owned());
    let query = ApiKeyValue::with_description(
        upstash::TOKEN,
        "The same in the query, for clients that cannot set headers. The header counts where both are there.",
    );
    [(BEARER, SecurityScheme::Http(bearer)), (QUERY, SecurityScheme::ApiKey(ApiKey::Query(query)))]
}

/// `{"error":{"code":"...","message":"..."}}`
pub(super) fn schemas() -> Vec<(&'static str, Shape)> {
    let codes: Vec<&str> =
        Code::ALL.iter().map(|code| code.as_str()).chain(code::ALL.iter().copied()).collect();
    let current = part::any_of([part::counter(1).into(), part::null().into()]);
    let inner = part::required(
        part::closed().property("current", current).property("operation", part::at_least(0)),
        [
            ("code", part::one_of(&codes).description(Some("Stable: programs decide by it.")).into()),
            ("message", part::string().description(Some("For people.")).into()),
        ],
    )
    .description(Some(
        "`current`: the version that is there, or null, where a condition did not hold. `operation`: which one of a batch, counted from 0.",
    ));
    vec![(ERROR, part::required(part::closed(), [("error", inner.into())]).into())]
}

/// A refusal in the form of the house, with one of these codes.
pub(in crate::http) fn refusal(about: &str, codes: &[&str]) -> ResponseBuilder {
    part::json(about, coded(codes))
}

/// The form of the house with one of these codes.
pub(in crate::http) fn coded(codes: &[&str]) -> Shape {
    let one = part::members([("code", part::one_of(codes).into())]);
    part::all_of([part::named(ERROR), part::members([("error", one.into())]).into()])
}

/// The name of a request that may be sent twice, where that is `about` what it does.
pub(in crate::http) fn idempotency_key(about: &str) -> Parameter {
    let name = part::string().min_length(Some(1)).max_length(Some(IDEMPOTENCY_KEY_BYTES_MAX));
    let about = format!(
        "The request's name: sent again, it is answered as before and {about}. StoredResponse for 24 hours."
    );
    part::in_header(IDEMPOTENCY_KEY.as_str(), &about, name)
}

/// The refusal of a name that another request has.
pub(in crate::http) const NAME_USED: &str = "The Idempotency-Key was used for another request.";

/// What is answered when the store is not well.
pub(in crate::http) fn store_failures() -> [Common; 2] {
    [
        (
            "500",
            "Broken",
            refusal(
                "A defect of the server, or data that is damaged.",
                &[Code::Internal.as_str(), Code::Corrupt.as_str(), Code::ConfigInvalid.as_str()],
            )
            .build(),
        ),
        ("503", "Unavailable", busy(&[Code::QueueFull.as_str(), Code::StoreUnavailable.as_str()])),
    ]
}

fn busy(codes: &[&str]) -> Response {
    let seconds = part::header("When to try again, in seconds: with `queue_full`.", part::at_least(1));
    refusal("Too much at once, or the store cannot be reached.", codes).header("Retry-After", seconds).build()
}

/// Everything that descriptions name as an answer.
pub(super) fn responses() -> Vec<Common> {
    let house = refusals().into_iter().chain([unauthorized()]).chain(store_failures());
    house.chain(upstash::openapi::refusals()).chain(upstash::openapi::store_failures()).collect()
}

/// Adds to an operation what its row answers before the handler runs, as far as it does not tell that itself.
pub(super) fn complete(operation: &mut Operation, access: Access) {
    let answers = match access {
        Access::Upstash => upstash::openapi::refusals(),
        Access::Open => refusals(),
        Access::Token | Access::Documents => {
            let mut answers = refusals();
            answers.push(unauthorized());
            answers
        }
    };
    for (status, name, _) in answers {
        let known = operation.responses.responses.entry(status.to_owned());
        known.or_insert_with(|| Ref::from_response_name(name).into());
    }
    let bearer = || SecurityRequirement::new(BEARER, [""; 0]);
    let query = || SecurityRequirement::new(QUERY, [""; 0]);
    // The empty one: a server without a token asks for none.
    operation.security = match access {
        Access::Open => Some(Vec::new()),
        Access::Token => Some(vec![bearer(), SecurityRequirement::default()]),
        Access::Upstash | Access::Documents => Some(vec![bearer(), query(), SecurityRequirement::default()]),
    };
}

fn unauthorized() -> Common {
    let scheme = part::fixed_header("How to bring it.", part::one_of(&["Bearer"]));
    let answer = refusal(STRANGER, &[code::UNAUTHORIZED]).header("WWW-Authenticate", scheme);
    ("401", "Unauthorized", answer.build())
}

fn refusals() -> Vec<Common> {
    vec![
        ("403", "Forbidden", refusal(FOREIGN_HOST, &[code::FORBIDDEN]).build()),
        ("408", "TimedOut", refusal(&too_slow(), &[code::TIMED_OUT]).build()),
        ("413", "TooLarge", refusal(&too_large(), &[Code::TooLarge.as_str()]).build()),
        ("431", "HeadersTooLarge", headers_too_large()),
        ("503", "Busy", busy(&[Code::QueueFull.as_str()])),
    ]
}

pub(in crate::http) fn too_slow() -> String {
    format!("The body did not arrive within {} seconds.", BODY_TIMEOUT.as_secs())
}

pub(in crate::http) fn too_large() -> String {
    format!("The body is over {BODY_BYTES_MAX} bytes, or there is one where none is taken.")
}

pub(in crate::http) fn headers_too_large() -> Response {
    part::answer(&format!(
        "The request line and the headers are over {HEADER_BYTES_MAX} bytes. The connection is closed."
    ))
    .build()
}
