//! The table of routes, and how a request finds its row. Pure.
//!
//! Handlers are async functions, all of one shape. The table makes one `match` of them rather than a column of
//! function pointers, because what such a pointer returns would have to be boxed, for every request.

use hyper::Method;

use super::context::HttpContext;
use super::openapi::part::Described;
use super::reply::Reply;
use super::request::HttpRequest;
use super::{backup, health, kv, limit, metrics, openapi, upstash};

/// Who may call a route when a token is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anybody: probes have no token.
    Open,
    /// Whoever brings the token.
    Token,
    /// Whoever brings a token, also in the query or one that only reads; refusals have Upstash's form.
    Upstash,
    /// As `Rest`, with refusals in the form of the house.
    Documents,
}

/// Whether a route takes a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// It does, or clients are used to send one that means nothing (`DELETE`). It is read after the token was checked.
    Body,
    /// It does not: a request with one is answered `413`, and none of it is read.
    Nothing,
}

/// One route.
pub struct Route {
    /// `GET` also takes `HEAD`.
    pub methods: &'static [Method],
    /// The whole path, or its beginning where it ends in `*`.
    pub path: &'static str,
    /// The same for all routes of a path.
    pub access: Access,
    /// Whether its requests have a body.
    pub takes: Takes,
    /// What OpenAPI tells of it, for one of its methods.
    pub(super) described: fn(&Method) -> Vec<Described>,
    endpoint: Endpoint,
}

/// Makes the table, and the `match` that runs a row's handler.
macro_rules! routes {
    ($($endpoint:ident: $($method:ident)+, $path:literal, $access:ident, $takes:ident => $handler:path, $described:path;)+) => {
        /// What answers a route.
        #[derive(Clone, Copy)]
        enum Endpoint { $($endpoint),+ }

        /// Every route there is. The first one that fits answers.
        pub const ROUTES: &[Route] = &[$(Route {
            methods: &[$(Method::$method),+],
            path: $path,
            access: Access::$access,
            takes: Takes::$takes,
            described: $described,
            endpoint: Endpoint::$endpoint,
        }),+];

        impl Route {
            /// Answers a request whose body has arrived.
            pub async fn answer(&self, context: &HttpContext, request: &HttpRequest) -> Reply {
                match self.endpoint { $(Endpoint::$endpoint => $handler(context, request).await),+ }
            }
        }
    };
}

routes! {
    Healthz: GET, "/healthz", Open, Nothing => health::healthz, health::healthz_described;
    Readyz: GET, "/readyz", Open, Nothing => health::readyz, health::readyz_described;
    Metrics: GET, "/metrics", Token, Nothing => metrics::metrics, metrics::described;
    Openapi: GET, "/openapi.json", Open, Nothing => openapi::openapi, openapi::described;
    Backup: POST, "/admin/backup", Token, Body => backup::backup, backup::described;
    KvList: GET, "/kv", Documents, Nothing => kv::list, kv::openapi::list;
    KvBatch: POST, "/kv:batch", Documents, Body => kv::batch, kv::openapi::batch;
    KvGet: GET, "/kv/*", Documents, Nothing => kv::get, kv::openapi::get;
    KvPut: PUT, "/kv/*", Documents, Body => kv::put, kv::openapi::put;
    KvPatch: PATCH, "/kv/*", Documents, Body => kv::patch, kv::openapi::patch;
    KvDelete: DELETE, "/kv/*", Documents, Body => kv::delete, kv::openapi::delete;
    LimitList: GET, "/limit", Documents, Nothing => limit::list, limit::openapi::list;
    LimitCombined: POST, "/limit", Documents, Body => limit::combined, limit::openapi::combined;
    LimitGet: GET, "/limit/*", Documents, Nothing => limit::get, limit::openapi::get;
    LimitPost: POST, "/limit/*", Documents, Body => limit::post, limit::openapi::post;
    LimitDelete: DELETE, "/limit/*", Documents, Body => limit::delete, limit::openapi::delete;
    Pipeline: POST PUT, "/pipeline", Upstash, Body => upstash::pipeline, upstash::openapi::pipeline;
    MultiExec: POST PUT, "/multi-exec", Upstash, Body => upstash::multi_exec, upstash::openapi::multi_exec;
    Subscribe: GET POST, "/subscribe/*", Upstash, Body => upstash::subscribe, upstash::openapi::subscribe;
    Psubscribe: GET POST, "/psubscribe/*", Upstash, Body => upstash::psubscribe, upstash::openapi::psubscribe;
    Monitor: GET POST, "/monitor", Upstash, Body => upstash::monitor, upstash::openapi::monitor;
    // The last: whatever is left is a command.
    Command: GET POST PUT, "/*", Upstash, Body => upstash::command, upstash::openapi::command;
}

