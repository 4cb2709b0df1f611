//! The table of routes, and how a request finds its row. Pure.
//!
//! A path is literal text with parameters: `{policy}` is one segment, which may be empty, and `{key...}` at the end is the
//! rest of the path, `/` included. Parameters are not percent-decoded.
//!
//! Handlers are async functions, all of one shape. The table makes one `match` of them rather than a column of
//! function pointers, because what such a pointer returns would have to be boxed, for every request.

use hyper::Method;

use super::context::HttpContext;
use super::openapi::part::Description;
use super::reply::{IntoReply, Reply};
use super::request::HttpRequest;
use super::{backup, cluster, event_log, health, kv, limit, metrics, openapi, sinks, sync, upstash};

/// Who may call a route when a token is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everyone: probes have no token.
    Open,
    /// Clients with the token.
    Token,
    /// Clients with a token, which may be in the query or read-only; errors have Upstash's form.
    Upstash,
    /// As `Upstash`, with errors in Keystead's own form.
    Documents,
    /// As `Documents`, and offline clients with a token of their own.
    Sync,
}

/// Whether a route takes a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// It does, or clients usually send one that is ignored (`DELETE`). It is read after the token was checked.
    Body,
    /// It does not: a request with one is rejected with `413`, and none of it is read.
    Nothing,
}

/// One route.
pub struct Route {
    /// `GET` also takes `HEAD`.
    pub methods: &'static [Method],
    /// The path, with its parameters.
    pub path: &'static str,
    /// The `route` label in metrics. Users scrape it, so existing values never change: routes with parameters keep the
    /// `/limit/*` they had before each action had a row of its own.
    pub label: &'static str,
    /// The same for all routes that a path matches.
    pub access: Access,
    /// Whether its requests have a body.
    pub takes: Takes,
    /// Its part of the OpenAPI document.
    pub(super) description: fn() -> Description,
    /// How many bytes of the path are in front of its first parameter: most rows are ruled out by them.
    literal_bytes: usize,
    endpoint: Endpoint,
}

const fn literal_bytes(path: &str) -> usize {
    let (bytes, mut count) = (path.as_bytes(), 0);
    while count < bytes.len() && bytes[count] != b'{' {
        count += 1;
    }
    count
}

/// The path that matches what no other row matches.
const FALLBACK: &str = "/{command...}";

/// Makes the table, and the `match` that runs a row's handler.
macro_rules! routes {
    ($($endpoint:ident: $($method:ident)+, $path:literal $(as $label:literal)?, $access:ident, $takes:ident
        => $handler:path, $description:path;)+) => {
        /// The handler of a route.
        #[derive(Clone, Copy)]
        enum Endpoint { $($endpoint),+ }

        /// Every route there is. The first row whose path and method match is used.
        pub const ROUTES: &[Route] = &[$(Route {
            methods: &[$(Method::$method),+],
            path: $path,
            label: label!($path $(, $label)?),
            access: Access::$access,
            takes: Takes::$takes,
            description: || $description().into(),
            literal_bytes: literal_bytes($path),
            endpoint: Endpoint::$endpoint,
        }),+];

        impl Route {
            /// Runs the handler for a request whose body has arrived.
            pub async fn handle(&self, context: &HttpContext, request: &HttpRequest) -> Reply {
                match self.endpoint { $(Endpoint::$endpoint => $handler(context, request).await.into_reply()),+ }
            }
        }
    };
}

macro_rules! label {
    ($path:literal) => {
        $path
    };
    ($path:literal, $label:literal) => {
        $label
    };
}

