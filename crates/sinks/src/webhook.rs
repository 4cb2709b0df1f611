//! HTTP: a `POST` of [CloudEvents](https://cloudevents.io) in JSON, signed as [Standard Webhooks](https://www.standardwebhooks.com) says.
//! Accesses the server of the URL, and no other: redirects are not followed.
//!
//! A receiver has no position, so the caller keeps it. Events that arrive twice have the same id. What was deleted unseen, because all keys are
//! sent again, follows from the event at the end of that: keys without an event of its batches are gone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL_NOPAD};
use hmac::{Hmac, KeyInit, Mac};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode, Uri};
use keystead_core::{Clock, Code, Error, Millis, Result, SystemClock};
use keystead_stores::connect::{Authority, Http, Url, rfc3339, system_tls};
use serde_json::{Map, Value, json};
use sha2::Sha256;

use crate::batch::{Batch, Change, Position, Rejection, Row, Shown, Written};
use crate::bounds::{
    REJECTIONS_MAX, RETRY_AFTER_MAX, WEBHOOK_BODY_BYTES, WEBHOOK_EVENTS, WEBHOOK_EVENTS_RANGE,
    WEBHOOK_REPLY_BYTES_MAX, WEBHOOK_SECRET_BYTES_MIN,
};
use crate::layout::Layout;
use crate::{Capabilities, Scheme, Sink, SinkFuture, deadline, event};

pub(super) const HTTPS: Scheme = Scheme {
    name: "https",
    form: "https://whsec_SECRET@HOST/PATH?events=100&deadline=30s",
    about: "a webhook: CloudEvents, signed",
    open: |url, layout| open(url, layout, true),
};

pub(super) const HTTP: Scheme = Scheme {
    name: "http",
    form: "http://whsec_SECRET@HOST/PATH?events=100&deadline=30s",
    about: "the same without TLS",
    open: |url, layout| open(url, layout, false),
};

const BATCH_TYPE: &str = "application/cloudevents-batch+json";

/// The attribute with the number of the batch.
const BATCH: &str = "keysteadbatch";

struct Webhook {
    http: Http,
    uri: Uri,
    host: HeaderValue,
    /// The secret, and the one before it while it is replaced.
    secrets: Vec<Vec<u8>>,
    events_max: usize,
    layout: Layout,
    clock: Arc<dyn Clock>,
    /// Until when the receiver has asked for no request.
    quiet_until: Mutex<Option<Millis>>,
    /// While all keys are sent again, the first batch of that.
    resync: Mutex<Option<u64>>,
}

fn open(url: &Url<'_>, layout: Layout, tls: bool) -> Result<Arc<dyn Sink>> {
    let Authority { username, password, mut addresses, .. } = Authority::of(url, if tls { 443 } else { 80 })?;
    let (Some(address), true) = (addresses.pop(), addresses.is_empty()) else {
        return Err(url.bad("it has one address"));
    };
    let secrets = [username, password].into_iter().flatten().map(|text| secret(url, &text));
    let secrets = secrets.collect::<Result<Vec<_>>>()?;
    if secrets.is_empty() {
        return Err(url.bad("the secret that signs requests is missing"));
    }
    let events_max = url.take("events")?.unwrap_or(WEBHOOK_EVENTS);
    if !WEBHOOK_EVENTS_RANGE.contains(&events_max) {
        let (from, to) = (WEBHOOK_EVENTS_RANGE.start(), WEBHOOK_EVENTS_RANGE.end());
        return Err(url.bad(&format!("events is {from} to {to}")));
    }
    let patience = deadline(url)?;
    // The path as it is written, and what the receiver wants to have in its URL.
    let path = url.path.trim_start_matches('/').split_once('/').map_or("", |(_, path)| path);
    let query = match url.others() {
        others if others.is_empty() => others,
        others => format!("?{others}"),
    };
    let uri = format!("/{path}{query}").parse().map_err(|_| url.bad("the path is not one of a URL"))?;
    let default_port = if tls { 443 } else { 80 };
    let host = address.to_string();
    let host = host.strip_suffix(&format!(":{default_port}")).unwrap_or(&host);
    let host = HeaderValue::from_str(host).map_err(|_| url.bad("the address is not host:port"))?;
    let tls = match tls {
        true => Some(system_tls().map_err(|error| url.bad(&error))?),
        false => None,
    };
    let http = Http::new(vec![address], tls, patience);
    let clock = Arc::new(SystemClock);
    let (quiet_until, resync) = (Mutex::default(), Mutex::default());
    Ok(Arc::new(Webhook { http, uri, host, secrets, events_max, layout, clock, quiet_until, resync }))
}

