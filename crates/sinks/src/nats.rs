//! NATS JetStream: a message for each row, in a stream that must exist. Accesses those servers.
//!
//! The position is a message of the same stream. It is published with the rows in one atomic batch of the server (2.12 and newer), and
//! expects the sequence number of the position before it. So either all of them are in the stream or none is, and a batch that is late or
//! repeated is rejected as a whole.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::header::{
    NATS_BATCH_COMMIT, NATS_BATCH_COMMIT_FINAL, NATS_BATCH_ID, NATS_BATCH_SEQUENCE,
    NATS_EXPECTED_LAST_SUBJECT_SEQUENCE,
};
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::stream::{LastRawMessageErrorKind, Stream};
use async_nats::{Client, HeaderMap, Request, RequestErrorKind};
use keystead_core::{Code, Error, Result};
use keystead_stores::connect::{
    NatsTarget, Url, nats_losing, nats_stream_error, nats_unavailable, push_nats_key,
};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::batch::{Batch, Change, Position, Rejection, Row, Shown, Written};
use crate::bounds::{NATS_HEADER_BYTES, NATS_ROWS_MAX, NATS_SUBJECT_BYTES_MAX};
use crate::layout::Layout;
use crate::{Capabilities, Scheme, Sink, SinkFuture, deadline, event};

pub(super) const SCHEME: Scheme = Scheme {
    name: "nats",
    form: "nats://USER:PASSWORD@HOST:4222,HOST:4222/STREAM?subject=PREFIX&tls=false&deadline=30s",
    about: "NATS JetStream",
    open,
};

/// The token of a subject under which the positions are. A row has its key there, and nothing behind it.
const POSITIONS: &str = "position";

/// The token of subjects with the ends of resynchronisations.
const COMPLETIONS: &str = "complete";

struct NatsSink {
    target: NatsTarget,
    stream: String,
    /// What subjects begin with.
    prefix: String,
    layout: Layout,
    deadline: Duration,
    connected: Mutex<Option<Arc<Connected>>>,
}

struct Connected {
    client: Client,
    stream: Stream,
    /// Most bytes of a message.
    message_bytes: usize,
}

/// The position, and the sequence number of its message.
struct Reached {
    position: Option<Position>,
    sequence: u64,
}

fn open(url: &Url<'_>, layout: Layout) -> Result<Arc<dyn Sink>> {
    let (target, stream) = NatsTarget::of(url)?;
    let is_name = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    if !is_name(&stream) {
        return Err(url.bad("the name of the stream has letters, digits, - and _"));
    }
    let prefix = url.take::<String>("subject")?.unwrap_or_else(|| stream.clone());
    let is_token = |token: &str| is_name(token.trim_start_matches('$'));
    if !prefix.split('.').all(is_token) {
        return Err(url.bad("the subject is a prefix without * and >, such as orders or shop.orders"));
    }
    let deadline = deadline(url)?;
    url.finish()?;
    let target = target.with_patience(deadline);
    Ok(Arc::new(NatsSink { target, stream, prefix, layout, deadline, connected: Mutex::default() }))
}

fn invalid(message: String) -> Error {
    Error::new(Code::ConfigInvalid, message)
}

/// Whether a subject of a stream, which may have wildcards, covers this one.
fn covers(pattern: &str, subject: &str) -> bool {
    let (mut patterns, mut tokens) = (pattern.split('.'), subject.split('.'));
    loop {
        match (patterns.next(), tokens.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some(pattern), Some(token)) if pattern == "*" || pattern == token => {}
            _ => return false,
        }
    }
}

impl NatsSink {
    fn position_subject(&self) -> String {
        self.own_subject(POSITIONS)
    }

    fn complete_subject(&self) -> String {
        self.own_subject(COMPLETIONS)
    }

    /// A subject of this sink that is no key's.
    fn own_subject(&self, kind: &str) -> String {
        let mut subject = format!("{}.{kind}.", self.prefix);
        push_nats_key(&mut subject, self.layout.sink.as_bytes());
        subject
    }

    /// The connection, which the library makes again by itself.
    async fn connected(&self) -> Result<Arc<Connected>> {
        let mut connected = self.connected.lock().await;
        let now = match connected.take() {
            Some(connected) => connected,
            None => Arc::new(self.connect().await?),
        };
        *connected = Some(Arc::clone(&now));
        // What is sent now would wait for the next connection.
        match now.client.connection_state() {
            State::Connected => Ok(now),
            _ => Err(nats_unavailable(format!("no connection to the NATS server at {}", self.target))),
        }
    }

