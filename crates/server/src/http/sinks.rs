//! `/sinks`: the state of the sinks, and what can be asked of one: flush, quarantine, retry, skip, resync, verify. Touches the sinks.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use keystead_core::{Code, Error, Millis};
use serde_json::{Value, json};
use utoipa::openapi::path::{OperationBuilder, Parameter};
use utoipa::openapi::schema::{ObjectBuilder, Type};

use super::context::HttpContext;
use super::error::{ApiError, ApiResult};
use super::event_log;
use super::openapi::common::{error_response, store_failures};
use super::openapi::part::{self, Shape};
use super::parameters::Parameters;
use super::reply::{self, Reply, code};
use super::request::HttpRequest;
use crate::app::App;
use crate::bounds::{SINK_NAME_BYTES_MAX, SINK_WAIT_MAX};
use crate::sinks::file::Mode;
use crate::sinks::shared::Status;
use crate::sinks::{Difference, Receipt, Running, Side};
use crate::written;

pub(super) const TAG: &str = "sinks";

/// Whether a change is in the target.
pub(super) const FLUSHED: HeaderName = HeaderName::from_static("keystead-flushed");

const SINK: &str = "Sink";
const TIMEOUT: &str = "timeout";
const KEY: &str = "key";
const OLDER_THAN: &str = "olderThan";

/// How long a flush waits, unless the request says otherwise.
const FLUSH_MS: u64 = 30_000;

/// The words of a receipt.
pub(super) const RECEIPTS: [&str; 4] = ["none", "yes", "pending", "quarantined"];

/// What `/healthz` has of each sink.
pub(super) fn vitals(running: &Running) -> Value {
    let status = running.status();
    json!({
        "pending": status.pending,
        "oldestPendingMs": status.oldest().as_millis() as u64,
        "batches": status.batches,
        "flushMs": flush_ms(&status),
        "coalescing": status.coalescing(),
        "quarantined": running.quarantined_len(),
        "resyncs": status.resyncs,
        "resyncing": status.resyncing.is_some(),
    })
}

fn flush_ms(status: &Status) -> Value {
    json!({ "last": status.flush_last.as_millis() as u64, "mean": status.flush_mean().as_millis() as u64 })
}

fn summary(app: &App, running: &Running) -> Value {
    let (definition, status) = (&running.definition, running.status());
    let problem = status.problem.as_ref();
    json!({
        "name": definition.name,
        "target": definition.target.shown(),
        "table": definition.layout.table,
        "prefix": definition.layout.prefix,
        "mode": definition.mode.as_str(),
        "pending": status.pending,
        "oldestPendingMs": status.oldest().as_millis() as u64,
        "lagRevisions": running.lag(&app.engine),
        "changes": status.changes,
        "rows": status.rows,
        "coalescing": status.coalescing(),
        "batches": status.batches,
        "flushMs": flush_ms(&status),
        "quarantined": running.quarantined_len(),
        "gaps": status.gaps,
        "rejected": status.rejected,
        "compacted": status.compacted,
        "resyncs": status.resyncs,
        "resyncing": status.resyncing,
        "problem": problem.map(|problem| json!({ "code": problem.code.as_str(), "message": problem.message })),
    })
}

fn find<'a>(context: &'a HttpContext, request: &HttpRequest) -> Result<&'a Running, ApiError> {
    let name = request.path_parameter("sink");
    let sinks = context.app.sinks.get();
    let found = sinks.and_then(|sinks| sinks.find(name));
    found.ok_or_else(|| {
        let names: Vec<&str> = sinks
            .into_iter()
            .flat_map(|sinks| sinks.all())
            .map(|running| running.definition.name.as_str())
            .collect();
        let list = if names.is_empty() { "there is none".to_owned() } else { names.join(", ") };
        ApiError::NotFound(format!("there is no sink '{}': {list}", crate::failure::one_line(name)))
    })
}

pub(super) async fn list(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    Parameters::of(&request.head, &[])?;
    let all = context.app.sinks.get().into_iter().flat_map(|sinks| sinks.all());
    let all: Vec<Value> = all.map(|running| summary(&context.app, running)).collect();
    Ok(reply::json(StatusCode::OK, json!({ "sinks": all })))
}