routes! {
    Healthz: GET, "/healthz", Open, Nothing => health::healthz, health::describe_healthz;
    Readyz: GET, "/readyz", Open, Nothing => health::readyz, health::describe_readyz;
    Metrics: GET, "/metrics", Token, Nothing => metrics::metrics, metrics::describe;
    Openapi: GET, "/openapi.json", Open, Nothing => openapi::openapi, openapi::describe;
    Backup: POST, "/admin/backup", Token, Body => backup::backup, backup::describe;

    SinkList: GET, "/sinks", Token, Nothing => sinks::list, sinks::describe_list;
    SinkOne: GET, "/sinks/{sink}" as "/sinks/*", Token, Nothing => sinks::one, sinks::describe_one;
    SinkFlush: POST, "/sinks/{sink}/flush" as "/sinks/*", Token, Body => sinks::flush, sinks::describe_flush;
    SinkQuarantine: GET, "/sinks/{sink}/quarantine" as "/sinks/*", Token, Nothing => sinks::quarantine, sinks::describe_quarantine;
    SinkRetry: POST, "/sinks/{sink}/retry" as "/sinks/*", Token, Body => sinks::retry, sinks::describe_retry;
    SinkSkip: POST, "/sinks/{sink}/skip" as "/sinks/*", Token, Body => sinks::skip, sinks::describe_skip;
    SinkResync: POST, "/sinks/{sink}/resync" as "/sinks/*", Token, Body => sinks::resync, sinks::describe_resync;
    SinkCompact: POST, "/sinks/{sink}/compact" as "/sinks/*", Token, Body => sinks::compact, sinks::describe_compact;
    SinkVerify: POST, "/sinks/{sink}/verify" as "/sinks/*", Token, Body => sinks::verify, sinks::describe_verify;

    Events: GET, "/events/{prefix...}" as "/events/*", Documents, Nothing => event_log::read, event_log::describe;

    ClusterReport: GET, "/admin/cluster", Token, Nothing => cluster::report, openapi::hidden;
    ClusterSizes: GET, "/admin/cluster/sizes", Token, Nothing => cluster::sizes, openapi::hidden;
    ClusterRefresh: POST, "/admin/cluster/refresh", Token, Body => cluster::refresh, openapi::hidden;
    ClusterCopy: POST, "/admin/cluster/migrations/{id}/copy" as "/admin/cluster/*", Token, Body => cluster::copy, openapi::hidden;
    ClusterTail: POST, "/admin/cluster/migrations/{id}/tail" as "/admin/cluster/*", Token, Body => cluster::tail, openapi::hidden;
    ClusterHandOver: POST, "/admin/cluster/migrations/{id}/hand-over" as "/admin/cluster/*", Token, Body => cluster::hand_over, openapi::hidden;

    KvList: GET, "/kv", Documents, Nothing => kv::list, kv::openapi::list;
    KvBatch: POST, "/kv:batch", Documents, Body => kv::batch, kv::openapi::batch;
    KvGet: GET, "/kv/{key...}" as "/kv/*", Documents, Nothing => kv::get, kv::openapi::get;
    KvPut: PUT, "/kv/{key...}" as "/kv/*", Documents, Body => kv::put, kv::openapi::put;
    KvPatch: PATCH, "/kv/{key...}" as "/kv/*", Documents, Body => kv::patch, kv::openapi::patch;
    KvDelete: DELETE, "/kv/{key...}" as "/kv/*", Documents, Body => kv::delete, kv::openapi::delete;

    SyncPush: POST, "/sync", Sync, Body => sync::push, sync::openapi::push;
    SyncPull: GET, "/sync", Sync, Nothing => sync::pull, sync::openapi::pull;

    LimitList: GET, "/limit", Documents, Nothing => limit::list, limit::openapi::list;
    LimitCombined: POST, "/limit", Documents, Body => limit::combined, limit::openapi::combined;
    LimitPolicy: GET, "/limit/{policy}" as "/limit/*", Documents, Nothing => limit::policy, limit::openapi::policy;
    LimitCheck: POST, "/limit/{policy}" as "/limit/*", Documents, Body => limit::check, limit::openapi::check;
    // A key may have the name of an action, so these share paths with the rows behind them.
    LimitPeek: GET, "/limit/{policy}/{key...}" as "/limit/*", Documents, Nothing => limit::peek, limit::openapi::peek;
    LimitMany: POST, "/limit/{policy}/check" as "/limit/*", Documents, Body => limit::check_many, limit::openapi::check_many;
    LimitAcquire: POST, "/limit/{policy}/acquire" as "/limit/*", Documents, Body => limit::acquire, limit::openapi::acquire;
    LimitRelease: POST, "/limit/{policy}/release" as "/limit/*", Documents, Body => limit::release, limit::openapi::release;
    LimitReserve: POST, "/limit/{policy}/reserve" as "/limit/*", Documents, Body => limit::reserve, limit::openapi::reserve;
    LimitSettle: POST, "/limit/{policy}/settle" as "/limit/*", Documents, Body => limit::settle, limit::openapi::settle;
    LimitUnknown: POST, "/limit/{policy}/{action...}" as "/limit/*", Documents, Body => limit::unknown_action, openapi::hidden;
    LimitReset: DELETE, "/limit/{policy}/{key...}" as "/limit/*", Documents, Body => limit::reset, limit::openapi::reset;

    Pipeline: POST PUT, "/pipeline", Upstash, Body => upstash::pipeline, upstash::openapi::pipeline;
    MultiExec: POST PUT, "/multi-exec", Upstash, Body => upstash::multi_exec, upstash::openapi::multi_exec;
    Subscribe: GET POST, "/subscribe/{channel...}" as "/subscribe/*", Upstash, Body => upstash::subscribe, upstash::openapi::subscribe;
    Psubscribe: GET POST, "/psubscribe/{pattern...}" as "/psubscribe/*", Upstash, Body => upstash::psubscribe, upstash::openapi::psubscribe;
    Monitor: GET POST, "/monitor", Upstash, Body => upstash::monitor, upstash::openapi::monitor;
    // The last rows: every other path is a command.
    GetCommand: GET, "/{command...}" as "/*", Upstash, Body => upstash::command, upstash::openapi::get_command;
    Command: POST PUT, "/{command...}" as "/*", Upstash, Body => upstash::command, upstash::openapi::command;
}

