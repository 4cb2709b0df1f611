//! Any commands for a Redis server or cluster, for a program that stands in front of it. Accesses those servers.
//!
//! Every request has a connection to itself while it runs, so that its replies can be bounded, and no other request waits for them.
//! A command is sent again only if a node has said that it did not run it.
//!
//! | To find                             | open           |
//! |-------------------------------------|----------------|
//! | commands, independent of each other | `pipeline`     |
//! | commands as one atomic step         | `transaction`  |
//! | messages of channels                | `subscription` |

mod pipeline;
mod subscription;
mod transaction;

use std::sync::Arc;
use std::time::Duration;

use keystead_core::{Code, Error, Result};
use redis::{Cmd, Pipeline, Value};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout_at};

use super::cluster::Cluster;
use super::failure::Failure;
use super::node::{Exclusive, Node, NodeBounds};
use super::target;
use crate::bounds::DEADLINE_MS_RANGE;
use crate::url::Url;
use crate::url::deadline_ms;
pub use subscription::{Published, Subscribed, Subscription};
pub use transaction::Ran;

/// The schemes, and the forms of their URLs.
const FORMS: [(&str, &str); 3] = [
    ("redis", "redis://USER:PASSWORD@HOST:6379/0?deadline=5s"),
    ("rediss", "rediss://USER:PASSWORD@HOST:6379/0?deadline=5s"),
    ("redis+cluster", "redis+cluster://USER:PASSWORD@HOST:6379,HOST:6379?deadline=5s&tls=false"),
];

/// The bounds of an upstream.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamBounds {
    /// Most requests in flight. More are `queue_full`.
    pub calls_max: usize,
    /// Most connections to one node. More requests wait for one until their deadline.
    pub connections_max: usize,
    /// Most subscriptions. More are `queue_full`.
    pub subscriptions_max: usize,
    /// Most bytes of the replies of one node to one request, or of a message. More are `too_large`.
    pub reply_bytes_max: usize,
}

/// Where a command is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// To any node.
    Any,
    /// To the node of a slot.
    Slot(u16),
    /// To each node.
    Each(Merge),
}

/// How the replies of all nodes become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// The integers are added.
    Sum,
    /// The arrays are concatenated.
    Join,
    /// The first is returned.
    First,
}

/// A command, and where it is sent.
pub struct Call {
    command: Cmd,
    to: To,
}

impl Call {
    /// A command with these arguments, starting with its name.
    pub fn new<'a>(arguments: impl IntoIterator<Item = &'a [u8]>, to: To) -> Call {
        let mut command = Cmd::new();
        for argument in arguments {
            command.arg(argument);
        }
        Call { command, to }
    }
}

/// A Redis server or cluster.
pub struct Upstream {
    cluster: Cluster,
    scheme: &'static str,
    shown: String,
    deadline: Duration,
    bounds: UpstreamBounds,
    calls: Semaphore,
    subscriptions: Arc<Semaphore>,
}

impl Upstream {
    /// The schemes of its URLs.
    pub fn schemes() -> impl Iterator<Item = &'static str> {
        FORMS.iter().map(|(scheme, _)| *scheme)
    }

    /// The server or cluster that a URL names. It does not connect.
    ///
    /// # Errors
    /// `config_invalid` for an invalid URL. The message contains no password.
    pub fn open(url: &str, bounds: UpstreamBounds) -> Result<Upstream> {
        let name = url.split_once(':').map_or("", |(name, _)| name);
        let Some((scheme, form)) = FORMS.into_iter().find(|(scheme, _)| *scheme == name) else {
            let forms = FORMS.map(|(_, form)| form).join(", ");
            // A URL can contain a password: nothing of it is repeated.
            return Err(Error::new(Code::ConfigInvalid, format!("this is no URL of Redis: write {forms}")));
        };
        let url = Url::of(&url[scheme.len() + 1..], form)?;
        let is_cluster = scheme == "redis+cluster";
        let tls = if is_cluster { url.take("tls")?.unwrap_or(false) } else { scheme == "rediss" };
        let (mut addresses, login) = target::parse(&url, tls)?;
        let deadline_ms = deadline_ms(&url)?;
        url.finish()?;
        if !DEADLINE_MS_RANGE.contains(&deadline_ms) {
            let (least, most) = (DEADLINE_MS_RANGE.start(), DEADLINE_MS_RANGE.end());
            return Err(url.bad(&format!("the deadline is {least} to {most} milliseconds")));
        }
        let deadline = Duration::from_millis(deadline_ms);
        let shown: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        let shown = format!("{scheme}://{}", shown.join(","));
        let node_bounds = NodeBounds {
            patience: deadline,
            exclusive_max: bounds.connections_max,
            reply_bytes_max: bounds.reply_bytes_max,
        };
        let cluster = match (is_cluster, addresses.len()) {
            (true, _) if login.db != 0 => return Err(url.bad("a cluster has only the database 0")),
            (true, _) => Cluster::new(addresses, login, node_bounds),
            (false, 1) => Cluster::alone(addresses.swap_remove(0), login, node_bounds),
            (false, _) => return Err(url.bad("several addresses are a cluster: redis+cluster://")),
        };
        Ok(Upstream {
            cluster,
            scheme,
            shown,
            deadline,
            bounds,
            calls: Semaphore::new(bounds.calls_max),
            subscriptions: Arc::new(Semaphore::new(bounds.subscriptions_max)),
        })
    }

    /// The scheme of its URL.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        self.scheme
    }

    /// Its scheme and addresses, without the login.
    #[must_use]
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Whether keys are on several nodes.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        !self.cluster.is_alone()
    }

    /// Whether every node replies.
    ///
    /// # Errors
    /// `store_unavailable` if one does not.
    pub async fn ping(&self) -> Result<()> {
        let end = self.end();
        if self.is_cluster() {
            // A node may have been replaced.
            before(end, self.cluster.refresh_now()).await?;
        }
        match self.each(&redis::cmd("PING"), Merge::First, end).await? {
            Value::ServerError(error) => {
                let line = error_line(error.code(), error.details());
                Err(Error::new(Code::StoreUnavailable, format!("it replied {line}")))
            }
            _ => Ok(()),
        }
    }

    /// Closes all connections.
    pub fn close(&self) {
        self.cluster.close();
    }

    /// The deadline of a request that begins now.
    fn end(&self) -> Instant {
        sleep(self.deadline).deadline()
    }
}

