//! `GET /healthz`: is the process healthy? `GET /readyz`: should it get traffic? Touches nothing.
//!
//! Both respond without a shard's loop, which may be blocked by a long command: then the process is healthy and gets no traffic.
//!
//! A probe acts on the status alone, so 503 is only for what a restart repairs: a poisoned shard, but neither a full disk nor an
//! archive that cannot be written. Those are reported as reasons with status 200, and so is a failing store of a policy or of the
//! documents, an upstream that does not reply, or a slot table that cannot be read: everything else works.

use hyper::StatusCode;
use keystead_core::ShardId;
use keystead_engine::{Health, ShardHealth};
use serde_json::{Value, json};
use utoipa::openapi::path::OperationBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Type};

use super::context::HttpContext;
use super::openapi::SERVER;
use super::openapi::part::{self, Shape};
use super::reply::{self, Reply};
use super::request::{HttpRequest, Unserved};
use super::sinks;
use crate::VERSION;
use crate::app::App;
use crate::handover;
use crate::policies::Set;
use crate::sinks::Running;
use crate::starting::Starting;

const OK: &str = "ok";
const DEGRADED: &str = "degraded";
const FAILING: &str = "failing";
const READY: &str = "ready";
const STOPPING: &str = "stopping";
const BUSY: &str = "busy";
const LOADING: &str = "loading";

/// How much is loaded.
const COUNTS: [&str; 4] = ["keys_done", "keys_total", "journal_bytes_done", "journal_bytes_total"];

const HEALTHZ: &str = "/healthz";
const READYZ: &str = "/readyz";

pub(super) async fn healthz(context: &HttpContext, _: &HttpRequest) -> Reply {
    health(&context.app)
}

pub(super) async fn readyz(context: &HttpContext, _: &HttpRequest) -> Reply {
    readiness(&context.app)
}

/// The response of these routes without a shard; nothing for other paths.
pub(super) fn without_shard(app: &App, why: Unserved, path: &str) -> Option<Reply> {
    match (path, why) {
        (HEALTHZ, _) => Some(health(app)),
        (READYZ, Unserved::TooMany) if !app.is_stopping() => Some(unready(BUSY)),
        (READYZ, _) => Some(readiness(app)),
        _ => None,
    }
}

/// The response of these routes while the database loads; nothing for other paths.
pub(super) fn while_loading(starting: &Starting, path: &str) -> Option<Reply> {
    match path {
        HEALTHZ => Some(loading(starting)),
        READYZ => Some(unready(LOADING)),
        _ => None,
    }
}

/// How far loading is. Where a token is set, clients without it do not learn how much data there is.
fn loading(starting: &Starting) -> Reply {
    let load = starting.load.now();
    let seconds = load.elapsed_ms / 1000;
    let (stage, percent) = (load.stage, (load.percent * 10.0).round() / 10.0);
    let mut how_far = json!({ "stage": stage, "percent": percent, "seconds": seconds });
    if starting.settings.token.is_none()
        && let Value::Object(how_far) = &mut how_far
    {
        for (name, count) in COUNTS.into_iter().zip(load.keys.into_iter().chain(load.journal_bytes)) {
            how_far.insert(name.to_owned(), json!(count));
        }
    }
    let body = format!(
        r#"{{"status":"{LOADING}","version":"{VERSION}","uptime_seconds":{seconds},"loading":{how_far}}}"#
    );
    reply::json(StatusCode::OK, body)
}

/// Whether a request with these first bytes is for one of these routes.
pub(super) fn is_health_check(start: &[u8]) -> bool {
    let path = start.strip_prefix(b"GET ").or_else(|| start.strip_prefix(b"HEAD ")).unwrap_or_default();
    let ends = |rest: &[u8]| matches!(rest.first(), Some(b' ' | b'?'));
    [HEALTHZ, READYZ].iter().any(|route| path.strip_prefix(route.as_bytes()).is_some_and(ends))
}

