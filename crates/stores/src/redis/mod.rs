//! Redis, Valkey and Redis Cluster, and Upstash over HTTP. Accesses those servers.
//!
//! A step that has a [script](keystead_core::Script) is one EVALSHA. Any other step, and one on a time that a script cannot count,
//! goes through the [compare-and-set layer](crate::cas) on the same records, so both ways may be mixed on one key.
//!
//! | To find                              | open      |
//! |--------------------------------------|-----------|
//! | the parts of a URL                   | `target`  |
//! | connections to one server            | `node`    |
//! | slots, and following them            | `cluster` |
//! | commands over HTTP                   | `rest`    |
//! | scripts by their digest              | `wire`    |
//! | reading and swapping records         | `backend` |
//! | a step as a script                   | `steps`, `batches` |
//! | what scripts return                  | `replies` |
//! | keys that many steps wait for        | `hot`     |
//! | a job on several keys as a script    | `jobs`    |
//! | errors and their outcome             | `failure` |
//! | any command of a client's            | `upstream` |
//! | the size of replies                  | `metered` |

mod backend;
mod batches;
mod cluster;
mod failure;
mod hot;
mod jobs;
mod metered;
mod node;
mod replies;
mod rest;
mod steps;
mod target;
mod upstream;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use keystead_core::{Clock, Result, Store};

use super::Scheme;
use super::url::Url;
use crate::bounds::{DEADLINE_PARTS, REDIS_EXCLUSIVE_MAX};
use crate::cas::CasStore;
use backend::RedisBackend;
use cluster::Cluster;
use node::NodeBounds;
pub use redis::Value;
use rest::Rest;
use steps::RedisStore;
use target::{Atomic, Options};
pub use upstream::{Call, Merge, Published, Ran, Subscribed, Subscription, To, Upstream, UpstreamBounds};
use wire::{Way, Wire};

pub(super) const REDIS: Scheme = Scheme {
    name: "redis",
    form: "redis://USER:PASSWORD@HOST:6379/0?atomic=script&clock=client&deadline=5s",
    about: "Redis or Valkey; shared, as durable as the server",
    open: |url, clock| alone(url, clock, "redis", false),
};

pub(super) const REDISS: Scheme = Scheme {
    name: "rediss",
    form: "rediss://USER:PASSWORD@HOST:6379/0?atomic=script&clock=client&deadline=5s",
    about: "the same over TLS",
    open: |url, clock| alone(url, clock, "rediss", true),
};

pub(super) const CLUSTER: Scheme = Scheme {
    name: "redis+cluster",
    form: "redis+cluster://USER:PASSWORD@HOST:6379,HOST:6379?atomic=script&clock=client&deadline=5s&tls=false",
    about: "a Redis Cluster; shared, as durable as its nodes",
    open: cluster,
};

pub(super) const UPSTASH: Scheme = Scheme {
    name: "upstash+https",
    form: "upstash+https://TOKEN@HOST?atomic=script&clock=client&deadline=5s",
    about: "the REST API of Upstash or Keystead; shared, as durable as the server",
    open: |url, clock| upstash(url, clock, "upstash+https", true),
};

pub(super) const UPSTASH_PLAIN: Scheme = Scheme {
    name: "upstash+http",
    form: "upstash+http://TOKEN@127.0.0.1:8080?atomic=script&clock=client&deadline=5s",
    about: "the same without TLS, for a server on this machine",
    open: |url, clock| upstash(url, clock, "upstash+http", false),
};

fn alone(url: &Url<'_>, clock: Arc<dyn Clock>, scheme: &'static str, tls: bool) -> Result<Arc<dyn Store>> {
    let (mut addresses, login) = target::parse(url, tls)?;
    let options = Options::of(url)?;
    let (Some(address), true) = (addresses.pop(), addresses.is_empty()) else {
        return Err(url.bad("several addresses are a cluster: redis+cluster://"));
    };
    let cluster = Cluster::alone(address, login, bounds(options));
    store(Wire { scheme, way: Way::Resp(cluster) }, options, clock)
}

fn cluster(url: &Url<'_>, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    let tls = url.take("tls")?.unwrap_or(false);
    let (addresses, login) = target::parse(url, tls)?;
    if login.db != 0 {
        return Err(url.bad("a cluster has only the database 0"));
    }
    let options = Options::of(url)?;
    let cluster = Cluster::new(addresses, login, bounds(options));
    store(Wire { scheme: "redis+cluster", way: Way::Resp(cluster) }, options, clock)
}

fn upstash(url: &Url<'_>, clock: Arc<dyn Clock>, scheme: &'static str, tls: bool) -> Result<Arc<dyn Store>> {
    let (addresses, login) = target::parse_on(url, tls, if tls { 443 } else { 80 })?;
    let [address] = &addresses[..] else { return Err(url.bad("it has one address")) };
    let options = Options::of(url)?;
    if options.atomic == Atomic::Watch {
        return Err(
            url.bad("a transaction needs a connection of its own, which HTTP has not: atomic=script or cas")
        );
    }
    let token = login.password.or(login.username).unwrap_or_default();
    let rest = Rest::new(address.clone(), &token, login.tls, patience(options));
    let rest = rest.map_err(|_| url.bad("the host or the token is not valid in a header"))?;
    store(Wire { scheme, way: Way::Http(rest) }, options, clock)
}

fn bounds(options: Options) -> NodeBounds {
    NodeBounds {
        patience: patience(options),
        exclusive_max: REDIS_EXCLUSIVE_MAX,
        // A state is bounded by what this store has written.
        reply_bytes_max: usize::MAX,
    }
}

/// A little less than the layer allows a call, so that a connection that is stuck is given up before the call is.
fn patience(options: Options) -> Duration {
    Duration::from_millis(options.deadline_ms) / DEADLINE_PARTS as u32 * 9 / 10
}

fn store(wire: Wire, options: Options, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    let wire = Arc::new(wire);
    let handle = || {
        let backend = RedisBackend::new(Arc::clone(&wire), options);
        CasStore::new(backend, Arc::clone(&clock), options.deadline_ms)
    };
    let handles = [handle()?, handle()?];
    Ok(Arc::new(RedisStore::new(wire, handles, options, clock)))
}