pub(super) async fn one(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    Parameters::of(&request.head, &[])?;
    Ok(reply::json(StatusCode::OK, summary(&context.app, find(context, request)?)))
}

pub(super) async fn flush(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    let parameters = Parameters::of(&request.head, &[TIMEOUT])?;
    let longest = wait_of(&parameters, TIMEOUT)?.unwrap_or(Duration::from_millis(FLUSH_MS));
    let running = find(context, request)?;
    if tokio::time::timeout(longest, running.flush(&context.app.engine)).await.is_ok() {
        return Ok(reply::json(StatusCode::OK, summary(&context.app, running)));
    }
    let status = running.status();
    let why = match (&status.problem, &status.resyncing) {
        (Some(problem), _) => problem.message.clone(),
        (None, Some(_)) => "all keys are being written: it goes on".to_owned(),
        (None, None) => format!("{} keys are left: it goes on", status.pending),
    };
    let message = format!("not everything reached the target within {longest:?}: {why}");
    Err(ApiError::Broken(Error::new(Code::StoreUnavailable, message)))
}

pub(super) async fn quarantine(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    Parameters::of(&request.head, &[])?;
    let keys: Vec<Value> = find(context, request)?
        .quarantined()
        .iter()
        .map(|(key, case)| {
            json!({
                "key": written::shown(key),
                "reason": case.reason,
                "attempts": case.attempts,
                "sinceMs": case.since.0,
                "nextMs": (case.next != Millis::NEVER).then_some(case.next.0),
            })
        })
        .collect();
    Ok(reply::json(StatusCode::OK, json!({ "keys": keys })))
}

pub(super) async fn retry(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    let parameters = Parameters::of(&request.head, &[KEY])?;
    let count = find(context, request)?.retry(parameters.bytes(KEY));
    Ok(reply::json(StatusCode::OK, json!({ "keys": count })))
}

pub(super) async fn skip(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    let parameters = Parameters::of(&request.head, &[KEY])?;
    let count = find(context, request)?.skip(parameters.bytes(KEY)).map_err(ApiError::Broken)?;
    Ok(reply::json(StatusCode::OK, json!({ "keys": count })))
}

pub(super) async fn resync(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    Parameters::of(&request.head, &[])?;
    find(context, request)?.resync();
    Ok(reply::json(StatusCode::ACCEPTED, json!({})))
}

pub(super) async fn compact(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    let parameters = Parameters::of(&request.head, &[OLDER_THAN])?;
    let age = parameters.duration_ms(OLDER_THAN)?.map(Duration::from_millis);
    find(context, request)?.log()?;
    let compacted = on_runtime(context, request, move |_, running| Box::pin(running.compact(age))).await?;
    Ok(reply::json(StatusCode::OK, json!({ "rows": compacted })))
}

type Call<'r, T> = Pin<Box<dyn Future<Output = keystead_core::Result<T>> + Send + 'r>>;

/// Runs something on the server's own runtime, as all calls of targets. It goes on when the client does not wait.
async fn on_runtime<T: Send + 'static>(
    context: &HttpContext,
    request: &HttpRequest,
    call: impl for<'r> FnOnce(&'r App, &'r Running) -> Call<'r, T> + Send + 'static,
) -> Result<T, ApiError> {
    let name = find(context, request)?.definition.name.clone();
    let (app, runtime) = (Arc::clone(&context.app), context.app.sinks.get().map(|sinks| sinks.runtime()));
    let Some(runtime) = runtime else { return Err(ApiError::NotFound("there is no sink".to_owned())) };
    let called = runtime.spawn(async move {
        match app.sinks.get().and_then(|sinks| sinks.find(&name)) {
            Some(running) => call(&app, running).await,
            None => Err(Error::new(Code::Internal, "the sink has ended")),
        }
    });
    let found = called.await.unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())));
    found.map_err(ApiError::Broken)
}