fn health(app: &App) -> Reply {
    let mut found = Found::of(&app.engine.health());
    found.add_busy(app);
    found.add_policies(&app.policies.set());
    found.add_documents(app);
    found.add_upstream(app);
    found.add_cluster(app);
    found.add_sinks(app);
    // Formatted by hand, so that the status comes first.
    let (status, uptime) = (found.status(), app.uptime().as_secs());
    let mut body = format!(r#"{{"status":"{status}","version":"{VERSION}","uptime_seconds":{uptime}"#);
    if !found.reasons.is_empty() {
        body += &format!(r#","reasons":{}"#, json!(found.reasons));
    }
    // As while loading: clients without the token do not learn how much data there is.
    let sinks = app.sinks.get().filter(|sinks| app.settings.token.is_none() && !sinks.all().is_empty());
    if let Some(sinks) = sinks {
        let of = |running: &Running| (running.definition.name.clone(), sinks::vitals(running));
        body += &format!(r#","sinks":{}"#, Value::Object(sinks.all().iter().map(of).collect()));
    }
    body.push('}');
    reply::json(if found.poisoned { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK }, body)
}

fn readiness(app: &App) -> Reply {
    if app.is_stopping() {
        unready(STOPPING)
    } else if Found::of(&app.engine.health()).poisoned {
        unready(FAILING)
    } else if app.engine.shard_ids().any(|shard| handover::is_busy(app, shard)) {
        unready(BUSY)
    } else {
        reply::json(StatusCode::OK, json!({ "status": READY }))
    }
}

fn unready(word: &str) -> Reply {
    reply::json(StatusCode::SERVICE_UNAVAILABLE, json!({ "status": word }))
}

pub(super) fn describe_healthz() -> OperationBuilder {
    let health = || -> Shape {
        part::required(
            part::closed()
                .property("reasons", part::list(part::string()).min_items(Some(1)))
                .property("sinks", ObjectBuilder::new().additional_properties(Some(sinks::vitals_shape())))
                .property("loading", how_far()),
            [
                ("status", part::one_of(&[OK, DEGRADED, FAILING, LOADING]).into()),
                ("version", part::string().into()),
                ("uptime_seconds", part::at_least(0).into()),
            ],
        )
        .into()
    };
    part::operation(SERVER, "healthz", "Is the process healthy?")
        .response(
            "200",
            part::json(
                "It runs. `reasons` lists what is wrong, `loading` says how far loading is, and where no token is set `sinks` has what waits \
                 for each target.",
                health(),
            ),
        )
        .response("503", part::json("A restart is needed.", health()))
}

/// How far loading the database is. The counts are there if no token is set.
fn how_far() -> ObjectBuilder {
    let closed = COUNTS.into_iter().fold(part::closed(), |all, name| all.property(name, part::at_least(0)));
    part::required(
        closed,
        [
            ("stage", part::one_of(&["archive", "journal"]).into()),
            ("percent", ObjectBuilder::new().schema_type(Type::Number).into()),
            ("seconds", part::at_least(0).into()),
        ],
    )
}

pub(super) fn describe_readyz() -> OperationBuilder {
    let status = |words: &[&str]| -> Shape {
        part::required(part::closed(), [("status", part::one_of(words).into())]).into()
    };
    part::operation(SERVER, "readyz", "Should it get traffic?")
        .response("200", part::json("Yes.", status(&[READY])))
        .response("503", part::json("No.", status(&[STOPPING, FAILING, BUSY, LOADING])))
}

/// The problems of a database.
#[derive(Default)]
struct Found {
    /// Some shard rejects everything until a restart.
    poisoned: bool,
    /// Some shard rejects writes until the archive can be written again.
    full: bool,
    reasons: Vec<String>,
}

impl Found {
    fn of(health: &Health) -> Found {
        let mut found = Found::default();
        for (id, shard) in ShardId::all(health.shards.len()).zip(&health.shards) {
            found.add(id, shard);
        }
        found
    }

    fn add(&mut self, id: ShardId, shard: &ShardHealth) {
        let mut add = |what: &str| self.reasons.push(format!("shard {id}: {what}"));
        if let Some(why) = &shard.poisoned {
            add(&format!("it refuses everything until a restart: {why}"));
        }
        if shard.journal_full {
            add("the journal is full, so writes are rejected until the archive can be written again");
        }
        if shard.throttled {
            add(
                "throttled: the journal is near its bound, so acknowledgements of writes are delayed to the archive's pace",
            );
        }
        if let Some(why) = &shard.archive_failing {
            add(&format!("the archive cannot be written, and the journal grows: {why}"));
        }
        if shard.memory_full {
            add(
                "the memory limit is reached, so writes that could add memory are rejected until keys are deleted",
            );
        }
        self.poisoned |= shard.poisoned.is_some();
        self.full |= shard.journal_full;
    }

    fn add_busy(&mut self, app: &App) {
        for shard in app.engine.shard_ids().filter(|shard| handover::is_busy(app, *shard)) {
            let seconds = app.engine.busy_ms(shard) / 1000;
            self.reasons.push(format!("shard {shard}: a command has kept it busy for {seconds} s"));
        }
    }

    fn add_policies(&mut self, set: &Set) {
        for (name, active) in set.by_name.iter().filter(|(_, active)| active.is_store_broken()) {
            let store = active.definition.store.shown();
            self.reasons.push(format!("limit.{name}: its store ({store}) failed at the last check"));
        }
    }

    fn add_documents(&mut self, app: &App) {
        if let Some(documents) = app.documents.get().filter(|documents| documents.is_broken()) {
            let store = documents.scheme();
            self.reasons.push(format!("documents: their store ({store}) failed at the last request"));
        }
    }

    fn add_upstream(&mut self, app: &App) {
        if let Some(upstream) = app.upstream.get().filter(|upstream| upstream.is_broken()) {
            let scheme = upstream.scheme();
            self.reasons.push(format!("upstream: it ({scheme}) does not reply, so REST requests fail"));
        }
    }

    fn add_cluster(&mut self, app: &App) {
        if let Some((membership, why)) = app.cluster.get().and_then(|one| Some((one, one.trouble()?))) {
            let store = membership.scheme();
            self.reasons
                .push(format!("cluster: {why} (in {store}), so this node goes on with the last slot table"));
        }
    }

    fn add_sinks(&mut self, app: &App) {
        for running in app.sinks.get().into_iter().flat_map(|sinks| sinks.all()) {
            let (name, status, quarantined) =
                (&running.definition.name, running.status(), running.quarantined_len());
            let target = running.definition.target.shown();
            if status.resyncing.is_some() {
                self.reasons
                    .push(format!("sink.{name}: all keys are being written to its target ({target})"));
            }
            if let Some(oldest) = running.behind() {
                let seconds = oldest.as_secs();
                self.reasons.push(format!(
                    "sink.{name}: its target ({target}) is behind: a change has waited for {seconds} s"
                ));
            }
            if status.problem.is_some() {
                // Why is for people with the token: GET /sinks.
                self.reasons
                    .push(format!("sink.{name}: its target ({target}) cannot be written: it is tried again"));
            }
            if status.gaps > 0 {
                self.reasons.push(format!(
                    "sink.{name}: changes are missing in its event log: see the mark gap there"
                ));
            }
            if quarantined > 0 {
                self.reasons.push(format!("sink.{name}: its target ({target}) rejects {quarantined} keys"));
            }
        }
    }

    fn status(&self) -> &'static str {
        match (self.poisoned || self.full, self.reasons.is_empty()) {
            (true, _) => FAILING,
            (false, false) => DEGRADED,
            (false, true) => OK,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(change: impl Fn(&mut ShardHealth)) -> (&'static str, bool, Vec<String>) {
        let mut second = ShardHealth::default();
        change(&mut second);
        let found = Found::of(&Health { shards: vec![ShardHealth::default(), second] });
        (found.status(), found.poisoned, found.reasons)
    }

    #[test]
    fn each_fault_has_its_status_and_its_reason() {
        assert_eq!(found(|_| {}), ("ok", false, vec![]));
        for (fault, status, poisoned, words) in [
            ("poisoned", "failing", true, "shard 1: it refuses everything until a restart: because"),
            ("full", "failing", false, "shard 1: the journal is full"),
            ("throttled", "degraded", false, "shard 1: throttled"),
            (
                "archive",
                "degraded",
                false,
                "shard 1: the archive cannot be written, and the journal grows: because",
            ),
            ("memory", "degraded", false, "shard 1: the memory limit is reached"),
        ] {
            let found = found(|shard| match fault {
                "poisoned" => shard.poisoned = Some("because".into()),
                "full" => shard.journal_full = true,
                "throttled" => shard.throttled = true,
                "memory" => shard.memory_full = true,
                _ => shard.archive_failing = Some("because".into()),
            });
            assert_eq!((found.0, found.1, found.2.len()), (status, poisoned, 1), "{fault}");
            assert!(found.2[0].starts_with(words), "{found:?}");
        }
    }

    #[tokio::test]
    async fn a_poisoned_shard_turns_health_and_readiness_red() {
        let app = App::for_test();
        assert_eq!(health(&app).status(), 200);
        let _ = app.engine.write(b"k", |_, _| -> keystead_core::Result<()> { panic!("on purpose") }).await;
        for (reply, says_why) in [(health(&app), true), (readiness(&app), false)] {
            assert_eq!(reply.status(), 503);
            let body = http_body_util::BodyExt::collect(reply.into_body()).await.unwrap().to_bytes();
            let body: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(body["status"], "failing");
            assert_eq!(
                body["reasons"][0].as_str().is_some_and(|why| why.contains("panicked")),
                says_why,
                "{body}"
            );
        }
        assert!(app.metrics_text().contains(r#"keystead_shard_poisoned{shard="0"} 1"#));
        assert!(app.engine.close().await.is_err());
    }
}
