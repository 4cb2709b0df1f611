//! The OpenAPI descriptions of the limits API. Pure.

use keystead_core::Code;
use keystead_core::bounds::KEY_BYTES_MAX;
use keystead_limit::bounds::{CHECK_MANY_MAX, COMBINED_MAX, WHOLE_MAX};
use serde_json::{Value, json};
use utoipa::openapi::path::{OperationBuilder, Parameter};
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Type};

use super::super::kv::openapi::{KEY, OPERATION, unsupported};
use super::super::openapi::common::{KEY_USED, error_response, idempotency_key, moved, store_failures};
use super::super::openapi::part::{self, Shape};
use super::super::reply::code;
use super::params;
use crate::bounds::{POLICY_NAME_BYTES_MAX, RESERVATION_MS, RESERVATION_MS_MAX, THEN_MAX};

pub(in super::super) const TAG: &str = "limits";

const DECISION: &str = "Decision";
const POLICY: &str = "Policy";

const BAD: &str = Code::BadRequest.as_str();
const WRONG_TYPE: &str = Code::WrongType.as_str();

pub(in super::super) fn schemas() -> Vec<(&'static str, Shape)> {
    let decision = part::members([
        ("allowed", yes_or_no().into()),
        ("limit", whole(0).description(Some("The effective limit.")).into()),
        ("remaining", whole(0).description(Some("Whole units that are left.")).into()),
        (
            "resetAt",
            whole(0)
                .description(Some("When the limit is fully replenished, in milliseconds since 1970."))
                .into(),
        ),
        ("retryAfterMs", whole(0).description(Some("0 exactly when it is allowed.")).into()),
    ])
    .property(
        "delayMs",
        whole(0).description(Some("Of a `leakyBucket`: how long to delay an allowed request.")),
    )
    .property("leaseId", whole(1).description(Some("Of `concurrency`: the lease to release.")))
    .property("failedOpen", yes_or_no().description(Some("The store failed, and nothing was counted.")))
    .description(Some("More members may be added."));
    let count = || part::counter(0);
    let denied = part::members([("key", part::named(KEY)), ("denied", count().into())]);
    let policy = part::members([
        ("name", name().into()),
        ("kind", part::string().into()),
        ("limit", whole(0).into()),
        ("windowMs", count().into()),
        ("store", part::string().description(Some("A word, or the scheme of a URL.")).into()),
        ("fail", part::one_of(&["open", "closed"]).into()),
        ("definition", ObjectBuilder::new().schema_type(Type::Object).into()),
        ("allowed", count().into()),
        ("denied", count().into()),
        (
            "failedOpen",
            part::counter(0).description(Some("Allowed because the store failed; in no other count.")).into(),
        ),
        ("errors", count().into()),
        ("storeBroken", yes_or_no().description(Some("Its own store failed at the last check.")).into()),
    ])
    .property("topDenied", part::list(denied));
    vec![(DECISION, decision.into()), (POLICY, policy.into())]
}

fn yes_or_no() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Boolean)
}

fn whole(least: u64) -> ObjectBuilder {
    part::between(least, WHOLE_MAX)
}

fn name() -> ObjectBuilder {
    part::matching("^[A-Za-z0-9._-]+$").max_length(Some(POLICY_NAME_BYTES_MAX))
}

fn cost() -> ObjectBuilder {
    whole(1).description(Some("Units; 1 by default."))
}

fn policy_in_path() -> Parameter {
    part::in_path("policy", "A policy of the settings file.", name())
}

fn key_in_path() -> Parameter {
    let about = "Any bytes, percent-encoded, also `/`.";
    part::in_path("key", about, part::string().min_length(Some(1)).max_length(Some(KEY_BYTES_MAX)))
}

fn status() -> Parameter {
    part::in_query(params::STATUS, "The status of a denial.", part::one_of(&["200", "429"]))
}

/// Adds the responses that all requests share.
fn finished(operation: OperationBuilder) -> OperationBuilder {
    let bad = "The request is invalid, or its parts contradict each other.";
    let operation = operation.response("400", error_response(bad, &[BAD]));
    part::with(part::with(operation, &store_failures()), &[moved()])
}

/// Adds what all requests about a policy share.
fn of_policy(operation: OperationBuilder) -> OperationBuilder {
    finished(operation.parameter(policy_in_path())).response(
        "404",
        error_response("There is no such policy, action or reservation.", &[code::NOT_FOUND]),
    )
}

