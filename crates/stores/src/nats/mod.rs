//! NATS JetStream: a key-value bucket, whose keys have revisions. Accesses those servers, and creates the bucket if there is none.
//!
//! How to connect, and which settings of a stream would lose writes, is in `connect`.
//!
//! A bucket is the stream `KV_BUCKET`, as NATS's own tools know it. A write expects the last sequence number of its subject. A read asks
//! the leader of the stream: the *direct* reads of other clients may be served by a replica that lags. A bucket whose settings
//! would lose an acknowledged write is rejected.

pub(crate) mod connect;

use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::context::{CreateStreamErrorKind, GetStreamErrorKind, PublishErrorKind};
use async_nats::jetstream::stream::{Config, DiscardPolicy, LastRawMessageErrorKind, StorageType, Stream};
use async_nats::jetstream::{Context, ErrorCode};
use async_nats::{Client, HeaderMap, header};
use keystead_core::{Capabilities, Clock, Code, Error, Key, Result, Store};
use tokio::sync::OnceCell;

use super::Scheme;
use super::url::Url;
use crate::bounds::{
    DEADLINE_PARTS, HEADER_BYTES_MAX, NATS_BUCKET_BYTES_MAX, NATS_KEY_BYTES_MAX, NATS_MESSAGE_BYTES_MAX,
    RECLAIM_MS_MAX,
};
use crate::cas::{Backend, CasStore, Reading, Stored, Swap, Swapped, VersionToken};
use crate::url::deadline_ms;
use connect::{Target, losing, push_encoded, stream_error, unavailable};

pub(super) const SCHEME: Scheme = Scheme {
    name: "nats",
    form: "nats://USER:PASSWORD@HOST:4222,HOST:4222/BUCKET?replicas=1&tls=false&deadline=5s",
    about: "a JetStream key-value bucket; shared, as durable as its servers",
    open,
};

/// A key that somebody else removed: its subject has a sequence number, and no record.
const REMOVED: &str = "0 - -\n";

struct NatsBackend {
    target: Target,
    bucket: String,
    replicas: usize,
    connected: OnceCell<Connected>,
}

struct Connected {
    client: Client,
    context: Context,
    stream: Stream,
    /// Whether a message may have a TTL of its own: servers from 2.11.
    has_ttl: bool,
}

fn open(url: &Url<'_>, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    let (target, path) = Target::of(url)?;
    let bucket = if path.is_empty() { "keystead".to_owned() } else { path };
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if bucket.len() > NATS_BUCKET_BYTES_MAX || !bucket.bytes().all(valid) {
        return Err(url.bad("the bucket has letters, digits, - and _"));
    }
    let replicas = url.take("replicas")?.unwrap_or(1);
    let deadline_ms = deadline_ms(url)?;
    url.finish()?;
    // A little less than the layer allows a call.
    let patience = Duration::from_millis(deadline_ms) / DEADLINE_PARTS as u32 * 9 / 10;
    let backend =
        NatsBackend { target: target.with_patience(patience), bucket, replicas, connected: OnceCell::new() };
    Ok(Arc::new(CasStore::new(backend, clock, deadline_ms)?))
}

impl NatsBackend {
    /// The connection. The client library keeps it, and connects again by itself.
    async fn connected(&self) -> Result<&Connected> {
        let connected = self.connected.get_or_try_init(|| self.connect()).await?;
        // What is sent now would wait for the next connection.
        match connected.client.connection_state() {
            State::Connected => Ok(connected),
            _ => Err(unavailable(format!("no connection to the NATS server at {}", self.target))),
        }
    }

    async fn connect(&self) -> Result<Connected> {
        let (client, context) = self.target.connect().await?;
        let stream = self.bucket(&context).await?;
        let has_ttl = stream.cached_info().config.allow_message_ttl;
        Ok(Connected { client, context, stream, has_ttl })
    }

    /// The bucket; it is created if there is none.
    async fn bucket(&self, context: &Context) -> Result<Stream> {
        let name = format!("KV_{}", self.bucket);
        let stream = match context.get_stream(&name).await {
            Ok(stream) => stream,
            Err(error) => match error.kind() {
                GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND => {
                    self.create(context, name).await?
                }
                _ => return Err(stream_error(&error)),
            },
        };
        match losing(&stream.cached_info().config) {
            None => Ok(stream),
            Some(why) => {
                let message = format!(
                    "the bucket '{}' {why}, which would lose acknowledged writes: use another one",
                    self.bucket
                );
                Err(Error::new(Code::ConfigInvalid, message))
            }
        }
    }