pub(super) async fn verify(context: &HttpContext, request: &HttpRequest) -> ApiResult {
    Parameters::of(&request.head, &[])?;
    let found = on_runtime(context, request, |app, running| Box::pin(running.verify(&app.engine))).await?;
    Ok(reply::json(
        StatusCode::OK,
        json!({
            "keys": found.keys,
            "differences": found.count,
            "quarantined": found.quarantined,
            "differing": found.differing.iter().map(difference).collect::<Vec<_>>(),
        }),
    ))
}

fn difference((key, Difference { source, target }): (&String, &Difference)) -> Value {
    let side = |side: &Side| json!({ "version": side.version, "value": side.value });
    json!({ "key": key, "source": source.as_ref().map(side), "target": target.as_ref().map(side) })
}

/// A wait that a request asks for.
pub(super) fn wait_of(parameters: &Parameters, name: &'static str) -> Result<Option<Duration>, ApiError> {
    match parameters.duration_ms(name)?.map(Duration::from_millis) {
        Some(wait) if wait > SINK_WAIT_MAX => {
            Err(ApiError::bad(format!("the parameter '{name}' is at most {SINK_WAIT_MAX:?}")))
        }
        wait => Ok(wait),
    }
}

/// Adds to the response of a change whether it is in the targets, if the request asks for it or a sink writes through.
pub(super) async fn with_receipt(
    context: &HttpContext,
    keys: &[&[u8]],
    wanted: Option<Duration>,
    mut reply: Reply,
) -> Reply {
    let Some(sinks) = context.app.sinks.get() else { return reply };
    let writes_through = || keys.iter().any(|key| sinks.writes_through(key));
    let wait = wanted.or_else(|| writes_through().then_some(SINK_WAIT_MAX));
    if let Some(wait) = wait
        && reply.status().is_success()
    {
        let receipt = sinks.receipt(keys, wait).await;
        let word = match receipt {
            Receipt::None => RECEIPTS[0],
            Receipt::Flushed => RECEIPTS[1],
            Receipt::Pending => RECEIPTS[2],
            Receipt::Quarantined => RECEIPTS[3],
        };
        reply.headers_mut().insert(FLUSHED, HeaderValue::from_static(word));
    }
    reply
}

pub(super) fn schemas() -> Vec<(&'static str, Shape)> {
    let text = || part::string().into();
    let count = || part::counter(0).into();
    let problem = part::members([("code", text()), ("message", text())]);
    let sink = part::members([
        ("name", text()),
        ("target", part::string().description(Some("The scheme of its URL.")).into()),
        ("table", text()),
        ("prefix", text()),
        ("mode", part::one_of(&Mode::ALL.map(Mode::as_str)).into()),
        ("pending", count()),
        ("oldestPendingMs", count()),
        ("lagRevisions", count()),
        ("changes", count()),
        ("rows", count()),
        ("coalescing", coalescing()),
        ("batches", count()),
        ("flushMs", flush_shape()),
        ("quarantined", count()),
        ("gaps", count()),
        ("rejected", count()),
        ("compacted", count()),
        ("resyncs", count()),
        ("resyncing", part::either([part::string().into(), part::null().into()])),
        ("problem", part::either([problem.into(), part::null().into()])),
    ]);
    let mut all = vec![(SINK, sink.into())];
    all.extend(event_log::schemas());
    all
}

fn coalescing() -> Shape {
    let ratio = ObjectBuilder::new().schema_type(Type::Number).description(Some("Changes for each row."));
    part::either([ratio.into(), part::null().into()])
}

fn flush_shape() -> Shape {
    part::members([("last", part::counter(0).into()), ("mean", part::counter(0).into())]).into()
}

/// The shape of [`vitals`].
pub(super) fn vitals_shape() -> Shape {
    part::members([
        ("pending", part::counter(0).into()),
        ("oldestPendingMs", part::counter(0).into()),
        ("batches", part::counter(0).into()),
        ("flushMs", flush_shape()),
        ("coalescing", coalescing()),
        ("quarantined", part::counter(0).into()),
        ("resyncs", part::counter(0).into()),
        ("resyncing", ObjectBuilder::new().schema_type(Type::Boolean).into()),
    ])
    .into()
}

