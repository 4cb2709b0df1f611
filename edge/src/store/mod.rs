//! Stores of records, so that limits and documents can be on D1, on Workers KV or in an object of their own. Touches those.
//!
//! ```text
//! POST /store/{durable-object|d1|kv}/{name}    reads and swaps of records, for the stores of other processes
//! /kv/KEY?store=d1, /limit/POLICY?store=kv     documents and limits on them, decided in the Worker
//! ```
//!
//! | To find                                       | open        |
//! |-----------------------------------------------|-------------|
//! | items of a request, and their results         | `items`     |
//! | records in the SQLite of a Durable Object     | `object`    |
//! | records on D1                                 | `d1`        |
//! | records on Workers KV                         | `kv`        |
//! | steps on records                              | `steps`     |
//! | documents on them                             | `documents` |
//! | rate limits on them                           | `limits`    |
//!
//! Invariant: a swap happens only while the record has the expected version. Workers KV cannot ensure that, and every response about it says
//! that it is approximate.

mod d1;
mod documents;
mod items;
mod kv;
mod limits;
mod object;
mod steps;

use http::StatusCode;
use http::request::Parts;
use http::uri::{PathAndQuery, Uri};
use keystead_commands::ctx::Rights;
use keystead_core::{Code, Error, Result};
use keystead_http_api::error::ApiError;
use keystead_http_api::url;
use worker::{Env, Request, Response};

use crate::bounds::{BODY_BYTES_MAX, STORE_KEY_BYTES_MAX, STORE_KV_KEY_BYTES_MAX, STORE_NAME_BYTES_MAX};
use crate::exchange::{Reply, body_of};
use crate::gate::{self, Api};
use crate::kv::ApiResult;
use crate::object::Arrived;
use crate::settings;
use items::{Call, Outcome};
use steps::RecordStore;

/// The binding of the objects with records.
const RECORDS: &str = "RECORDS";
/// The name of the store that requests without one use.
const NAME: &str = "store";
/// The parameter of documents and limits.
const STORE: &str = "store";
/// Marks every response about a store whose steps are not atomic.
const APPROXIMATE: &str = "keystead-approximate";

/// Where records are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    Object,
    D1,
    Kv,
}

impl Backend {
    fn of(word: &str) -> Option<Backend> {
        match word {
            "durable-object" => Some(Backend::Object),
            "d1" => Some(Backend::D1),
            "kv" => Some(Backend::Kv),
            _ => None,
        }
    }

    fn key_bytes_max(self) -> usize {
        if self == Backend::Kv { STORE_KV_KEY_BYTES_MAX } else { STORE_KEY_BYTES_MAX }
    }
}

/// A request that concerns these stores.
pub(crate) enum Route {
    /// Reads and swaps. Nothing if the path names no store.
    Items(Option<(Backend, String)>),
    /// Documents or limits on this store, which the query names.
    On(Api, String),
}

impl Route {
    /// The route of a request; nothing if the database's object answers it.
    pub(crate) fn of(head: &Parts) -> Option<Route> {
        let path = head.uri.path();
        match Api::of(path) {
            Api::Store => Some(Route::Items(named(path))),
            api @ (Api::Documents | Api::Limits) => {
                let (_, word) = url::parameters(head.uri.query()).find(|(name, _)| *name == STORE)?;
                Some(Route::On(api, word.unwrap_or_default().to_owned()))
            }
            _ => None,
        }
    }
}

/// The backend and the name in `/store/BACKEND/NAME`.
fn named(path: &str) -> Option<(Backend, String)> {
    let mut parts = path.strip_prefix("/store/")?.split('/');
    let (backend, name) = (Backend::of(parts.next()?)?, parts.next().unwrap_or(NAME));
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let is_valid = (1..=STORE_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_name);
    (is_valid && parts.next().is_none()).then(|| (backend, name.to_owned()))
}