/// One step through a pattern and a path at the same time.
enum Part<'p, 'a> {
    /// A parameter, its value, and what is left of both.
    Parameter { name: &'p str, value: &'a str, pattern: &'p str, path: &'a str },
    /// Both are at their end.
    End,
}

/// Matches a path up to the next parameter of a pattern; nothing: it does not match. It allocates nothing.
fn next_part<'p, 'a>(pattern: &'p str, path: &'a str) -> Option<Part<'p, 'a>> {
    let Some((literal, parameter)) = pattern.split_once('{') else {
        return (pattern == path).then_some(Part::End);
    };
    let path = path.strip_prefix(literal)?;
    let (name, pattern) = parameter.split_once('}')?;
    Some(match name.strip_suffix("...") {
        Some(name) => Part::Parameter { name, value: path, pattern: "", path: "" },
        None => {
            let (value, path) = path.split_at(path.find('/').unwrap_or(path.len()));
            Part::Parameter { name, value, pattern, path }
        }
    })
}

impl Route {
    /// The value of a parameter in a path that matches this route, as it was sent.
    #[must_use]
    pub fn parameter<'a>(&self, wanted: &str, path: &'a str) -> Option<&'a str> {
        let mut left = (self.path, path);
        while let Some(Part::Parameter { name, value, pattern, path }) = next_part(left.0, left.1) {
            if name == wanted {
                return Some(value);
            }
            left = (pattern, path);
        }
        None
    }

    fn is_fallback(&self) -> bool {
        self.path == FALLBACK
    }

    fn has(&self, path: &str) -> bool {
        // Also `OPTIONS *`, whose path has no `/`.
        if self.is_fallback() {
            return true;
        }
        if !path.starts_with(&self.path[..self.literal_bytes]) {
            return false;
        }
        let mut left = (self.path, path);
        while let Some(part) = next_part(left.0, left.1) {
            match part {
                Part::Parameter { pattern, path, .. } => left = (pattern, path),
                Part::End => return true,
            }
        }
        false
    }

    fn has_method(&self, method: &Method) -> bool {
        let method = if method == Method::HEAD { &Method::GET } else { method };
        self.methods.contains(method)
    }
}

