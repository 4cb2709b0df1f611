//! A tower `Layer` for axum, hyper and tonic: key and cost from the request, headers on every response.
//!
//! | Result of the check | Response |
//! |---|---|
//! | allowed | the service's, with headers |
//! | denied | 429 with `Retry-After`, the decision as JSON |
//! | the store failed, and the limit fails closed | 503 with `Retry-After` |
//! | invalid key or cost | 400 |
//!
//! A slot of a `concurrency` policy is held until the body of the response has ended, failed or been dropped, and is released
//! exactly once: also if the client disconnects while the service runs, or while the store is still working on the check.
//!
//! `examples/axum.rs` is a complete service that limits by client address.

mod body;
mod service;

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use keystead_core::{Code, Error, Result, Store};
use tower_layer::Layer;

use crate::client::ClientAddress;
use crate::headers::{HeaderStyles, Headers};
use crate::limiter::Limiter;
use crate::strategy::AnyStrategy;
use crate::tier::Tiered;

pub use body::LimitBody;
pub use service::LimitService;

type KeyOf = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;
type CostOf = Arc<dyn Fn(&Parts) -> u64 + Send + Sync>;
type Sleep = Arc<dyn Fn(Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Limits the requests of a service.
///
/// ```
/// use std::convert::Infallible;
/// use std::sync::Arc;
///
/// use http::{Request, Response, StatusCode};
/// use http_body_util::Full;
/// use bytes::Bytes;
/// use keystead_limit::strategy::Gcra;
/// use keystead_limit::{FailMode, LimitLayer, Limiter};
/// use tower_layer::Layer;
/// use tower_service::Service;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # runtime.block_on(async {
/// let limiter = Arc::new(Limiter::in_memory(Gcra::new(1, 60_000, None)?, FailMode::Closed));
/// // An outer layer must have verified the API key, or a client could choose its limit.
/// let layer = LimitLayer::new(limiter, |request| {
///     Some(request.headers.get("x-api-key")?.to_str().ok()?.to_string())
/// })?;
///
/// // Any tower service; in axum this is `Router::new().route(..).layer(layer)`.
/// #[derive(Clone)]
/// struct Hello;
/// impl Service<Request<()>> for Hello {
///     type Response = Response<Full<Bytes>>;
///     type Error = Infallible;
///     type Future = std::future::Ready<Result<Self::Response, Infallible>>;
///     fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
///         std::task::Poll::Ready(Ok(()))
///     }
///     fn call(&mut self, _: Request<()>) -> Self::Future {
///         std::future::ready(Ok(Response::new(Full::from("hello"))))
///     }
/// }
///
/// let mut service = layer.layer(Hello);
/// let request = || Request::builder().header("x-api-key", "ada").body(()).unwrap();
/// let first = service.call(request()).await.unwrap();
/// assert_eq!(first.headers()["ratelimit-remaining"], "0");
/// let second = service.call(request()).await.unwrap();
/// assert_eq!(second.status(), StatusCode::TOO_MANY_REQUESTS);
/// assert_eq!(second.headers()["retry-after"], "60");
/// # Ok::<(), keystead_core::Error>(())
/// # }).unwrap();
/// ```
pub struct LimitLayer<S> {
    rules: Arc<Rules<S>>,
}

/// The configuration that all services of a layer share.
pub(crate) struct Rules<S> {
    source: Source<S>,
    key_of: KeyOf,
    cost_of: CostOf,
    styles: HeaderStyles,
    headers: Headers,
    sleep: Option<Sleep>,
}

enum Source<S> {
    Limiter(Arc<Limiter<S>>),
    Tiered(Arc<Tiered<S>>),
}

impl<S: Store + 'static> LimitLayer<S> {
    /// Limits by the key that `key_of` returns for a request; see [`client_key`]. A request for which it returns `None` is not
    /// limited. Never use a key that a client can choose freely.
    ///
    /// # Errors
    /// `config_invalid` for a `leakyBucket` (see [`shaping`](LimitLayer::shaping)), and for `concurrency` on an asynchronous store if
    /// the limiter has no [`spawn_with`](Limiter::spawn_with) to release leases with.
    pub fn new(
        limiter: Arc<Limiter<S>>,
        key_of: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Result<Self> {
        let strategy = limiter.policy().strategy();
        if matches!(strategy, AnyStrategy::LeakyBucket(_)) {
            return invalid("a leakyBucket delays requests: build the layer with LimitLayer::shaping");
        }
        let waits = !limiter.store().capabilities().sync && limiter.spawner().is_none();
        if matches!(strategy, AnyStrategy::Concurrency(_)) && waits {
            return invalid("this store is asynchronous: set how the limiter releases leases (spawn_with)");
        }
        Ok(LimitLayer::build(Source::Limiter(limiter), key_of, None))
    }

    /// Delays requests to an even rate, with a `leakyBucket`. `sleep` is the runtime's timer, for example
    /// `|time| Box::pin(tokio::time::sleep(time))`.
    ///
    /// # Errors
    /// `config_invalid` for another kind of policy.
    pub fn shaping(
        limiter: Arc<Limiter<S>>,
        key_of: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
        sleep: impl Fn(Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync + 'static,
    ) -> Result<Self> {
        match limiter.policy().strategy() {
            AnyStrategy::LeakyBucket(_) => {
                Ok(LimitLayer::build(Source::Limiter(limiter), key_of, Some(Arc::new(sleep))))
            }
            _ => invalid("only a leakyBucket delays requests: build the layer with LimitLayer::new"),
        }
    }

    /// Limits with a local tier in front of the shared store.
    ///
    /// # Errors
    /// `config_invalid` for `leakyBucket` and `concurrency`, which gain nothing from it.
    pub fn tiered(
        tiered: Arc<Tiered<S>>,
        key_of: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Result<Self> {
        match tiered.limiter().policy().strategy() {
            AnyStrategy::LeakyBucket(_) | AnyStrategy::Concurrency(_) => {
                invalid("a local tier is for limits that deny, not for delays and leases")
            }
            _ => Ok(LimitLayer::build(Source::Tiered(tiered), key_of, None)),
        }
    }

    fn build(
        source: Source<S>,
        key_of: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
        sleep: Option<Sleep>,
    ) -> Self {
        let styles = HeaderStyles::default();
        let headers = Headers::new(source.limiter().policy(), styles);
        let (key_of, cost_of): (KeyOf, CostOf) = (Arc::new(key_of), Arc::new(|_| 1));
        LimitLayer { rules: Arc::new(Rules { source, key_of, cost_of, styles, headers, sleep }) }
    }

    /// What a request costs (default 1).
    #[must_use]
    pub fn cost(self, cost_of: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> Self {
        self.with(|rules| rules.cost_of = Arc::new(cost_of))
    }

    /// Which headers a response has (default: the plain ones).
    #[must_use]
    pub fn headers(self, styles: HeaderStyles) -> Self {
        self.with(|rules| {
            rules.styles = styles;
            rules.headers = Headers::new(rules.source.limiter().policy(), styles);
        })
    }

    fn with(self, change: impl FnOnce(&mut Rules<S>)) -> Self {
        let mut rules = Arc::unwrap_or_clone(self.rules);
        change(&mut rules);
        LimitLayer { rules: Arc::new(rules) }
    }
}

fn invalid<T>(message: &'static str) -> Result<T> {
    Err(Error::new(Code::ConfigInvalid, message))
}

impl<S> Source<S> {
    fn limiter(&self) -> &Limiter<S>
    where
        S: Store,
    {
        match self {
            Source::Limiter(limiter) => limiter,
            Source::Tiered(tiered) => tiered.limiter(),
        }
    }
}

impl<S> Clone for LimitLayer<S> {
    fn clone(&self) -> Self {
        LimitLayer { rules: self.rules.clone() }
    }
}

impl<S> Clone for Source<S> {
    fn clone(&self) -> Self {
        match self {
            Source::Limiter(limiter) => Source::Limiter(limiter.clone()),
            Source::Tiered(tiered) => Source::Tiered(tiered.clone()),
        }
    }
}

impl<S> Clone for Rules<S> {
    fn clone(&self) -> Self {
        Rules {
            source: self.source.clone(),
            key_of: self.key_of.clone(),
            cost_of: self.cost_of.clone(),
            styles: self.styles,
            headers: self.headers.clone(),
            sleep: self.sleep.clone(),
        }
    }
}

impl<S, I> Layer<I> for LimitLayer<S> {
    type Service = LimitService<S, I>;

    fn layer(&self, inner: I) -> Self::Service {
        LimitService::new(self.rules.clone(), inner)
    }
}

/// The key of a request by its client address. `peer` returns the peer address of the connection, which the server must have put
/// into the request.
///
/// In axum, serve with `router.into_make_service_with_connect_info::<SocketAddr>()` and read it with
/// `|request| request.extensions.get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip())`. With hyper, insert the address of the
/// accepted socket into `request.extensions_mut()`.
///
/// **All requests without a peer address share one key**, so that none escapes the limit: if `peer` always returns `None`, all
/// clients share one limit.
pub fn client_key(
    address: ClientAddress,
    peer: impl Fn(&Parts) -> Option<IpAddr> + Send + Sync + 'static,
) -> impl Fn(&Parts) -> Option<String> + Send + Sync + 'static {
    move |request| {
        let Some(peer) = peer(request) else { return Some("unknown peer".to_string()) };
        let forwarded = request.headers.get_all("x-forwarded-for");
        // Bytes that are not UTF-8 stay entries that are no address; dropping them would let a client hide the proxy's own entry.
        let forwarded: Vec<_> =
            forwarded.iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        Some(address.key(peer, forwarded.iter().map(|value| &**value)))
    }
}

#[cfg(test)]
mod tests;
