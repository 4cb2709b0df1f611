//! One request's way: find its row, check the token, take the body, run the handler, count. Touches the
//! request's connection, through its body.

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{AUTHORIZATION, CONNECTION, HeaderValue};
use hyper::{HeaderMap, Request};
use keystead_core::{Code, Error, Stopwatch};

use super::reply::{self, Reply};
use super::routes::{Access, Match, allow, method_label};
use crate::app::App;
use crate::limits::Limits;
use crate::settings::Token;

/// Answers a request, whatever it is.
pub async fn answer(app: &App, limits: &Limits, request: Request<Incoming>) -> Reply {
    let stopwatch = Stopwatch::start();
    let found = Match::find(request.method(), request.uri().path());
    let method = method_label(request.method());
    let reply = run(app, limits, found, request).await.unwrap_or_else(|refusal| refusal);
    let (route, status, took) = (found.label(), reply.status().as_u16(), stopwatch.elapsed());
    app.metrics.record_request(route, method, status, took);
    // The path is not logged: one day it holds keys and values.
    tracing::debug!(route, method, status, took_us = took.as_micros() as u64, "request");
    reply
}

async fn run(app: &App, limits: &Limits, found: Match, request: Request<Incoming>) -> Result<Reply, Reply> {
    if let (Access::Token, Some(token)) = (found.access(), &app.settings.token)
        && !is_authorized(token, request.headers())
    {
        return Err(reply::unauthorized());
    }
    let path = request.uri().path();
    match found {
        Match::Nothing => Err(reply::not_found(path)),
        Match::WrongMethod(_) => {
            Err(reply::method_not_allowed(request.method().as_str(), path, &allow(path)))
        }
        Match::Route(route) => {
            let request = with_body(limits, request).await?;
            Ok(route.answer(app, &request).await)
        }
    }
}

fn is_authorized(token: &Token, headers: &HeaderMap) -> bool {
    const SCHEME: &[u8] = b"bearer ";
    let Some(value) = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes) else {
        return false;
    };
    match value.split_at_checked(SCHEME.len()) {
        Some((scheme, offered)) => scheme.eq_ignore_ascii_case(SCHEME) && token.matches(offered),
        None => false,
    }
}

/// Waits for the whole body, within its limits of size and time.
async fn with_body(limits: &Limits, request: Request<Incoming>) -> Result<Request<Bytes>, Reply> {
    let (head, body) = request.into_parts();
    if body.is_end_stream() {
        return Ok(Request::from_parts(head, Bytes::new()));
    }
    let too_large = || {
        let message = format!("the body is over {} bytes", limits.body_bytes_max);
        reply::error(&Error::new(Code::TooLarge, message))
    };
    // A client that says how much it will send is answered before it sends it.
    if body.size_hint().lower() > limits.body_bytes_max as u64 {
        return Err(too_large());
    }
    let whole = Limited::new(body, limits.body_bytes_max).collect();
    match tokio::time::timeout(limits.body_timeout, whole).await {
        Ok(Ok(body)) => Ok(Request::from_parts(head, body.to_bytes())),
        Ok(Err(e)) if e.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(e)) => {
            Err(reply::error(&Error::new(Code::BadRequest, format!("the body cannot be read: {e}"))))
        }
        Err(_) => {
            let mut reply = reply::timed_out();
            // The rest of the body may still come, so the connection cannot carry another request.
            reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            Err(reply)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_token_in_the_right_scheme_is_let_in() {
        let token = Token::parse("s3cret").unwrap();
        for (header, is_right) in [
            ("Bearer s3cret", true),
            ("bearer s3cret", true),
            ("Bearer  s3cret", false),
            ("Bearer s3cret ", false),
            ("Bearer", false),
            ("Bearer ", false),
            ("Basic s3cret", false),
            ("s3cret", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(header))]);
            assert_eq!(is_authorized(&token, &headers), is_right, "{header:?}");
        }
        assert!(!is_authorized(&token, &HeaderMap::new()));
    }
}