/// The rows whose path matches, in order. The fallback is for paths that no other row matches.
fn of_path(path: &str) -> impl Iterator<Item = &'static Route> {
    let mut is_claimed = false;
    ROUTES.iter().filter(move |route| route.has(path)).take_while(move |route| {
        is_claimed |= !route.is_fallback();
        !(is_claimed && route.is_fallback())
    })
}

/// The methods that a path takes, as the `Allow` header lists them.
#[must_use]
pub fn allow(path: &str) -> String {
    let mut methods: Vec<&str> = Vec::new();
    for method in of_path(path).flat_map(|route| route.methods).map(Method::as_str) {
        if !methods.contains(&method) {
            methods.push(method);
        }
    }
    if methods.contains(&"GET") {
        methods.push("HEAD");
    }
    methods.join(", ")
}

/// What the table says about a request.
#[derive(Clone, Copy)]
pub enum Match {
    /// This row handles it.
    Route(&'static Route),
    /// This row has the path, but no row of the path has the method.
    WrongMethod(&'static Route),
}

impl Match {
    /// Finds the row of a request. It allocates nothing.
    #[must_use]
    pub fn find(method: &Method, path: &str) -> Match {
        let mut first = None;
        for route in of_path(path) {
            if route.has_method(method) {
                return Match::Route(route);
            }
            first.get_or_insert(route);
        }
        Match::WrongMethod(first.unwrap_or(&ROUTES[ROUTES.len() - 1]))
    }

    fn route(self) -> &'static Route {
        match self {
            Match::Route(route) | Match::WrongMethod(route) => route,
        }
    }

    /// The bounded name of the request for metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        self.route().label
    }

    /// Who may call the path.
    #[must_use]
    pub fn access(self) -> Access {
        self.route().access
    }

    /// Whether pages in browsers may call it, too.
    #[must_use]
    pub fn is_for_pages(self) -> bool {
        matches!(self.access(), Access::Upstash | Access::Documents | Access::Sync)
    }
}

