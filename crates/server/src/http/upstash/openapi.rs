//! The OpenAPI descriptions of the Upstash-compatible REST API. Pure.
//!
//! Which commands there are, and what they take, is in docs/commands.md.

use serde_json::{Value, json};
use utoipa::openapi::Required;
use utoipa::openapi::content::Content;
use utoipa::openapi::header::Header;
use utoipa::openapi::path::{OperationBuilder, Parameter};
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};

use super::super::events;
use super::super::openapi::common::{
    FOREIGN_HOST, KEY_USED, OUT_OF_MEMORY, UNAUTHORIZED, headers_too_large, idempotency_key, too_large,
    too_slow,
};
use super::super::openapi::part::{self, Common, Shape, Templates};
use super::SYNC_TOKEN;
use super::response::{BASE64, ENCODING, FORMAT, RESP2, RESP2_MEDIA};
use crate::bounds::{REST_CHANNELS_MAX, REST_COMMANDS_MAX};

pub(in super::super) const TAG: &str = "redis";

const ARGUMENT: &str = "Argument";
const VALUE: &str = "RedisValue";
const RESULT: &str = "RedisResult";
const FAILURE: &str = "RedisError";

const NOT_ON_UPSTREAM: &str =
    "Not available in front of an upstream: an `Idempotency-Key` of a write, `/monitor`.";
const INVALID: &str = "The request is invalid, or the command failed.";

pub(in super::super) fn schemas() -> Vec<(&'static str, Shape)> {
    let argument = ObjectBuilder::new()
        .schema_type([Type::String, Type::Number, Type::Boolean].into_iter().collect::<SchemaType>())
        .description(Some("Numbers and booleans are used as the text that was sent."));
    let value = part::any_of([
        part::string().into(),
        ObjectBuilder::new().schema_type(Type::Integer).into(),
        part::null().into(),
        part::list(part::named(VALUE)).into(),
    ]);
    let error = part::string().description(Some("The error of Redis: `ERR ...`, `WRONGTYPE ...`."));
    vec![
        (ARGUMENT, argument.into()),
        (VALUE, value),
        (RESULT, part::required(part::closed(), [("result", part::named(VALUE))]).into()),
        (FAILURE, part::required(part::closed(), [("error", error.into())]).into()),
    ]
}

fn sync_token() -> Header {
    part::fixed_header("Different in each response.", part::string())
}

fn failure(about: &str) -> ResponseBuilder {
    part::json(about, part::named(FAILURE)).header(SYNC_TOKEN.as_str(), sync_token())
}

/// The errors before a handler runs.
pub(in super::super) fn request_errors() -> Vec<Common> {
    vec![
        ("401", "RedisUnauthorized", failure(UNAUTHORIZED).build()),
        ("403", "RedisForbidden", failure(FOREIGN_HOST).build()),
        ("408", "RedisTimedOut", failure(&too_slow()).build()),
        ("413", "RedisTooLarge", failure(&too_large()).build()),
        ("431", "RedisHeadersTooLarge", headers_too_large()),
        ("503", "RedisBusy", busy().build()),
    ]
}

/// The error for too many connections is sent before requests are counted, so this response has no sync token.
fn busy() -> ResponseBuilder {
    part::json(
        "Too many requests at a time, or the store is unavailable or being loaded.",
        part::named(FAILURE),
    )
    .header("Retry-After", part::header("When to try again, in seconds.", part::at_least(1)))
}

/// The errors of the store. The response to a command can be RESP2.
pub(in super::super) fn store_failures() -> Vec<Common> {
    let too_large = format!("{} Or a key or a value is too large.", too_large());
    let broken = "A defect of the server, or corrupt data.";
    vec![
        ("413", "CommandTooLarge", bytes(failure(&too_large)).build()),
        ("500", "CommandBroken", bytes(failure(broken)).build()),
        ("503", "CommandUnavailable", bytes(busy()).build()),
        ("507", "CommandOutOfMemory", bytes(failure(OUT_OF_MEMORY)).build()),
    ]
}

/// The same in RESP2.
fn bytes(response: ResponseBuilder) -> ResponseBuilder {
    let resp2 = part::matching(r"^[-+:$*]").description(Some("RESP2."));
    response.content(RESP2_MEDIA, part::content(resp2))
}

fn encoding() -> Parameter {
    let about = "Strings of the response in base64, except for `OK`.";
    part::in_header(ENCODING, about, part::one_of(&[BASE64]))
}

fn format() -> Parameter {
    let about = "The format of the response. RESP2 cannot be encoded in base64.";
    part::in_header(FORMAT, about, part::one_of(&["json", RESP2]))
}

/// Adds what all requests that run commands share. A RESP2 response is `application/octet-stream`, also that of an error.
fn running(operation: OperationBuilder, done: Shape) -> OperationBuilder {
    let ok = part::json("The result.", done).header(SYNC_TOKEN.as_str(), sync_token());
    let operation = operation
        .parameter(encoding())
        .parameter(format())
        .parameter(idempotency_key("changes nothing"))
        .response("200", bytes(ok))
        .response("400", bytes(failure(INVALID)))
        .response("422", failure(KEY_USED))
        .response("501", failure(NOT_ON_UPSTREAM));
    part::with(operation, &store_failures())
}