/// Adds what all requests about keys of a policy share.
fn of_keys(operation: OperationBuilder) -> OperationBuilder {
    let too_large = format!("A key is over {KEY_BYTES_MAX} bytes with its prefix, or the body is too large.");
    of_policy(operation)
        .response("409", error_response("The key holds a value of another type.", &[WRONG_TYPE]))
        .response("413", error_response(&too_large, &[Code::TooLarge.as_str()]))
}

/// Adds what all requests that consume share.
fn changing(operation: OperationBuilder) -> OperationBuilder {
    operation
        .parameter(idempotency_key("consumes nothing; its policies must be on the store `engine`"))
        .response("403", error_response("The token may only read.", &[code::FORBIDDEN]))
        .response("422", error_response(KEY_USED, &[code::UNPROCESSABLE]))
}

/// Adds the responses with a decision.
fn deciding(operation: OperationBuilder, shape: impl Into<Shape>) -> OperationBuilder {
    let shape = shape.into();
    operation
        .parameter(status())
        .response("200", with_headers(part::json("The decision.", shape.clone())))
        .response("429", with_headers(part::json("A denial, if the query sets this status.", shape)))
}

fn with_headers(response: ResponseBuilder) -> ResponseBuilder {
    let seconds = || part::string().pattern(Some("^[0-9]+$"));
    let response = response.header("Retry-After", part::header("Of a denial, in seconds.", seconds()));
    ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "RateLimit-Policy", "RateLimit"]
        .into_iter()
        .fold(response, |response, name| {
            response.header(name, part::header("If the policy has it.", part::string()))
        })
}

fn asking(operation: OperationBuilder, body: impl Into<Shape>, example: Value) -> OperationBuilder {
    operation.request_body(Some(part::body("", [(part::JSON, part::content_like(body, example))])))
}

fn with_key() -> ObjectBuilder {
    part::required(part::closed(), [("key", part::named(KEY))])
}

pub(in super::super) fn list() -> OperationBuilder {
    let problem = part::any_of([part::string().into(), part::null().into()]);
    let all = part::members([("policies", part::list(part::named(POLICY)).into()), ("problem", problem)])
        .description(Some("`problem`: why the current settings file was rejected."));
    let operation = part::operation(TAG, "listPolicies", "Lists the active policies and their counts");
    finished(operation).response("200", part::json("All policies.", all))
}

pub(in super::super) fn policy() -> OperationBuilder {
    let operation = part::operation(TAG, "getPolicy", "Returns a policy and the keys that were denied most");
    of_policy(operation).response("200", part::json("The policy.", part::named(POLICY)))
}

pub(in super::super) fn peek() -> OperationBuilder {
    let operation = part::operation(TAG, "peekLimit", "Returns the state of a key, and consumes nothing");
    deciding(of_keys(operation.parameter(key_in_path())), part::named(DECISION))
}

pub(in super::super) fn reset() -> OperationBuilder {
    let reset = part::members([("reset", yes_or_no().into())]);
    let operation = part::operation(TAG, "resetLimit", "Resets a key")
        .parameter(key_in_path())
        .response("403", error_response("The token may only read.", &[code::FORBIDDEN]))
        .response("200", part::json("Whether the key had a state.", reset));
    of_keys(operation)
}

pub(in super::super) fn check() -> OperationBuilder {
    let peek = yes_or_no().description(Some("Only returns the state, and consumes nothing."));
    let body = with_key().property("cost", cost()).property("peek", peek);
    let operation = part::operation(TAG, "checkLimit", "Checks a key, and consumes if it is allowed");
    let operation = asking(operation, body, json!({ "key": "ada", "cost": 1 }));
    deciding(of_keys(changing(operation)), part::named(DECISION))
}

pub(in super::super) fn check_many() -> OperationBuilder {
    let keys = part::list(with_key().property("cost", cost())).max_items(Some(CHECK_MANY_MAX));
    let body = part::required(part::closed(), [("keys", keys.into())]);
    let decisions = part::members([("decisions", part::list(part::named(DECISION)).into())]);
    let operation = part::operation(TAG, "checkLimits", "Checks many keys at one instant");
    let operation =
        asking(operation, body, json!({ "keys": [{ "key": "ada" }, { "key": "bob", "cost": 2 }] }));
    of_keys(changing(operation)).response("200", part::json("The decisions, in order.", decisions))
}