/// `whsec_` and base64, of either alphabet.
fn secret(url: &Url<'_>, text: &str) -> Result<Vec<u8>> {
    let base64 = text.strip_prefix("whsec_").unwrap_or(text).trim_end_matches('=');
    let decoded =
        BASE64_NOPAD.decode(base64.as_bytes()).or_else(|_| BASE64URL_NOPAD.decode(base64.as_bytes()));
    let secret = decoded.map_err(|_| url.bad("the secret is whsec_ and base64, with %2F for '/'"))?;
    if secret.len() < WEBHOOK_SECRET_BYTES_MIN {
        let why = format!(
            "the secret has fewer than {WEBHOOK_SECRET_BYTES_MIN} bytes: openssl rand -base64 32 makes one"
        );
        return Err(url.bad(&why));
    }
    Ok(secret)
}

/// An event and its id.
struct Event {
    /// None: it is about all keys.
    row: Option<usize>,
    id: String,
    json: String,
}

/// The outcome of a request.
enum Reply {
    Accepted,
    Rejected(Vec<Rejection>),
}

impl Webhook {
    fn event(&self, batch: &Batch, index: usize, time: &str) -> Event {
        let row = &batch.rows[index];
        let database = &batch.next.database;
        let id = event::id(&self.layout.sink, database, row);
        let mut fields = Map::new();
        let texts = [
            ("specversion", "1.0"),
            ("id", &id),
            ("source", &format!("/keystead/{database}/{}", self.layout.sink)),
            ("type", &format!("dev.keystead.{}", event::kind(&row.change))),
            ("subject", self.layout.key_text(&row.key)),
            ("time", time),
            // Of the same length for all numbers, so that they are in order as text.
            ("sequence", &format!("{:020}", row.revision.0)),
            (BATCH, &format!("{:020}", batch.next.batch)),
        ];
        for (name, text) in texts {
            fields.insert(name.to_owned(), text.into());
        }
        fields.insert("keysteadversion".to_owned(), row.version.0.to_string().into());
        if let Change::Put { value, .. } = &row.change {
            fields.insert("datacontenttype".to_owned(), "application/json".into());
            fields.insert("data".to_owned(), event::data(&self.layout, value));
        }
        Event { row: Some(index), id, json: Value::Object(fields).to_string() }
    }

    /// All keys have an event of this batch or of a later one: the others are gone.
    fn complete(&self, batch: &Batch, first: u64, time: &str) -> Event {
        let (sink, database) = (&self.layout.sink, &batch.next.database);
        let id = format!("complete-{first}-{}", event::digest([sink.as_str(), database]));
        let json = json!({
            "specversion": "1.0",
            "id": id,
            "source": format!("/keystead/{database}/{sink}"),
            "type": "dev.keystead.complete",
            "time": time,
            BATCH: format!("{:020}", batch.next.batch),
            "datacontenttype": "application/json",
            "data": { "firstBatch": format!("{first:020}") },
        });
        Event { row: None, id, json: json.to_string() }
    }

