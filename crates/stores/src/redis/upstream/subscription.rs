//! Messages of channels or patterns, on a connection of their own.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream;
use keystead_core::{Error, Result};
use redis::aio::{PubSubSink, PubSubStream};
use redis::{Msg, Value};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{sleep, timeout, timeout_at};

use super::super::failure::Failure;
use super::super::metered::Meter;
use super::{Upstream, before, full};
use crate::bounds::UPSTREAM_CHECK_EVERY;

/// What is subscribed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subscribed {
    /// Channels with these names.
    Channels,
    /// All channels that match these patterns.
    Patterns,
}

/// A message.
#[derive(Debug)]
pub struct Published {
    /// Its channel.
    pub channel: Vec<u8>,
    /// The pattern that matched, for a subscription to patterns.
    pub pattern: Option<Vec<u8>>,
    /// Its content.
    pub content: Vec<u8>,
}

/// A subscription. It ends when it is dropped.
pub struct Subscription {
    sink: PubSubSink,
    stream: PubSubStream,
    meter: Arc<Meter>,
    message_bytes_max: usize,
    patience: Duration,
    _permit: OwnedSemaphorePermit,
}

impl Upstream {
    /// Subscribes to channels or patterns. On a cluster every node has the messages of all.
    ///
    /// # Errors
    /// `queue_full` or `store_unavailable`.
    pub async fn subscribe(&self, kind: Subscribed, names: &[Vec<u8>]) -> Result<Subscription> {
        let permit = Arc::clone(&self.subscriptions).try_acquire_owned();
        let permit = permit.map_err(|_| full("subscriptions"))?;
        let end = self.end();
        let mut connected = Err(Failure::NotSent("the cluster has no nodes".to_owned()));
        for node in before(end, self.cluster.masters()).await? {
            connected = before(end, node.pubsub()).await;
            if connected.is_ok() {
                break;
            }
        }
        let (pubsub, meter) = connected?;
        meter.grant(self.bounds.reply_bytes_max);
        let (mut sink, stream) = pubsub.split();
        let subscribing = async {
            match kind {
                Subscribed::Channels => sink.subscribe(names).await,
                Subscribed::Patterns => sink.psubscribe(names).await,
            }
        };
        let confirmed = timeout_at(end, subscribing).await;
        match confirmed {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(Failure::of(&error).into()),
            Err(_) => {
                let message = "the upstream did not confirm the subscription within the deadline".to_owned();
                return Err(Failure::NotSent(message).into());
            }
        }
        let (message_bytes_max, patience) = (self.bounds.reply_bytes_max, self.deadline);
        Ok(Subscription { sink, stream, meter, message_bytes_max, patience, _permit: permit })
    }
}

impl Subscription {
    /// The next message.
    ///
    /// # Errors
    /// When the connection is lost, which is also checked while there are no messages.
    pub async fn next(&mut self) -> Result<Published> {
        loop {
            let next = poll_fn(|cx| Pin::new(&mut self.stream).poll_next(cx));
            tokio::select! {
                message = next => {
                    self.meter.grant(self.message_bytes_max);
                    return message.map(|message| published(&message)).ok_or_else(lost);
                }
                () = sleep(UPSTREAM_CHECK_EVERY) => {
                    match timeout(self.patience, self.sink.ping::<Value>()).await {
                        Ok(Ok(_)) => self.meter.grant(self.message_bytes_max),
                        Ok(Err(_)) | Err(_) => return Err(lost()),
                    }
                }
            }
        }
    }
}

fn lost() -> Error {
    Failure::NotSent("the connection to the upstream was lost: subscribe again".to_owned()).into()
}

fn published(message: &Msg) -> Published {
    let pattern = message.from_pattern().then(|| message.get_pattern().unwrap_or_default());
    Published {
        channel: message.get_channel().unwrap_or_default(),
        pattern,
        content: message.get_payload_bytes().to_vec(),
    }
}
