//! The table of routes, and how a request finds its row. Pure.
//!
//! Handlers are async functions, all of one shape. The table makes one `match` of them rather than a column of
//! function pointers, because what such a pointer returns would have to be boxed, for every request.

use bytes::Bytes;
use hyper::{Method, Request};

use super::reply::Reply;
use super::{backup, health, metrics};
use crate::app::App;

/// Who may call a route when a token is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anybody: probes have no token.
    Open,
    /// Whoever brings the token.
    Token,
}

/// One route.
pub struct Route {
    /// `GET` also takes `HEAD`.
    pub method: Method,
    /// The whole path.
    pub path: &'static str,
    /// The same for all routes of a path.
    pub access: Access,
    endpoint: Endpoint,
}

/// Makes the table, and the `match` that runs a row's handler.
macro_rules! routes {
    ($($endpoint:ident: $method:ident $path:literal, $access:ident => $handler:path;)+) => {
        /// What answers a route.
        #[derive(Clone, Copy)]
        enum Endpoint { $($endpoint),+ }

        /// Every route there is.
        pub const ROUTES: &[Route] = &[$(Route {
            method: Method::$method,
            path: $path,
            access: Access::$access,
            endpoint: Endpoint::$endpoint,
        }),+];

        impl Route {
            /// Answers a request whose body has arrived.
            pub async fn answer(&self, app: &App, request: &Request<Bytes>) -> Reply {
                match self.endpoint { $(Endpoint::$endpoint => $handler(app, request).await),+ }
            }
        }
    };
}

routes! {
    Healthz: GET "/healthz", Open => health::healthz;
    Readyz: GET "/readyz", Open => health::readyz;
    Metrics: GET "/metrics", Token => metrics::metrics;
    Backup: POST "/admin/backup", Token => backup::backup;
}

/// The route label of requests that have no row, so that a scan of paths does not grow the metrics.
pub const UNMATCHED: &str = "unmatched";

/// What the table says about a request.
#[derive(Clone, Copy)]
pub enum Match {
    /// This row answers.
    Route(&'static Route),
    /// The path of this row is right, but no row of that path has the method.
    WrongMethod(&'static Route),
    /// No row has the path.
    Nothing,
}

impl Match {
    /// Looks a request up.
    #[must_use]
    pub fn find(method: &Method, path: &str) -> Match {
        let method = if method == Method::HEAD { &Method::GET } else { method };
        let mut of_path = ROUTES.iter().filter(|route| route.path == path);
        let Some(first) = of_path.next() else {
            return Match::Nothing;
        };
        let mut all = std::iter::once(first).chain(of_path);
        all.find(|route| route.method == method).map_or(Match::WrongMethod(first), Match::Route)
    }

    /// The bounded name of the request for metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Match::Route(route) | Match::WrongMethod(route) => route.path,
            Match::Nothing => UNMATCHED,
        }
    }

    /// Who may hear the answer. A stranger does not even learn which paths there are.
    #[must_use]
    pub fn access(self) -> Access {
        match self {
            Match::Route(route) | Match::WrongMethod(route) => route.access,
            Match::Nothing => Access::Token,
        }
    }
}

/// The methods of a path, as the `Allow` header lists them.
#[must_use]
pub fn allow(path: &str) -> String {
    let mut methods: Vec<&str> =
        ROUTES.iter().filter(|r| r.path == path).map(|r| r.method.as_str()).collect();
    if methods.contains(&"GET") {
        methods.push("HEAD");
    }
    methods.join(", ")
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
        let pairs: HashSet<_> = ROUTES.iter().map(|r| (&r.method, r.path)).collect();
        assert_eq!(pairs.len(), ROUTES.len());
    }

    #[test]
    fn paths_are_plain_and_have_one_access_each() {
        let mut access_of = HashMap::new();
        for route in ROUTES {
            assert!(route.path.starts_with('/') && route.path.is_ascii() && !route.path.contains(['?', ' ']));
            assert_eq!(*access_of.entry(route.path).or_insert(route.access), route.access, "{}", route.path);
            assert_ne!(route.method, Method::HEAD, "GET takes HEAD: {}", route.path);
        }
    }

    #[test]
    fn head_finds_the_row_of_get_and_other_methods_do_not() {
        assert!(matches!(Match::find(&Method::HEAD, "/healthz"), Match::Route(r) if r.path == "/healthz"));
        assert!(matches!(Match::find(&Method::POST, "/healthz"), Match::WrongMethod(_)));
        assert!(matches!(Match::find(&Method::GET, "/healthz/"), Match::Nothing));
        assert_eq!(allow("/healthz"), "GET, HEAD");
    }

    #[test]
    fn labels_are_bounded() {
        assert_eq!(Match::find(&Method::GET, "/any/thing").label(), UNMATCHED);
        assert_eq!(method_label(&Method::from_bytes(b"BREW").unwrap()), "other");
        assert_eq!(method_label(&Method::DELETE), "DELETE");
    }
}