    /// Sends events, and returns what became of them.
    async fn post(&self, events: &[Event]) -> Result<Reply> {
        let mut body = String::from("[");
        for (at, event) in events.iter().enumerate() {
            body.push_str(if at == 0 { "" } else { "," });
            body.push_str(&event.json);
        }
        body.push(']');
        // Of what is in it: a message that is sent again has the same, and no other has.
        let message_id = format!("msg_{}", event::digest(events.iter().map(|event| event.id.as_str())));
        let timestamp = (self.clock.now().0 / 1000).to_string();
        let signature = self.signature(&message_id, &timestamp, &body);
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        let headers = request.headers_mut();
        headers.insert(HOST, self.host.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(BATCH_TYPE));
        headers.insert(USER_AGENT, HeaderValue::from_static("keystead"));
        for (name, text) in
            [("webhook-id", message_id), ("webhook-timestamp", timestamp), ("webhook-signature", signature)]
        {
            let value = HeaderValue::from_str(&text)
                .map_err(|_| Error::new(Code::Internal, format!("{name} is no header")))?;
            headers.insert(name, value);
        }
        let response = self.http.call_cut(request, WEBHOOK_REPLY_BYTES_MAX).await?;
        self.reply(&response, events)
    }

    fn signature(&self, id: &str, timestamp: &str, body: &str) -> String {
        let of = |secret: &Vec<u8>| {
            // HMAC takes a key of any length.
            let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
            for part in [id, ".", timestamp, ".", body] {
                mac.update(part.as_bytes());
            }
            Some(format!("v1,{}", BASE64.encode(&mac.finalize().into_bytes())))
        };
        self.secrets.iter().filter_map(of).collect::<Vec<_>>().join(" ")
    }

    fn reply(&self, response: &Response<Bytes>, events: &[Event]) -> Result<Reply> {
        let status = response.status();
        // A receiver may reject a batch without events, once it has checked the signature.
        let is_empty = [StatusCode::BAD_REQUEST, StatusCode::UNPROCESSABLE_ENTITY].contains(&status);
        if status.is_success() || is_empty && events.is_empty() {
            return Ok(Reply::Accepted);
        }
        let unavailable = |what: String| {
            let message = format!("the webhook at {} replied {status}: {what}", self.http);
            Err(Error::new(Code::StoreUnavailable, message))
        };
        if status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::SERVICE_UNAVAILABLE {
            let Some(wait) = self.retry_after(response) else { return unavailable("it is busy".to_owned()) };
            *self.quiet() = Some(self.clock.now().plus_ms(wait.as_millis() as u64));
            return unavailable(format!("it asks to wait {wait:?}"));
        }
        if status.is_redirection() {
            return unavailable("redirects are not followed: write the URL that it redirects to".to_owned());
        }
        if status.is_client_error()
            && let Some(rejected) = rejected(response.body(), events)
        {
            return Ok(Reply::Rejected(rejected));
        }
        unavailable(match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "check the secret on both sides".to_owned(),
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::GONE => {
                "check the path: it must accept POST".to_owned()
            }
            StatusCode::UNSUPPORTED_MEDIA_TYPE => format!("it must accept {BATCH_TYPE}"),
            StatusCode::PAYLOAD_TOO_LARGE => "write a smaller events= in the URL".to_owned(),
            status if status.is_client_error() => {
                "to reject events, name their ids: {\"rejected\":[{\"id\":ID,\"reason\":TEXT}]}".to_owned()
            }
            _ => "it will be sent again".to_owned(),
        })
    }

    fn retry_after(&self, response: &Response<Bytes>) -> Option<Duration> {
        let text = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim();
        let wait = match text.parse::<u64>() {
            Ok(seconds) => Duration::from_secs(seconds),
            // Some write a date. Until then is not known without its parser: a minute is what most mean.
            Err(_) => Duration::from_secs(60),
        };
        Some(wait.min(RETRY_AFTER_MAX))
    }

    fn quiet(&self) -> MutexGuard<'_, Option<Millis>> {
        self.quiet_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn resync(&self) -> MutexGuard<'_, Option<u64>> {
        self.resync.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is sent while the receiver has asked for that.
    fn check_quiet(&self) -> Result<()> {
        let (mut until, now) = (self.quiet(), self.clock.now());
        let Some(wait_ms) = until.map(|until| until.since_ms(now)).filter(|wait_ms| *wait_ms > 0) else {
            *until = None;
            return Ok(());
        };
        // The clock may have been set back.
        let wait = Duration::from_millis(wait_ms).min(RETRY_AFTER_MAX);
        let message =
            format!("the webhook at {} asked for no request for {wait:?}: nothing was sent", self.http);
        Err(Error::new(Code::StoreUnavailable, message))
    }

    async fn send(&self, batch: &Batch) -> Result<Written> {
        let time = rfc3339(self.clock.now());
        let (mut rejected, mut pending, mut bytes) = (Vec::new(), Vec::new(), 0);
        for index in 0..batch.rows.len() {
            let event = self.event(batch, index, &time);
            if pending.len() == self.events_max || bytes > 0 && bytes + event.json.len() > WEBHOOK_BODY_BYTES
            {
                self.flush(&mut pending, &mut rejected).await?;
                bytes = 0;
            }
            bytes += event.json.len();
            pending.push(event);
            if rejected.len() >= REJECTIONS_MAX {
                break;
            }
        }
        self.flush(&mut pending, &mut rejected).await?;
        rejected.truncate(REJECTIONS_MAX);
        if !rejected.is_empty() {
            return Ok(Written::Rejected(rejected));
        }
        let before = *self.resync();
        if let (Some(first), None) = (before, batch.next.resync) {
            self.flush(&mut vec![self.complete(batch, first, &time)], &mut rejected).await?;
        }
        *self.resync() = batch.next.resync;
        Ok(Written::Done)
    }

    async fn flush(&self, pending: &mut Vec<Event>, rejected: &mut Vec<Rejection>) -> Result<()> {
        let events = std::mem::take(pending);
        if events.is_empty() {
            return Ok(());
        }
        self.check_quiet()?;
        if let Reply::Rejected(rejections) = self.post(&events).await? {
            rejected.extend(rejections);
        }
        Ok(())
    }
}