    async fn connect(&self) -> Result<Connected> {
        let (client, context) = self.target.connect().await?;
        let name = &self.stream;
        let stream = context.get_stream(name).await.map_err(|error| match error.kind() {
            GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND => {
                let prefix = &self.prefix;
                invalid(format!(
                    "there is no stream '{name}': create it with the subjects {prefix}.>, on files, with allow_atomic"
                ))
            }
            _ => nats_stream_error(&error),
        })?;
        let config = &stream.cached_info().config;
        if let Some(why) = nats_losing(config) {
            let message =
                format!("the stream '{name}' {why}, which would lose acknowledged writes: use another one");
            return Err(invalid(message));
        }
        if !config.allow_atomic_publish {
            return Err(invalid(format!(
                "the stream '{name}' takes no atomic batches: set allow_atomic of it (NATS 2.12 and newer)"
            )));
        }
        if config.subject_transform.is_some() {
            return Err(invalid(format!(
                "the stream '{name}' changes subjects (subject_transform): use another one"
            )));
        }
        for subject in [format!("{}.key", self.prefix), self.position_subject(), self.complete_subject()] {
            if !config.subjects.iter().any(|pattern| covers(pattern, &subject)) {
                let (prefix, subjects) = (&self.prefix, config.subjects.join(", "));
                return Err(invalid(format!(
                    "the stream '{name}' has the subjects {subjects} and no {prefix}.>: add it, or write subject="
                )));
            }
        }
        let most = usize::try_from(config.max_message_size).ok().filter(|bytes| *bytes > 0);
        let message_bytes = client.max_payload().min(most.unwrap_or(usize::MAX));
        Ok(Connected { client, stream, message_bytes })
    }

    async fn reached(&self, connected: &Connected) -> Result<Reached> {
        match connected.stream.get_last_raw_message_by_subject(&self.position_subject()).await {
            Ok(message) => {
                let position = parse_position(&message.payload)?;
                // The number 0 marks the first parts of the first batch.
                let position = Some(position).filter(|position| position.batch > 0);
                Ok(Reached { position, sequence: message.sequence })
            }
            Err(error) => match error.kind() {
                LastRawMessageErrorKind::NoMessageFound => Ok(Reached { position: None, sequence: 0 }),
                LastRawMessageErrorKind::JetStream(error) => {
                    Err(nats_unavailable(format!("the NATS server replied {error}")))
                }
                _ => Err(nats_unavailable(format!("the NATS server did not reply ({error})"))),
            },
        }
    }

    async fn write_batch(&self, batch: &Batch) -> Result<Written> {
        let connected = self.connected().await?;
        let (mut messages, rejected) = self.messages(&connected, batch);
        if !rejected.is_empty() {
            return Ok(Written::Rejected(rejected));
        }
        let Reached { position, mut sequence } = self.reached(&connected).await?;
        let expected = batch.expected.as_ref().map(|(database, number)| (database.as_str(), *number));
        if position.as_ref().map(|now| (now.database.as_str(), now.batch)) != expected {
            return Ok(Written::Fenced);
        }
        let resync = position.as_ref().and_then(|position| position.resync);
        if let (Some(first), None) = (resync, batch.next.resync) {
            messages.push(self.complete(batch, first));
        }
        let before = position.unwrap_or_else(|| Position { batch: 0, ..batch.next.clone() });
        let mut rest = &messages[..];
        loop {
            let (now, after) = rest.split_at(rest.len().min(NATS_ROWS_MAX));
            let is_last = after.is_empty();
            // Until the last part the position stays, but its message is a new one: another writer is rejected from now on.
            let position = if is_last { &batch.next } else { &before };
            match self.publish(&connected, position, sequence, now).await? {
                Some(of_last) => sequence = of_last.saturating_sub(now.len() as u64),
                None => return Ok(Written::Fenced),
            }
            rest = after;
            if is_last {
                return Ok(Written::Done);
            }
        }
    }

