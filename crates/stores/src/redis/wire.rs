//! How commands reach a server: over RESP to one or several nodes, or over HTTP; and scripts by their digest.

use std::borrow::Cow;

use data_encoding::HEXLOWER;
use keystead_core::Key;
use keystead_core::key::slot;
use redis::{Cmd, Value};
use sha1::{Digest, Sha1};

use super::cluster::{Cluster, Route};
use super::failure::Failure;
use super::rest::Rest;

/// A script and its digest.
pub(super) struct Prepared {
    text: String,
    digest: String,
}

impl Prepared {
    pub(super) fn new(text: impl Into<String>) -> Prepared {
        let text = text.into();
        let digest = HEXLOWER.encode(&Sha1::digest(&text));
        Prepared { text, digest }
    }
}

/// The way to a server.
pub(super) struct Wire {
    pub(super) scheme: &'static str,
    pub(super) way: Way,
}

pub(super) enum Way {
    Resp(Cluster),
    Http(Rest),
}

impl Wire {
    /// A key as the server gets it.
    pub(super) fn name<'a>(&self, key: &'a Key) -> Cow<'a, [u8]> {
        match self.way {
            Way::Resp(_) => Cow::Borrowed(key.as_bytes()),
            Way::Http(_) => match key.text() {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            },
        }
    }

    /// Sends a command about a key.
    pub(super) async fn call(&self, key: &Key, command: &Cmd) -> Result<Value, Failure> {
        match &self.way {
            Way::Resp(cluster) => cluster.call(key, command).await,
            Way::Http(rest) => rest.call(command).await,
        }
    }

    /// The way to the node of a key.
    pub(super) async fn route(&self, key: &Key) -> Result<Route<'_>, Failure> {
        match &self.way {
            Way::Resp(cluster) => cluster.route(key).await,
            Way::Http(_) => Err(Failure::NotSent("a transaction needs a connection of its own".to_owned())),
        }
    }

    /// Whether the server has all keys, so that a script may touch several of them. Behind HTTP there may be several shards.
    pub(super) fn has_all_keys(&self) -> bool {
        matches!(&self.way, Way::Resp(cluster) if cluster.is_alone())
    }

    /// Whether one server may have all of these keys: in a cluster, if they are in one slot.
    pub(super) fn is_one_place(&self, keys: &[&Key]) -> bool {
        match &self.way {
            Way::Resp(cluster) if !cluster.is_alone() => {
                let mut slots = keys.iter().map(|key| slot(key.as_bytes()));
                let first = slots.next();
                slots.all(|slot| Some(slot) == first)
            }
            _ => true,
        }
    }

    /// Names the server of a key: calls with the same name may go together.
    pub(super) fn place(&self, key: &Key) -> usize {
        match &self.way {
            Way::Resp(cluster) => cluster.place(key),
            Way::Http(_) => 0,
        }
    }

    /// Runs a script on each of these keys by itself, in one round trip to the server of the first. What that server does not have, or did
    /// not run for another reason that it says, is an error of its own.
    pub(super) async fn eval_each(
        &self,
        keys: &[&Key],
        script: &Prepared,
        args: impl Fn(usize, &mut Cmd),
    ) -> Result<Vec<Result<Value, Failure>>, Failure> {
        let commands = keys.iter().enumerate();
        let commands = commands
            .map(|(n, key)| self.script("EVALSHA", &script.digest, &[key], |command| args(n, command)));
        match &self.way {
            Way::Http(rest) => rest.pipeline(&commands.collect::<Vec<_>>()).await,
            Way::Resp(cluster) => {
                let Some(first) = keys.first() else { return Ok(Vec::new()) };
                let mut pipeline = redis::pipe();
                for command in commands {
                    pipeline.add_command(command);
                }
                cluster.route(first).await?.node.call_each(&pipeline).await
            }
        }
    }

    /// The command that runs a script, by its digest or its text.
    fn script(&self, name: &str, script: &str, keys: &[&Key], args: impl Fn(&mut Cmd)) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(script).arg(keys.len());
        for key in keys {
            command.arg(&*self.name(key));
        }
        args(&mut command);
        command
    }

    /// Runs a script on keys, which the server of the first one has: by its digest, and if the server does not have it, by its text. A
    /// server that does not have it has not run it.
    pub(super) async fn eval(
        &self,
        keys: &[&Key],
        script: &Prepared,
        args: impl Fn(&mut Cmd),
    ) -> Result<Value, Failure> {
        let command = |name, script| self.script(name, script, keys, &args);
        let Some(first) = keys.first() else { return Ok(Value::Nil) };
        match self.call(first, &command("EVALSHA", &script.digest)).await {
            Err(failure) if failure.is("NOSCRIPT") => self.call(first, &command("EVAL", &script.text)).await,
            reply => reply,
        }
    }

    pub(super) fn close(&self) {
        match &self.way {
            Way::Resp(cluster) => cluster.close(),
            Way::Http(rest) => rest.close(),
        }
    }
}