/// The bounded name of a method for metrics: clients may invent methods.
#[must_use]
pub fn method_label(method: &Method) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    KNOWN.into_iter().find(|known| *known == method.as_str()).unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// A path that a row matches.
    fn example(route: &Route) -> String {
        let segment = |part: &'static str| if part.starts_with('{') { "x" } else { part };
        route.path.split('/').map(segment).collect::<Vec<_>>().join("/")
    }

    #[test]
    fn no_two_rows_have_the_same_method_and_path() {
        let pairs: Vec<_> = ROUTES.iter().flat_map(|r| r.methods.iter().map(|m| (m, r.path))).collect();
        assert_eq!(pairs.iter().collect::<HashSet<_>>().len(), pairs.len());
    }

    #[test]
    fn paths_are_legal_and_the_rows_of_one_path_share_access_and_label() {
        for route in ROUTES {
            assert!(
                route.path.starts_with('/') && route.path.is_ascii() && !route.path.contains(['?', ' ', '*'])
            );
            assert!(!route.methods.contains(&Method::HEAD), "GET takes HEAD: {}", route.path);
            let segments: Vec<_> = route.path.split('/').collect();
            for (n, segment) in segments.iter().enumerate() {
                assert_eq!(
                    segment.starts_with('{'),
                    segment.ends_with('}'),
                    "a parameter is a segment: {}",
                    route.path
                );
                assert!(
                    !segment.ends_with("...}") || n == segments.len() - 1,
                    "the rest is last: {}",
                    route.path
                );
            }
            for other in of_path(&example(route)) {
                let shared = (other.access, other.label);
                assert_eq!(shared, (route.access, route.label), "{} and {}", route.path, other.path);
            }
        }
    }

    /// A row behind one that takes all its paths would never be used.
    #[test]
    fn every_row_can_be_found() {
        for route in ROUTES {
            for method in route.methods {
                let found = Match::find(method, &example(route));
                assert!(
                    matches!(found, Match::Route(found) if found.path == route.path),
                    "{method} {}",
                    route.path
                );
            }
        }
        let fallback: Vec<bool> = ROUTES.iter().map(Route::is_fallback).collect();
        assert!(fallback.is_sorted() && fallback.contains(&true), "the fallback is last");
    }

    fn path_of(method: &Method, path: &str) -> &'static str {
        match Match::find(method, path) {
            Match::Route(route) => route.path,
            Match::WrongMethod(_) => "",
        }
    }

    #[test]
    fn a_key_may_have_the_name_of_an_action() {
        assert_eq!(path_of(&Method::POST, "/limit/p/acquire"), "/limit/{policy}/acquire");
        assert_eq!(path_of(&Method::GET, "/limit/p/acquire"), "/limit/{policy}/{key...}");
        assert_eq!(path_of(&Method::DELETE, "/limit/p/acquire"), "/limit/{policy}/{key...}");
        assert_eq!(path_of(&Method::POST, "/limit/p/acquire/"), "/limit/{policy}/{action...}");
        assert_eq!(path_of(&Method::GET, "/limit/p"), "/limit/{policy}");
        assert_eq!(path_of(&Method::GET, "/limit/"), "/limit/{policy}");
        assert_eq!(allow("/limit/p/acquire"), "GET, POST, DELETE, HEAD");
        assert_eq!(allow("/limit/p/k"), "GET, POST, DELETE, HEAD");
        assert_eq!(allow("/limit/p"), "GET, POST, HEAD");
    }

    #[test]
    fn parameters_are_segments_or_the_rest_of_the_path() {
        let Match::Route(peek) = Match::find(&Method::GET, "/limit/p/a%2Fb/c") else { panic!("no route") };
        assert_eq!(peek.parameter("policy", "/limit/p/a%2Fb/c"), Some("p"));
        assert_eq!(peek.parameter("key", "/limit/p/a%2Fb/c"), Some("a%2Fb/c"));
        assert_eq!(peek.parameter("key", "/limit//"), Some(""));
        assert_eq!(peek.parameter("action", "/limit/p/k"), None);
        assert_eq!(peek.parameter("key", "/limit"), None);
    }

    #[test]
    fn head_finds_the_row_of_get_and_other_methods_do_not() {
        assert_eq!(path_of(&Method::HEAD, "/healthz"), "/healthz");
        assert!(matches!(Match::find(&Method::POST, "/healthz"), Match::WrongMethod(_)));
        assert_eq!(allow("/healthz"), "GET, HEAD");
        assert_eq!(allow("/"), "GET, POST, PUT, HEAD");
        assert_eq!(allow("*"), "GET, POST, PUT, HEAD");
    }

    /// Users scrape these: they stay as they are.
    #[test]
    fn labels_are_bounded_and_do_not_change() {
        for (path, label) in [
            ("/any/thing", "/*"),
            ("/", "/*"),
            ("*", "/*"),
            ("/kv", "/kv"),
            ("/kv/a", "/kv/*"),
            ("/kv:batch", "/kv:batch"),
            ("/sync", "/sync"),
            ("/limit", "/limit"),
            ("/limit/p", "/limit/*"),
            ("/limit/p/acquire", "/limit/*"),
            ("/limit/p/k", "/limit/*"),
            ("/subscribe/a/b", "/subscribe/*"),
            ("/psubscribe/a", "/psubscribe/*"),
            ("/healthz", "/healthz"),
        ] {
            assert_eq!(Match::find(&Method::GET, path).label(), label, "{path}");
        }
        assert!(ROUTES.iter().all(|route| !route.label.contains('{')));
        assert_eq!(method_label(&Method::from_bytes(b"BREW").unwrap()), "other");
        assert_eq!(method_label(&Method::DELETE), "DELETE");
    }
}