    /// The messages of the rows, or those that the server would not take.
    fn messages(&self, connected: &Connected, batch: &Batch) -> (Vec<Message>, Vec<Rejection>) {
        let (mut messages, mut rejected) = (Vec::with_capacity(batch.rows.len()), Vec::new());
        for (index, row) in batch.rows.iter().enumerate() {
            let message = self.message(&batch.next, row);
            let bytes = message.payload.len() + NATS_HEADER_BYTES;
            if message.subject.len() > NATS_SUBJECT_BYTES_MAX {
                let reason = format!("the key makes a subject of {} bytes", message.subject.len());
                rejected.push(Rejection::new(index, &reason));
            } else if bytes > connected.message_bytes {
                let most = connected.message_bytes;
                let reason =
                    format!("the message has {bytes} bytes, and the server takes {most}: raise max_payload");
                rejected.push(Rejection::new(index, &reason));
            } else {
                messages.push(message);
            }
        }
        (messages, rejected)
    }

    /// All keys have a message of this batch or of a later one: the others are gone.
    fn complete(&self, batch: &Batch, first: u64) -> Message {
        let mut headers = HeaderMap::new();
        let id = event::digest([self.layout.sink.as_str(), &batch.next.database]);
        headers.insert("Keystead-Id", format!("complete-{first}-{id}"));
        headers.insert("Keystead-Operation", "complete");
        headers.insert("Keystead-Batch", batch.next.batch.to_string());
        let payload = json!({ "firstBatch": first }).to_string();
        Message { subject: self.complete_subject(), headers, payload }
    }

    fn message(&self, next: &Position, row: &Row) -> Message {
        let mut subject = format!("{}.", self.prefix);
        push_nats_key(&mut subject, self.layout.key_text(&row.key).as_bytes());
        let mut headers = HeaderMap::new();
        headers.insert("Keystead-Id", event::id(&self.layout.sink, &next.database, row));
        headers.insert("Keystead-Batch", next.batch.to_string());
        headers.insert("Keystead-Operation", event::kind(&row.change));
        headers.insert("Keystead-Version", row.version.0.to_string());
        headers.insert("Keystead-Revision", row.revision.0.to_string());
        let payload = match &row.change {
            Change::Put { value, .. } => event::data(&self.layout, value).to_string(),
            Change::Event(event) | Change::Repair(event) => {
                event.value.as_ref().map_or(String::new(), ToString::to_string)
            }
            Change::Delete => {
                // What a key-value bucket understands, if the stream is one.
                headers.insert("KV-Operation", "DEL");
                String::new()
            }
        };
        Message { subject, headers, payload }
    }

    /// Publishes a position and rows as one atomic batch, and returns the sequence number of the last message; nothing if the position is
    /// not the expected one.
    async fn publish(
        &self,
        connected: &Connected,
        position: &Position,
        expected: u64,
        rows: &[Message],
    ) -> Result<Option<u64>> {
        let mut headers = HeaderMap::new();
        headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, expected.to_string());
        let payload = position_json(position);
        let first = Message { subject: self.position_subject(), headers, payload };
        // Of each attempt its own, or the server would mix the messages of two writers.
        let id = format!("{:016x}{:016x}", random(), random());
        let count = rows.len() + 1;
        for (at, message) in std::iter::once(&first).chain(rows).enumerate() {
            let Message { subject, headers, payload } = message;
            let mut headers = headers.clone();
            let payload = payload.clone().into();
            if count > 1 {
                headers.insert(NATS_BATCH_ID, id.as_str());
                headers.insert(NATS_BATCH_SEQUENCE, (at + 1).to_string());
            }
            if at + 1 < count {
                let sent = connected.client.publish_with_headers(subject.clone(), headers, payload).await;
                sent.map_err(|error| nats_unavailable(format!("the batch was not sent ({error})")))?;
                continue;
            }
            if count > 1 {
                headers.insert(NATS_BATCH_COMMIT, NATS_BATCH_COMMIT_FINAL);
            }
            let request = Request::new().headers(headers).payload(payload).timeout(Some(self.deadline));
            let reply = connected.client.send_request(subject.clone(), request).await;
            return match reply {
                Ok(reply) => self.acknowledged(&reply.payload),
                Err(error) if error.kind() == RequestErrorKind::NoResponders => {
                    let message = format!("no stream of the NATS server takes the subject {subject}");
                    Err(nats_unavailable(message))
                }
                Err(error) => {
                    let message = format!("the NATS server did not acknowledge the batch ({error})");
                    Err(Error::unknown(Code::StoreUnavailable, message))
                }
            };
        }
        Ok(None)
    }

    /// The sequence number of the last message, from the server's reply to it.
    fn acknowledged(&self, reply: &[u8]) -> Result<Option<u64>> {
        let reply: Value = serde_json::from_slice(reply).unwrap_or_default();
        let error = &reply["error"];
        if let Some(code) = error["err_code"].as_u64() {
            let wrong =
                [ErrorCode::STREAM_WRONG_LAST_SEQUENCE, ErrorCode::STREAM_WRONG_LAST_SEQUENCE_CONSTANT];
            if wrong.contains(&ErrorCode(code)) {
                return Ok(None);
            }
            let why = error["description"].as_str().unwrap_or("nothing about it");
            return Err(nats_unavailable(format!(
                "the stream '{}' did not take the batch: {why} (error {code})",
                self.stream
            )));
        }
        if reply["stream"].as_str() != Some(&self.stream) {
            let message =
                format!("the subjects {}.> are not those of the stream '{}'", self.prefix, self.stream);
            return Err(Error::unknown(Code::StoreUnavailable, message));
        }
        Ok(reply["seq"].as_u64())
    }

    /// Runs something within the deadline.
    async fn within<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::time::timeout(self.deadline, call).await.unwrap_or_else(|_| {
            let message = format!("the NATS server did not reply within {:?}", self.deadline);
            Err(Error::unknown(Code::StoreUnavailable, message))
        })
    }
}

