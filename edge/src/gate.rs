//! What the Worker does before an object is woken: health, pages of other sites, the token. Touches no object without a valid token.

use http::request::Parts;
use http::{Method, StatusCode};
use keystead_core::{Code, Error};
use keystead_http_api::upstash::WRONG_TOKEN;
use keystead_http_api::{code, cors};
use worker::{Context, Env, Request, Response, event};

use crate::exchange::{JSON, Reply, head_of};
use crate::settings::{self, Denied};
use crate::sql::failed;
use crate::{bounds::BODY_BYTES_MAX, spread, statements, store, upstash};

/// The binding of the objects.
pub(crate) const DATABASE: &str = "DATABASE";
/// The name of the one object of a database.
const OBJECT: &str = "0";

/// The API of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    Health,
    Documents,
    Limits,
    Sinks,
    Statements,
    Store,
    Upstash,
}

impl Api {
    pub(crate) fn of(path: &str) -> Api {
        let first = path.strip_prefix('/').unwrap_or(path).split('/').next().unwrap_or_default();
        match first {
            "healthz" | "readyz" => Api::Health,
            "kv" | "kv:batch" => Api::Documents,
            "limit" => Api::Limits,
            "sinks" => Api::Sinks,
            "statements" => Api::Statements,
            "store" => Api::Store,
            _ => Api::Upstash,
        }
    }

    /// The methods that it takes.
    fn allow(self) -> &'static str {
        match self {
            Api::Health => "GET, HEAD",
            Api::Sinks => "GET, POST, HEAD",
            Api::Statements => "POST",
            Api::Documents | Api::Limits => "GET, POST, PUT, PATCH, DELETE, HEAD",
            Api::Store => "POST",
            Api::Upstash => "GET, POST, PUT, HEAD",
        }
    }

    /// The error for a body over the bound.
    pub(crate) fn too_large(self) -> Reply {
        let words = format!("ERR max request size exceeded. Limit: {BODY_BYTES_MAX} bytes");
        self.error(StatusCode::PAYLOAD_TOO_LARGE, "too_large", &words)
    }

    /// An error in the form of this API.
    pub(crate) fn error(self, status: StatusCode, code: &str, words: &str) -> Reply {
        match self {
            Api::Upstash => {
                let mut body = Vec::new();
                keystead_commands::wire::json::error(words, &mut body);
                Reply::new(status, JSON, body)
            }
            _ => Reply::error(status, code, words),
        }
    }
}

#[event(fetch)]
async fn fetch(request: Request, env: Env, _: Context) -> worker::Result<Response> {
    let head = head_of(&request)?;
    let objects = spread::objects(&env);
    match (before(&env, &head), objects) {
        (Some(reply), _) => reply.into_response(&head),
        (None, Err(error)) => {
            let (status, words) = (StatusCode::INTERNAL_SERVER_ERROR, format!("ERR {}", error.message()));
            Api::of(head.uri.path()).error(status, "config_invalid", &words).into_response(&head)
        }
        (None, Ok(count)) => match store::Route::of(&head) {
            Some(route) => store::fetch(route, request, &env, head).await,
            None if count > 1 => spread::fetch(&env, request, &head, count).await,
            None => call(&env, DATABASE, OBJECT, request, &head).await,
        },
    }
}

/// The response of an object. Where the platform has none, its words are an error in the form of the API.
pub(crate) async fn call(
    env: &Env,
    binding: &str,
    name: &str,
    request: Request,
    head: &Parts,
) -> worker::Result<Response> {
    let called = env.durable_object(binding)?.get_by_name(name)?.fetch_with_request(request).await;
    let Err(error) = called else { return called };
    let words = error.to_string();
    let error = match failed(&words) {
        // The platform has undone all that the request has changed.
        full if full.code() == Code::OutOfMemory => full,
        _ => Error::unknown(
            Code::StoreUnavailable,
            format!("the object does not reply, and may have run this: {words}"),
        ),
    };
    match Api::of(head.uri.path()) {
        Api::Upstash => upstash::failed(error),
        _ => Reply::broken(&error),
    }
    .into_response(head)
}

/// The response of a request that needs no object.
pub(crate) fn before(env: &Env, head: &Parts) -> Option<Reply> {
    let api = Api::of(head.uri.path());
    if api == Api::Health {
        return Some(Reply::new(StatusCode::OK, JSON, b"{\"status\":\"ok\"}\n".to_vec()));
    }
    if api == Api::Statements {
        return statements::before(env, head);
    }
    if head.method == Method::OPTIONS {
        let mut reply = Reply::empty(StatusCode::NO_CONTENT);
        cors::preflight(&head.headers, api.allow(), &mut reply.headers);
        return Some(reply);
    }
    match settings::rights_of(env, &head.headers, head.uri.query()) {
        Err(Denied::Unset) => {
            let words = format!("ERR {}", settings::NO_TOKEN);
            return Some(api.error(StatusCode::INTERNAL_SERVER_ERROR, "config_invalid", &words));
        }
        Err(Denied::Wrong) => {
            let words = match api {
                Api::Upstash => WRONG_TOKEN,
                _ => "send the token in a header: Authorization: Bearer TOKEN",
            };
            let mut reply = api.error(StatusCode::UNAUTHORIZED, code::UNAUTHORIZED, words);
            reply.set("www-authenticate", "Bearer");
            return Some(reply);
        }
        Ok(_) => {}
    }
    let is_known = api.allow().split(", ").any(|method| method == head.method.as_str());
    (!is_known).then(|| {
        let words = format!("ERR method not allowed: use {}", api.allow());
        let mut reply = api.error(StatusCode::METHOD_NOT_ALLOWED, code::METHOD_NOT_ALLOWED, &words);
        reply.set("allow", api.allow());
        reply
    })
}