fn in_path() -> Parameter {
    let name = part::matching("^[A-Za-z0-9._-]+$").max_length(Some(SINK_NAME_BYTES_MAX));
    part::in_path("sink", "A sink of the settings file.", name)
}

fn of_one(id: &str, summary: &str) -> OperationBuilder {
    let operation = part::operation(TAG, id, summary)
        .parameter(in_path())
        .response("400", error_response("A parameter is invalid.", &[Code::BadRequest.as_str()]))
        .response("404", error_response("There is no such sink.", &[code::NOT_FOUND]));
    part::with(operation, &store_failures())
}

fn keys_changed(operation: OperationBuilder) -> OperationBuilder {
    let key = part::in_query(KEY, "Only this key, instead of all.", part::string());
    let count = part::members([("keys", part::counter(0).into())]);
    operation.parameter(key).response("200", part::json("How many keys.", count))
}

pub(super) fn describe_list() -> OperationBuilder {
    let all = part::members([("sinks", part::list(part::named(SINK)).into())]);
    part::operation(TAG, "listSinks", "The sinks and their state")
        .response("200", part::json("All of them.", all))
        .response("400", error_response("It takes no parameters.", &[Code::BadRequest.as_str()]))
}

pub(super) fn describe_one() -> OperationBuilder {
    of_one("getSink", "The state of a sink").response("200", part::json("Its state.", part::named(SINK)))
}

pub(super) fn describe_flush() -> OperationBuilder {
    let wait = part::matching("^([0-9]+(ms|s|m|h|d))+$").examples(["10s"]);
    let about = format!("How long to wait, at most {} s; 30s by default.", SINK_WAIT_MAX.as_secs());
    of_one("flushSink", "Writes what is pending, and waits for the target")
        .parameter(part::in_query(TIMEOUT, &about, wait))
        .response("200", part::json("Everything is in the target, or in quarantine.", part::named(SINK)))
}

pub(super) fn describe_quarantine() -> OperationBuilder {
    let key = ObjectBuilder::new().schema_type(Type::Object);
    let all = part::members([("keys", part::list(key).into())]);
    of_one("listQuarantine", "The keys whose rows the target rejects, with its reasons")
        .response("200", part::json("All of them.", all))
}

pub(super) fn describe_retry() -> OperationBuilder {
    keys_changed(of_one("retrySink", "Tries keys in quarantine again"))
}

pub(super) fn describe_skip() -> OperationBuilder {
    keys_changed(of_one("skipSink", "Removes keys from the quarantine, until they change"))
}

pub(super) fn describe_resync() -> OperationBuilder {
    of_one("resyncSink", "Writes all keys again, also to a target of another database")
        .response("202", part::json("It has begun.", part::members([])))
}

pub(super) fn describe_compact() -> OperationBuilder {
    let age = part::matching("^([0-9]+(ms|s|m|h|d))+$").examples(["7d"]);
    let about = "Events of at least this age, instead of what the settings say.";
    let rows = part::members([("rows", part::counter(0).into())]);
    of_one("compactSink", "Keeps only the last event of each key, of those that are old")
        .parameter(part::in_query(OLDER_THAN, about, age))
        .response("200", part::json("How many rows were removed or became whole.", rows))
        .response("501", error_response("The sink has no event log.", &[Code::Unsupported.as_str()]))
}

fn difference_shape() -> Shape {
    let value = || part::string().description(Some("The beginning of the value as text."));
    let side = || {
        let side = part::members([("version", part::counter(0).into()), ("value", value().into())]);
        part::either([side.into(), part::null().into()])
    };
    part::members([("key", part::string().into()), ("source", side()), ("target", side())]).into()
}

pub(super) fn describe_verify() -> OperationBuilder {
    let found = part::members([
        ("keys", part::counter(0).into()),
        ("differences", part::counter(0).into()),
        ("quarantined", part::counter(0).into()),
        ("differing", part::list(difference_shape()).into()),
    ]);
    of_one("verifySink", "Compares all keys with the rows of the target")
        .response("200", part::json("What differs, after a flush.", found))
        .response("501", error_response("The target cannot be read.", &[Code::Unsupported.as_str()]))
}