pub(in super::super) fn acquire() -> OperationBuilder {
    let lease = whole(1).description(Some("A lease that is held and shall be renewed."));
    let operation = part::operation(TAG, "acquireLease", "Acquires a lease of a `concurrency` policy");
    let operation = asking(operation, with_key().property("leaseId", lease), json!({ "key": "export" }));
    deciding(of_keys(changing(operation)), part::named(DECISION))
}

pub(in super::super) fn release() -> OperationBuilder {
    let body = part::required(with_key(), [("leaseId", whole(1).into())]);
    let released = part::members([("released", yes_or_no().into())]);
    let operation = part::operation(TAG, "releaseLease", "Releases a lease of a `concurrency` policy");
    let operation = asking(operation, body, json!({ "key": "export", "leaseId": 1 }));
    of_keys(changing(operation)).response("200", part::json("Whether it was still held.", released))
}

pub(in super::super) fn reserve() -> OperationBuilder {
    let ttl = part::between(1, RESERVATION_MS_MAX)
        .description(Some(format!("How long it may stay unsettled; {RESERVATION_MS} by default.")));
    let body = part::required(with_key().property("ttlMs", ttl), [("cost", whole(1).into())]);
    let reservation = part::members([
        ("id", whole(1).into()),
        ("cost", whole(1).into()),
        ("expiresAt", part::counter(0).into()),
    ]);
    let more = ObjectBuilder::new().schema_type(Type::Object).property("reservation", reservation);
    let operation =
        part::operation(TAG, "reserveUnits", "Reserves an estimate of a cost that is only known afterwards");
    let operation = asking(operation, body, json!({ "key": "ada", "cost": 4000 }));
    deciding(of_keys(changing(operation)), part::all_of([part::named(DECISION), more.into()]))
}

pub(in super::super) fn settle() -> OperationBuilder {
    let body = part::required(with_key(), [("id", whole(1).into()), ("cost", whole(0).into())]);
    let more = part::members([("settled", whole(0).into())]);
    let stands = part::all_of([part::named(DECISION), more.into()]);
    let operation = part::operation(TAG, "settleUnits", "Settles a reservation at its actual cost");
    let operation = asking(operation, body, json!({ "key": "ada", "id": 1, "cost": 1500 }));
    of_keys(changing(operation)).response("200", part::json("The state afterwards.", stands))
}

pub(in super::super) fn combined() -> OperationBuilder {
    let check = part::required(
        part::closed().property("cost", cost()),
        [("policy", name().into()), ("key", part::named(KEY))],
    );
    let checks = part::list(check).min_items(Some(1)).max_items(Some(COMBINED_MAX));
    let argument = part::any_of([
        part::string().into(),
        ObjectBuilder::new().schema_type(Type::Number).into(),
        yes_or_no().into(),
    ]);
    let command = part::list(argument).min_items(Some(1));
    let commands = part::list(command).min_items(Some(1)).max_items(Some(THEN_MAX));
    let operations = part::list(part::named(OPERATION)).max_items(Some(THEN_MAX));
    let then = part::either([
        part::required(part::closed(), [("commands", commands.into())]).into(),
        part::required(part::closed(), [("operations", operations.into())]).into(),
    ]);
    let body = part::required(
        part::closed().property("rule", part::one_of(&["all", "any"])).property("then", then),
        [("checks", checks.into())],
    );
    let policy = part::members([("policy", name().into())]);
    let part = part::all_of([part::named(DECISION), policy.into()]);
    let more = part::members([("policy", name().into()), ("decisions", part::list(part).into())])
        .property("results", part::list(part::anything()));
    let operation = part::operation(TAG, "checkPolicies", "Checks several policies as one, and writes if they admit the request")
        .description(Some(
            "All decide first; only if the rule admits the request is anything consumed, and `then` written in the same atomic step.",
        ));
    let example =
        json!({ "checks": [{ "policy": "user", "key": "ada" }, { "policy": "everybody", "key": "all" }] });
    let operation = asking(operation, body, example);
    let operation = finished(changing(operation))
        .response(
            "404",
            error_response("There is no such policy, or no document to delete.", &[code::NOT_FOUND]),
        )
        .response("501", unsupported())
        .response(
            "409",
            error_response(
                "A key holds a value of another type, or a version does not match.",
                &[Code::Conflict.as_str(), WRONG_TYPE],
            ),
        )
        .response(
            "413",
            error_response("A key, the body or the response is too large.", &[Code::TooLarge.as_str()]),
        );
    deciding(operation, part::all_of([part::named(DECISION), more.into()]))
}
