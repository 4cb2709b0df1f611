//! The service of the layer: checks the limit, delays if needed, calls the inner service, and writes the headers.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body::Body;
use keystead_core::{Code, Error, Millis, Result, Store};
use tower_service::Service;

use super::body::{Held, LimitBody};
use super::{Rules, Source};
use crate::decision::Decision;
use crate::fail_mode::is_broken;
use crate::lease::Lease;
use crate::strategy::AnyStrategy;

/// A service with a [`LimitLayer`](super::LimitLayer) in front.
pub struct LimitService<S, I> {
    rules: Arc<Rules<S>>,
    inner: I,
}

impl<S, I> LimitService<S, I> {
    pub(super) fn new(rules: Arc<Rules<S>>, inner: I) -> Self {
        LimitService { rules, inner }
    }
}

impl<S, I: Clone> Clone for LimitService<S, I> {
    fn clone(&self) -> Self {
        LimitService { rules: self.rules.clone(), inner: self.inner.clone() }
    }
}

/// A decision, its instant, and the lease if there is one.
type Checked = (Decision, Millis, Option<Box<dyn Held>>);

impl<S: Store + 'static> Rules<S> {
    async fn ask(&self, key: &str, cost: u64) -> Result<Checked> {
        let limiter = match &self.source {
            Source::Limiter(limiter) => limiter,
            Source::Tiered(tiered) => {
                let decision = tiered.check(key, cost).await?;
                return Ok((decision, tiered.limiter().local_clock().now(), None));
            }
        };
        let (key, ask) = (limiter.key(key.as_bytes())?, limiter.ask(cost)?);
        if let AnyStrategy::Concurrency(_) = limiter.policy().strategy() {
            let (decision, now, lease) = Lease::ask(limiter, key, ask).await?;
            return Ok((decision, now, lease.map(|lease| Box::new(lease) as Box<dyn Held>)));
        }
        let (decision, now) = limiter.check_timed(&key, ask).await?;
        Ok((decision, now, None))
    }

    async fn wait(&self, decision: &Decision) {
        if let (Some(sleep), Some(delay_ms @ 1..)) = (&self.sleep, decision.delay_ms) {
            sleep(Duration::from_millis(delay_ms)).await;
        }
    }

    /// Headers of an inner limit are kept: it is the one that the client has reached.
    fn write_headers(&self, headers: &mut HeaderMap, decision: &Decision, now: Millis) {
        for (name, value) in self.headers.of(decision, now) {
            // Names are constants, and values are digits or sanitized names.
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
                headers.entry(name).or_insert(value);
            }
        }
    }

    fn denied<B>(&self, decision: &Decision, now: Millis) -> Response<LimitBody<B>> {
        let mut response = rejection(StatusCode::TOO_MANY_REQUESTS, decision.to_json().unwrap_or_default());
        self.write_headers(response.headers_mut(), decision, now);
        response
    }
}

/// An error's message may reveal internals; a client gets its code only.
fn failed<B>(error: &Error) -> Response<LimitBody<B>> {
    let status = match error.code() {
        Code::BadRequest | Code::TooLarge => StatusCode::BAD_REQUEST,
        _ if is_broken(error) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut response = rejection(status, format!("{{\"code\":\"{}\"}}", error.code()));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

fn rejection<B>(status: StatusCode, text: String) -> Response<LimitBody<B>> {
    let mut response = Response::new(LimitBody::rejection(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

impl<S, I, ReqBody, ResBody> Service<Request<ReqBody>> for LimitService<S, I>
where
    S: Store + 'static,
    I: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone + Send + 'static,
    I::Future: Send,
    ReqBody: Send + 'static,
    ResBody: Body<Data = Bytes>,
{
    type Response = Response<LimitBody<ResBody>>;
    type Error = I::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, I::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), I::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        // The clone is not ready, so it is kept, and the ready one is used.
        let clone = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, clone);
        let rules = self.rules.clone();
        let (parts, body) = request.into_parts();
        Box::pin(async move { run(&rules, inner, parts, body).await })
    }
}

async fn run<S, I, ReqBody, ResBody>(
    rules: &Rules<S>,
    mut inner: I,
    parts: Parts,
    body: ReqBody,
) -> Result<Response<LimitBody<ResBody>>, I::Error>
where
    S: Store + 'static,
    I: Service<Request<ReqBody>, Response = Response<ResBody>>,
{
    let Some(key) = (rules.key_of)(&parts) else {
        let response = inner.call(Request::from_parts(parts, body)).await?;
        return Ok(response.map(|body| LimitBody::service(body, None)));
    };
    let cost = (rules.cost_of)(&parts);
    let (decision, now, held) = match rules.ask(&key, cost).await {
        Ok(checked) => checked,
        Err(error) => return Ok(failed(&error)),
    };
    if !decision.allowed {
        return Ok(rules.denied(&decision, now));
    }
    rules.wait(&decision).await;
    let mut response = inner.call(Request::from_parts(parts, body)).await?;
    rules.write_headers(response.headers_mut(), &decision, now);
    Ok(response.map(|body| LimitBody::service(body, held)))
}