/// A random number, of the seeds that hash maps have.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

struct Message {
    subject: String,
    headers: HeaderMap,
    payload: String,
}

fn position_json(position: &Position) -> String {
    let Position { database, batch, resync, .. } = position;
    json!({"database": database, "batch": batch, "revisions": position.revisions_text(), "resync": resync})
        .to_string()
}

fn parse_position(payload: &[u8]) -> Result<Position> {
    let parsed: Value = serde_json::from_slice(payload).unwrap_or_default();
    let text = |name: &str| parsed[name].as_str().unwrap_or_default();
    let batch = parsed["batch"].as_i64().unwrap_or(-1);
    Position::of_parts(text("database").to_owned(), batch, text("revisions"), parsed["resync"].as_i64())
}

fn unreadable<T>() -> Result<T> {
    Err(Error::new(Code::Unsupported, "a stream cannot be compared: it has what its consumers have not read"))
}

impl Sink for NatsSink {
    fn scheme(&self) -> &'static str {
        "nats"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { keeps_position: true, readable: false }
    }

    fn probe(&self) -> SinkFuture<'_, ()> {
        Box::pin(async {
            // Connected again, so that the stream is looked at again.
            *self.connected.lock().await = None;
            self.within(async { self.connected().await.map(drop) }).await
        })
    }

    fn position(&self) -> SinkFuture<'_, Option<Position>> {
        Box::pin(self.within(async {
            let connected = self.connected().await?;
            Ok(self.reached(&connected).await?.position)
        }))
    }

    fn write<'a>(&'a self, batch: &'a Batch) -> SinkFuture<'a, Written> {
        Box::pin(self.within(self.write_batch(batch)))
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
        Box::pin(async {
            if let Some(connected) = self.connected.lock().await.take() {
                // It fails only if it is closed already.
                let _ = connected.client.drain().await;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_cover_subjects() {
        for (pattern, subject, expected) in [
            ("orders.>", "orders.key", true),
            ("orders.>", "orders.position.s", true),
            ("orders.*", "orders.position.s", false),
            ("*.key", "orders.key", true),
            ("orders", "orders.key", false),
            ("orders.key.>", "orders.key", false),
        ] {
            assert_eq!(covers(pattern, subject), expected, "{pattern} {subject}");
        }
    }

    #[test]
    fn a_url_names_a_stream_and_a_subject() {
        for (rest, expected) in [
            ("//a", "the name of the stream"),
            ("//a/my stream", "the name of the stream"),
            ("//a/S?subject=a.>", "without * and >"),
            ("//u:secret@a/S?subjects=a", "'subjects' is unknown"),
        ] {
            let url = Url::of(rest, SCHEME.form).unwrap();
            let error = open(&url, Layout::whole("s", "", "t")).err().unwrap();
            assert!(error.message().contains(expected) && !error.message().contains("secret"), "{error}");
        }
    }
}