impl Route {
    fn has(&self, path: &str) -> bool {
        match self.path.strip_suffix('*') {
            Some(start) => path.starts_with(start),
            None => self.path == path,
        }
    }

    fn has_method(&self, method: &Method) -> bool {
        let method = if method == Method::HEAD { &Method::GET } else { method };
        self.methods.contains(method)
    }
}

/// What the table says about a request.
#[derive(Clone, Copy)]
pub enum Match {
    /// This row answers.
    Route(&'static Route),
    /// The path of this row is right, but no row of that path has the method.
    WrongMethod(&'static Route),
}

impl Match {
    /// Looks a request up.
    #[must_use]
    pub fn find(method: &Method, path: &str) -> Match {
        // A path that is nobody's (`OPTIONS *`) is the last row's.
        let first = ROUTES.iter().find(|route| route.has(path)).unwrap_or(&ROUTES[ROUTES.len() - 1]);
        let mut of_path = ROUTES.iter().filter(|route| route.path == first.path);
        of_path.find(|route| route.has_method(method)).map_or(Match::WrongMethod(first), Match::Route)
    }

    fn route(self) -> &'static Route {
        match self {
            Match::Route(route) | Match::WrongMethod(route) => route,
        }
    }

    /// The bounded name of the request for metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        self.route().path
    }

    /// Who may hear the answer.
    #[must_use]
    pub fn access(self) -> Access {
        self.route().access
    }

    /// Whether pages in browsers may ask, too.
    #[must_use]
    pub fn is_for_pages(self) -> bool {
        matches!(self.access(), Access::Upstash | Access::Documents)
    }

    /// The methods that the path takes, as the `Allow` header lists them.
    #[must_use]
    pub fn allow(self) -> String {
        let of_path = ROUTES.iter().filter(|route| route.path == self.label());
        let mut methods: Vec<&str> = of_path.flat_map(|route| route.methods).map(Method::as_str).collect();
        if methods.contains(&"GET") {
            methods.push("HEAD");
        }
        methods.join(", ")
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
    use std::collections::{HashMap, HashSet};

    use super::*;

    #[test]
    fn no_two_rows_have_the_same_method_and_path() {
        let pairs: Vec<_> = ROUTES.iter().flat_map(|r| r.methods.iter().map(|m| (m, r.path))).collect();
        assert_eq!(pairs.iter().collect::<HashSet<_>>().len(), pairs.len());
    }

    #[test]
    fn paths_are_plain_and_have_one_access_each() {
        let mut access_of = HashMap::new();
        for route in ROUTES {
            assert!(route.path.starts_with('/') && route.path.is_ascii() && !route.path.contains(['?', ' ']));
            assert_eq!(*access_of.entry(route.path).or_insert(route.access), route.access, "{}", route.path);
            assert!(!route.methods.contains(&Method::HEAD), "GET takes HEAD: {}", route.path);
        }
    }

    /// A row behind one that takes all its paths would never answer.
    #[test]
    fn every_row_can_be_found() {
        for route in ROUTES {
            let path = route.path.replace('*', "x");
            assert_eq!(Match::find(&route.methods[0], &path).label(), route.path);
        }
        assert_eq!(ROUTES[ROUTES.len() - 1].path, "/*");
    }

    #[test]
    fn head_finds_the_row_of_get_and_other_methods_do_not() {
        assert!(matches!(Match::find(&Method::HEAD, "/healthz"), Match::Route(r) if r.path == "/healthz"));
        let wrong = Match::find(&Method::POST, "/healthz");
        assert!(matches!(wrong, Match::WrongMethod(_)));
        assert_eq!(wrong.allow(), "GET, HEAD");
        assert_eq!(Match::find(&Method::DELETE, "/").allow(), "GET, POST, PUT, HEAD");
    }

    #[test]
    fn labels_are_bounded() {
        assert_eq!(Match::find(&Method::GET, "/any/thing").label(), "/*");
        assert_eq!(Match::find(&Method::OPTIONS, "*").label(), "/*");
        assert_eq!(method_label(&Method::from_bytes(b"BREW").unwrap()), "other");
        assert_eq!(method_label(&Method::DELETE), "DELETE");
    }
}