fn full(what: &str) -> Error {
    Error::new(Code::QueueFull, format!("too many {what} of the upstream at a time: try again later"))
}

/// Waits for something that changes nothing.
async fn before<T>(end: Instant, ready: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    timeout_at(end, ready).await.unwrap_or_else(|_| {
        Err(Failure::NotSent(
            "the upstream did not reply within the deadline, so the command was not sent".to_owned(),
        ))
    })
}

/// A connection to a node, for one request.
async fn exclusive(node: &Node, end: Instant) -> Result<Exclusive<'_>, Failure> {
    timeout_at(end, node.exclusive()).await.unwrap_or_else(|_| {
        let message = format!("no connection to {} was free within the deadline", node.address);
        Err(Failure::NotSent(message))
    })
}

/// Sends commands on a connection.
async fn send(
    connection: &mut Exclusive<'_>,
    commands: &Pipeline,
    end: Instant,
) -> Result<Vec<Value>, Failure> {
    let replies = timeout_at(end, connection.call_all(commands)).await.unwrap_or_else(|_| {
        Err(Failure::Lost("the Redis server did not reply within the deadline".to_owned()))
    });
    match replies {
        Err(_) if connection.is_exceeded() => Err(Failure::TooLarge),
        replies => replies,
    }
}

/// The redirection that a reply is, if it is one: the command did not run.
fn redirection(reply: &Value) -> Option<Failure> {
    match reply {
        Value::ServerError(error) if matches!(error.code(), "MOVED" | "ASK" | "TRYAGAIN") => {
            let (code, detail) = (error.code().to_owned(), error.details().unwrap_or_default().to_owned());
            Some(Failure::Rejected { code, detail })
        }
        _ => None,
    }
}

/// An error as the server has sent it.
fn error_line(code: &str, details: Option<&str>) -> String {
    details.map_or_else(|| code.to_owned(), |details| format!("{code} {details}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: UpstreamBounds =
        UpstreamBounds { calls_max: 1, connections_max: 1, subscriptions_max: 1, reply_bytes_max: 1 };

    #[test]
    fn an_upstream_shows_its_addresses_and_no_password() {
        for (url, shown, is_cluster) in [
            ("redis://me:secret@[::1]:7/3?deadline=1s", "redis://[::1]:7", false),
            ("redis://host", "redis://host:6379", false),
            ("redis+cluster://:secret@a:1,b", "redis+cluster://a:1,b:6379", true),
        ] {
            let upstream = Upstream::open(url, BOUNDS).unwrap();
            assert_eq!((upstream.shown(), upstream.is_cluster()), (shown, is_cluster));
        }
    }

    #[test]
    fn an_invalid_url_says_what_to_write_and_no_password() {
        for url in [
            "postgres://:secret@host",
            "secret",
            "redis:secret",
            "redis://:secret@",
            "redis://:secret@a,b",
            "redis://:secret@host/secret",
            "redis://:secret@host?deadline=1ms",
            "redis://:secret@host?atomic=cas",
            "redis://:secret@host?secret",
            "redis+cluster://:secret@host/1",
        ] {
            let error = Upstream::open(url, BOUNDS).err().unwrap();
            assert_eq!(error.code(), Code::ConfigInvalid, "{url}");
            let message = error.message();
            assert!(message.contains("write redis") || message.contains("as in redis"), "{message}");
            assert!(!message.contains(":secret"), "{message}");
        }
    }

    #[tokio::test]
    async fn more_requests_than_the_bound_are_an_error_at_once() {
        let upstream =
            Upstream::open("redis://127.0.0.1:1", UpstreamBounds { calls_max: 0, ..BOUNDS }).unwrap();
        let call = || Call::new([&b"GET"[..], b"k"], To::Any);
        let replies = upstream.pipeline(vec![call(), call()]).await;
        assert_eq!(replies.len(), 2);
        assert!(
            replies.iter().all(|reply| reply.as_ref().is_err_and(|error| error.code() == Code::QueueFull))
        );
        assert!(
            upstream
                .transaction(None, vec![call()])
                .await
                .is_err_and(|error| error.code() == Code::QueueFull)
        );
    }
}