    async fn create(&self, context: &Context, name: String) -> Result<Stream> {
        let config = Config {
            name: name.clone(),
            description: Some("Keystead".to_owned()),
            subjects: vec![format!("$KV.{}.>", self.bucket)],
            max_messages_per_subject: 1,
            discard: DiscardPolicy::New,
            storage: StorageType::File,
            num_replicas: self.replicas,
            allow_rollup: true,
            deny_delete: true,
            allow_direct: true,
            allow_message_ttl: true,
            ..Config::default()
        };
        match context.create_stream(config).await {
            Ok(_) => {}
            // Another process has created it, with other settings.
            Err(error) if matches!(error.kind(), CreateStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NAME_EXIST) =>
                {}
            Err(error) => {
                return Err(unavailable(format!("the bucket '{}' cannot be created: {error}", self.bucket)));
            }
        }
        context.get_stream(&name).await.map_err(|error| unavailable(format!("no bucket: {error}")))
    }

    fn subject(&self, key: &Key) -> String {
        let mut subject = format!("$KV.{}.", self.bucket);
        push_encoded(&mut subject, key.as_bytes());
        subject
    }
}

impl Backend for NatsBackend {
    fn scheme(&self) -> &'static str {
        "nats"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            atomic: true,
            durable: true,
            shared: true,
            sync: false,
            injected_clock: true,
            key_bytes_max: NATS_KEY_BYTES_MAX,
            state_bytes_max: NATS_MESSAGE_BYTES_MAX - HEADER_BYTES_MAX,
        }
    }

    async fn read(&self, key: &Key) -> Result<Reading> {
        let connected = self.connected().await?;
        let message = match connected.stream.get_last_raw_message_by_subject(&self.subject(key)).await {
            Ok(message) => message,
            Err(error) => {
                return match error.kind() {
                    LastRawMessageErrorKind::NoMessageFound => Ok(Reading::default()),
                    LastRawMessageErrorKind::JetStream(error) => {
                        Err(unavailable(format!("the NATS server replied {error}")))
                    }
                    _ => Err(unavailable(format!("the NATS server did not reply ({error})"))),
                };
            }
        };
        let text = match message.payload.is_empty() {
            true => REMOVED.to_owned(),
            false => String::from_utf8_lossy(&message.payload).into_owned(),
        };
        Ok(Reading { stored: Some(Stored { token: VersionToken(message.sequence.into()), text }), now: None })
    }

    async fn swap(&self, key: &Key, swap: &Swap<'_>) -> Result<Swapped> {
        let connected = self.connected().await?;
        let mut headers = HeaderMap::new();
        let expected = swap.expected.map_or(0, |token| token.0 as u64);
        headers.insert(header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, expected.to_string());
        if let Some(ms) = swap.reclaim_ms.filter(|ms| connected.has_ttl && *ms <= RECLAIM_MS_MAX) {
            headers.insert(header::NATS_MESSAGE_TTL, format!("{}s", ms.div_ceil(1000)));
        }
        let payload = swap.text.to_owned().into();
        let sent = connected.context.publish_with_headers(self.subject(key), headers, payload).await;
        let acknowledged = match sent {
            Ok(acknowledgement) => acknowledgement.await,
            Err(error) => Err(error),
        };
        match acknowledged {
            Ok(ack) => Ok(Swapped::Done(VersionToken(ack.sequence.into()))),
            Err(error) => match error.kind() {
                PublishErrorKind::WrongLastSequence => Ok(Swapped::Conflict(None)),
                PublishErrorKind::MaxPayloadExceeded => {
                    let message = format!("the state exceeds max_payload of the NATS server: {error}");
                    Err(Error::new(Code::TooLarge, message))
                }
                _ => {
                    let message = format!("the NATS server did not acknowledge the write ({error})");
                    Err(Error::unknown(Code::StoreUnavailable, message))
                }
            },
        }
    }

    async fn close(&self) -> Result<()> {
        if let Some(connected) = self.connected.get() {
            // It fails only if it is closed already.
            let _ = connected.client.drain().await;
        }
        Ok(())
    }
}