/// The rows whose events the body of a response names, of those that were sent; nothing if it names no event.
fn rejected(body: &[u8], events: &[Event]) -> Option<Vec<Rejection>> {
    let parsed: Value = serde_json::from_slice(body).unwrap_or_default();
    let named = parsed.get("rejected").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let (mut rejections, mut is_any) = (Vec::<Rejection>::new(), false);
    for entry in named.iter().take(REJECTIONS_MAX) {
        let id = entry.get("id").or(Some(entry)).and_then(Value::as_str);
        let Some(event) = events.iter().find(|event| Some(event.id.as_str()) == id) else { continue };
        let reason = entry.get("reason").and_then(Value::as_str).unwrap_or("the receiver gave no reason");
        is_any = true;
        // The end of a resynchronisation is an offer: who rejects it does not get it again.
        let Some(row) = event.row else { continue };
        if !rejections.iter().any(|rejection| rejection.row == row) {
            rejections.push(Rejection::new(row, reason));
        }
    }
    is_any.then_some(rejections)
}

fn unreadable<T>() -> Result<T> {
    Err(Error::new(Code::Unsupported, "a webhook cannot be read: verify its receiver there"))
}

impl Sink for Webhook {
    fn scheme(&self) -> &'static str {
        "https"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { keeps_position: false, readable: false }
    }

    /// Sends a batch without events.
    fn probe(&self) -> SinkFuture<'_, ()> {
        Box::pin(async {
            self.check_quiet()?;
            self.post(&[]).await.map(drop)
        })
    }

    fn position(&self) -> SinkFuture<'_, Option<Position>> {
        Box::pin(async { Ok(None) })
    }

    fn write<'a>(&'a self, batch: &'a Batch) -> SinkFuture<'a, Written> {
        Box::pin(self.send(batch))
    }

    fn keys<'a>(
        &'a self,
        _after: Option<&'a str>,
        _before: Option<u64>,
        _most: usize,
    ) -> SinkFuture<'a, Vec<String>> {
        // None that could be listed, so a resynchronisation finds no row to delete.
        Box::pin(async { Ok(Vec::new()) })
    }

    fn differing<'a>(&'a self, _rows: &'a [Row]) -> SinkFuture<'a, Vec<String>> {
        Box::pin(async { unreadable() })
    }

    fn look<'a>(&'a self, _keys: &'a [String]) -> SinkFuture<'a, Vec<Shown>> {
        Box::pin(async { unreadable() })
    }

    fn close(&self) -> SinkFuture<'_, ()> {
        self.http.close();
        Box::pin(async { Ok(()) })
    }
}