/// Several commands, each of at least `words_min` words.
fn commands(words_min: usize, example: Value) -> Content {
    let one = part::list(part::named(ARGUMENT)).min_items(Some(words_min));
    let all = part::list(Shape::from(one)).min_items(Some(1)).max_items(Some(REST_COMMANDS_MAX));
    part::content_like(all, example)
}

fn each() -> Shape {
    part::list(part::either([part::named(RESULT), part::named(FAILURE)])).into()
}

pub(in super::super) fn pipeline() -> OperationBuilder {
    let body = part::body(
        "Commands, independent of each other. An empty one has an error of its own, too.",
        [(part::JSON, commands(0, json!([["SET", "k", "v"], ["GET", "k"]])))],
    );
    let operation =
        part::operation(TAG, "pipeline", "Runs several commands in order").request_body(Some(body));
    running(operation, each())
}

pub(in super::super) fn multi_exec() -> OperationBuilder {
    let body = part::body("Commands.", [(part::JSON, commands(1, json!([["INCR", "n"], ["GET", "n"]])))]);
    let operation = part::operation(TAG, "multiExec", "Runs several commands as a transaction")
        .description(Some("If one of them cannot run, none does. The response is always JSON."))
        .request_body(Some(body));
    let ok = part::json("The results.", each()).header(SYNC_TOKEN.as_str(), sync_token());
    running(operation, each()).response("200", ok).response("400", failure(INVALID))
}

pub(in super::super) fn subscribe() -> OperationBuilder {
    let about = format!("More can follow, each after a `/`: at most {REST_CHANNELS_MAX}.");
    let operation = part::operation(TAG, "subscribe", "Streams the messages of a channel")
        .parameter(part::in_path("channel", &about, part::string().min_length(Some(1))));
    let data = part::matching("^(subscribe|message),")
        .description(Some("`subscribe,CHANNEL,1`, then `message,CHANNEL,TEXT` for each."));
    streaming(operation, data)
}

pub(in super::super) fn psubscribe() -> OperationBuilder {
    let about = format!("With `*` and `?`. More can follow, each after a `/`: at most {REST_CHANNELS_MAX}.");
    let operation = part::operation(TAG, "psubscribe", "Streams the messages of all channels that match")
        .parameter(part::in_path("pattern", &about, part::string().min_length(Some(1))));
    let data = part::matching("^(psubscribe|pmessage),")
        .description(Some("`psubscribe,PATTERN,1`, then `pmessage,PATTERN,CHANNEL,TEXT` for each."));
    streaming(operation, data)
}

pub(in super::super) fn monitor() -> OperationBuilder {
    let operation = part::operation(TAG, "monitor", "Streams every command that runs");
    let data = part::matching(r#"^("OK"$|[0-9]+\.[0-9]+ \[)"#)
        .description(Some("`\"OK\"`, then a line for each command."));
    streaming(operation, data)
}

fn streaming(operation: OperationBuilder, data: ObjectBuilder) -> OperationBuilder {
    let stream = part::response("Events, until the client disconnects.")
        .content(events::MEDIA, part::content(part::event(data, &["message"])))
        .header(SYNC_TOKEN.as_str(), sync_token());
    operation
        .response("200", stream)
        .response("400", failure("The request is invalid, or the token is read-only."))
        .response("501", failure(NOT_ON_UPSTREAM))
}

/// OpenAPI has no parameter for the rest of a path, so a command in the path is described with up to two arguments.
const COMMAND_PATHS: [(&str, &str, &[&str]); 3] = [
    ("/{command}", "pathCommand", &["command"]),
    ("/{command}/{first}", "pathCommandWithOne", &["command", "first"]),
    ("/{command}/{first}/{second}", "pathCommandWithTwo", &["command", "first", "second"]),
];

/// A command in the path.
pub(in super::super) fn get_command() -> Templates {
    COMMAND_PATHS
        .iter()
        .map(|(path, id, names)| (*path, running(path_command(id, names), part::named(RESULT))))
        .collect()
}

/// A command in the body, or in the path with the body as one more argument.
pub(in super::super) fn command() -> Templates {
    let words = part::list(part::named(ARGUMENT)).min_items(Some(1));
    let body = part::body(
        "The command's name, then its arguments.",
        [(part::JSON, part::content_like(words, json!(["SET", "k", "v", "EX", 60])))],
    );
    let operation = part::operation(TAG, "command", "Runs a command").request_body(Some(body));
    let mut all = vec![("/", running(operation, part::named(RESULT)))];
    for (path, id, names) in COMMAND_PATHS {
        let bytes = part::content(part::string().description(Some("Any bytes.")));
        let body = part::optional_body("One more argument.", [(RESP2_MEDIA, bytes)], Required::False);
        let operation = path_command(id, names).request_body(Some(body));
        all.push((path, running(operation, part::named(RESULT))));
    }
    all
}

fn path_command(id: &str, names: &[&str]) -> OperationBuilder {
    let operation = part::operation(TAG, id, "Runs a command in the path").description(Some(
        "Each part of the path is an argument, then the body, then names and values of the query, `?EX=60`.",
    ));
    names.iter().fold(operation, |operation, name| {
        let about = if *name == "command" { "Its name, in upper or lower case." } else { "An argument." };
        operation.parameter(part::in_path(name, about, part::string().min_length(Some(1))))
    })
}