/// The response to a request whose token has been checked.
pub(crate) async fn fetch(
    route: Route,
    mut request: Request,
    env: &Env,
    mut head: Parts,
) -> worker::Result<Response> {
    if let Route::Items(Some((Backend::Object, name))) = &route {
        return gate::call(env, RECORDS, name, request, &head).await;
    }
    let Some(body) = body_of(&mut request, &head).await? else {
        return too_large().into_response(&head);
    };
    let is_on_kv = match &route {
        Route::Items(named) => matches!(named, Some((Backend::Kv, _))),
        Route::On(_, word) => Backend::of(word) == Some(Backend::Kv),
    };
    if let Route::On(..) = route {
        without_store(&mut head);
    }
    let rights = settings::rights_of(env, &head.headers, head.uri.query()).unwrap_or(Rights::ReadOnly);
    let arrived = Arrived { head: &head, body: &body, rights };
    let replied = match route {
        Route::Items(named) => items_on(env, named, &arrived).await,
        Route::On(api, word) => on(env, api, &word, &arrived).await,
    };
    let mut reply = replied.unwrap_or_else(|error| Reply::api_error(&error));
    if is_on_kv {
        reply.set(APPROXIMATE, "true");
    }
    reply.into_response(&head)
}

fn too_large() -> Reply {
    let words = format!("max request size exceeded. Limit: {BODY_BYTES_MAX} bytes");
    Reply::error(StatusCode::PAYLOAD_TOO_LARGE, Code::TooLarge.as_str(), &words)
}

/// Takes the parameter that this module has read out of the query.
fn without_store(head: &mut Parts) {
    let others = |pair: &&str| pair.split('=').next() != Some(STORE);
    let query: Vec<&str> = head.uri.query().unwrap_or_default().split('&').filter(others).collect();
    let target = format!("{}?{}", head.uri.path(), query.join("&"));
    // A part of a valid URI is one.
    if let Ok(target) = PathAndQuery::try_from(target) {
        head.uri = Uri::from(target);
    }
}

async fn items_on(env: &Env, named: Option<(Backend, String)>, request: &Arrived<'_>) -> ApiResult {
    if request.rights == Rights::ReadOnly {
        return Err(ApiError::ReadOnly);
    }
    let (backend, name) = named.ok_or_else(|| {
        ApiError::NotFound(
            "the path is /store/BACKEND or /store/BACKEND/NAME: the backends are durable-object, d1 and kv, and a name has \
             lower-case letters, digits and _"
                .to_owned(),
        )
    })?;
    let calls = items::calls(request.body, backend)?;
    let records = Records::open(env, backend, &name)?;
    let (outcomes, rows) = records.run(&calls).await?;
    let mut reply = items::reply(&outcomes);
    rows.mark(&mut reply);
    Ok(reply)
}

async fn on(env: &Env, api: Api, word: &str, request: &Arrived<'_>) -> ApiResult {
    let backend = match Backend::of(word) {
        Some(backend @ (Backend::D1 | Backend::Kv)) => backend,
        _ => {
            let words = format!(
                "the parameter 'store' is d1 or kv, not '{word}': without it the data is in the database's own object"
            );
            return Err(ApiError::bad(words));
        }
    };
    let store = RecordStore::new(backend, Records::open(env, backend, NAME)?);
    match api {
        Api::Documents => documents::respond(&store, request).await,
        _ => limits::respond(env, store, request).await,
    }
}

/// Rows that were read and written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rows([u64; 2]);

impl Rows {
    fn mark(self, reply: &mut Reply) {
        let Rows([read, written]) = self;
        reply.set(crate::object::ROWS_READ, &read.to_string());
        reply.set(crate::object::ROWS_WRITTEN, &written.to_string());
    }
}

/// Records that the Worker reaches by itself.
pub(crate) enum Records {
    D1(d1::D1Records),
    Kv(kv::KvRecords),
}

impl Records {
    fn open(env: &Env, backend: Backend, name: &str) -> Result<Records> {
        match backend {
            Backend::Kv => Ok(Records::Kv(kv::KvRecords::open(env, name)?)),
            _ => Ok(Records::D1(d1::D1Records::open(env, name)?)),
        }
    }

    /// Runs calls, whose outcomes are in their order.
    async fn run(&self, calls: &[Call<'_>]) -> Result<(Vec<Outcome>, Rows)> {
        match self {
            Records::D1(records) => records.run(calls).await,
            Records::Kv(records) => Ok((records.run(calls).await, Rows::default())),
        }
    }
}

/// The error where a binding is missing.
fn unbound(what: &str, binding: &str) -> Error {
    let words = format!(
        "the worker has no {what}: bind one as {binding} in wrangler.toml, as its comments show, and deploy it again"
    );
    Error::new(Code::Unsupported, words)
}
