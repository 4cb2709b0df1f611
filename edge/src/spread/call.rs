//! Calls of objects, and one response from theirs. Touches the objects.

use std::cell::Cell;

use futures_util::future::join_all;
use http::request::Parts;
use http::{Method, StatusCode};
use js_sys::Uint8Array;
use keystead_commands::wire::json;
use keystead_http_api::upstash::SYNC_TOKEN;
use serde_json::value::RawValue;
use worker::{Env, Headers, Request, RequestInit, Response};

use crate::exchange::{JSON, Reply};
use crate::gate::{self, DATABASE};
use crate::object::{ROWS_READ, ROWS_WRITTEN};

/// The number of the object that a request is for.
pub(super) const OBJECT_NUMBER: &str = "keystead-object";

/// The result of one command, as a pipeline has it: `{"result":...}` or `{"error":...}`.
pub(super) type Unit = Box<RawValue>;

/// The objects of a database, and a request to them.
pub(super) struct Objects<'a> {
    env: &'a Env,
    pub(super) head: &'a Parts,
    origin: String,
    pub(super) count: usize,
    /// Rows that the objects have read and written, and the last sync token.
    read: Cell<u64>,
    written: Cell<u64>,
    token: Cell<u64>,
}

/// `{"error":"..."}`
pub(super) fn error_unit(words: &str) -> Unit {
    let mut out = Vec::new();
    json::error(words, &mut out);
    String::from_utf8(out).ok().and_then(|text| RawValue::from_string(text).ok()).unwrap_or_default()
}

impl<'a> Objects<'a> {
    pub(super) fn of(env: &'a Env, request: &Request, head: &'a Parts, count: usize) -> worker::Result<Self> {
        let origin = request.url()?.origin().ascii_serialization();
        let [read, written, token] = [(); 3].map(|()| Cell::new(0));
        Ok(Objects { env, head, origin, count, read, written, token })
    }

    /// Passes a request on as it is.
    pub(super) async fn pass(&self, object: usize, request: Request) -> worker::Result<Response> {
        gate::call(self.env, DATABASE, &object.to_string(), request, self.head).await
    }

    /// The same request, to one object.
    pub(super) async fn forward(&self, object: usize, body: &[u8]) -> worker::Result<Response> {
        let target = self.head.uri.path_and_query().map_or("/", |target| target.as_str());
        let has_body = !matches!(self.head.method, Method::GET | Method::HEAD);
        self.call(object, self.head.method.as_str(), target, has_body.then_some(body)).await
    }

    /// A request with the headers of this one.
    pub(super) async fn call(
        &self,
        object: usize,
        method: &str,
        target: &str,
        body: Option<&[u8]>,
    ) -> worker::Result<Response> {
        let headers = Headers::new();
        for (name, value) in self.head.headers.iter().filter(|(name, _)| *name != "content-length") {
            headers.append(name.as_str(), &String::from_utf8_lossy(value.as_bytes()))?;
        }
        headers.set(OBJECT_NUMBER, &object.to_string())?;
        let mut init = RequestInit::new();
        init.with_method(method.to_owned().into()).with_headers(headers);
        init.with_body(body.filter(|body| !body.is_empty()).map(|body| Uint8Array::from(body).into()));
        self.pass(object, Request::new_with_init(&format!("{}{target}", self.origin), &init)?).await
    }

    /// Reads a response that is put together with others.
    async fn whole(&self, mut response: Response) -> worker::Result<(StatusCode, Vec<u8>)> {
        let number = |name| response.headers().get(name).ok().flatten().and_then(|text| text.parse().ok());
        self.read.set(self.read.get() + number(ROWS_READ).unwrap_or(0));
        self.written.set(self.written.get() + number(ROWS_WRITTEN).unwrap_or(0));
        self.token.set(self.token.get().max(number(SYNC_TOKEN).unwrap_or(0)));
        let status = StatusCode::from_u16(response.status_code()).unwrap_or(StatusCode::BAD_GATEWAY);
        Ok((status, response.bytes().await?))
    }

    /// Runs commands on an object, in order. If the object runs none of them, each has the error.
    async fn part(&self, object: usize, commands: &[Vec<&str>]) -> Vec<Unit> {
        let all = |words: &str| commands.iter().map(|_| error_unit(words)).collect();
        let body = serde_json::to_vec(commands).unwrap_or_default();
        let called = match self.call(object, "POST", "/pipeline", Some(&body)).await {
            Ok(response) => self.whole(response).await,
            Err(error) => Err(error),
        };
        match called {
            Ok((StatusCode::OK, body)) => match serde_json::from_slice::<Vec<Unit>>(&body) {
                Ok(units) if units.len() == commands.len() => units,
                _ => all("ERR an object has sent other replies than expected"),
            },
            Ok((_, body)) => {
                let text: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
                all(text["error"].as_str().unwrap_or("ERR an object has rejected this"))
            }
            Err(error) => all(&format!("ERR an object does not reply, and may have run this: {error}")),
        }
    }

    /// Runs parts at the same time.
    pub(super) async fn parts(&self, parts: &[(usize, Vec<Vec<&str>>)]) -> Vec<Vec<Unit>> {
        join_all(parts.iter().map(|(object, commands)| self.part(*object, commands))).await
    }

    /// A response to this request.
    pub(super) fn reply(&self, status: StatusCode, body: Vec<u8>) -> worker::Result<Response> {
        let mut reply = Reply::new(status, JSON, body);
        reply.set(ROWS_READ, &self.read.get().to_string());
        reply.set(ROWS_WRITTEN, &self.written.get().to_string());
        if self.token.get() > 0 {
            reply.set(SYNC_TOKEN, &self.token.get().to_string());
        }
        reply.into_response(self.head)
    }

    /// A page of documents of one object. Its cursor names the object, and the page after its last is that of the next object.
    pub(super) async fn list(&self, body: &[u8]) -> worker::Result<Response> {
        let query = self.head.uri.query().unwrap_or_default();
        let mut cursor = 0;
        let mut rest: Vec<&str> = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.strip_prefix("cursor=").and_then(|text| text.parse::<u64>().ok()) {
                Some(number) => cursor = number,
                None => rest.push(pair),
            }
        }
        let (object, within) = ((cursor % self.count as u64) as usize, cursor / self.count as u64);
        let within = format!("cursor={within}");
        rest.push(&within);
        let target = format!("{}?{}", self.head.uri.path(), rest.join("&"));
        let has_body = !matches!(self.head.method, Method::GET | Method::HEAD);
        let body = has_body.then_some(body);
        let mut response = self.call(object, self.head.method.as_str(), &target, body).await?;
        if response.status_code() != 200 {
            return Ok(response);
        }
        let next = response.headers().get(CURSOR)?.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let next = self.next(object, next);
        let headers = Headers::new();
        for (name, value) in response.headers().entries().filter(|(name, _)| name != CURSOR) {
            headers.append(&name, &value)?;
        }
        if next != 0 {
            headers.set(CURSOR, &next.to_string())?;
        }
        Ok(Response::from_bytes(response.bytes().await?)?.with_headers(headers))
    }

    /// The cursor after one of an object.
    pub(super) fn next(&self, object: usize, within: u64) -> u64 {
        match within {
            0 if object + 1 < self.count => object as u64 + 1,
            0 => 0,
            within => within.saturating_mul(self.count as u64).saturating_add(object as u64),
        }
    }
}

/// The header with the cursor of the next page.
const CURSOR: &str = "keystead-cursor";
