//! The servers of other projects that stores are tested on: found on this machine, started on free ports of the loopback
//! interface in a directory of their own, and stopped by their process id.
//!
//! A server is one file with one [`Kind`], and one row in [`KINDS`]. A conformance run [shares](shared) one server of a kind
//! between all its processes; a test of faults starts [its own](own), which it may kill.
//!
//! A server that is not installed is [`NotOpened::Missing`], so its cases are skipped with the reason.

pub mod certificates;
pub mod denokv;
pub mod dynamodb;
pub mod edge;
pub mod etcd;
pub mod file;
pub mod keystead;
pub mod mariadb;
pub mod nats;
pub mod own;
pub mod pgbouncer;
pub mod postgres;
pub mod proxy;
pub mod redis;
pub mod shared;

use std::future::Future;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Command;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::failure::{Checked, Failure};
use crate::setup::NotOpened;

pub use own::OwnServer;
pub use proxy::Proxy;
pub use shared::SharedServer;

/// How long a server may take until it is ready. Far more than any needs, even on a loaded machine.
pub const READY_WITHIN: Duration = Duration::from_secs(60);

/// How long to wait between two looks at a condition.
const POLL_EVERY: Duration = Duration::from_millis(20);

/// A result of a server that has to be awaited.
pub type Awaited<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A kind of server.
pub struct Kind {
    /// Its name, and the family of its stores in `REQUIRE=`.
    pub name: &'static str,
    /// How many ports it listens on.
    pub ports: usize,
    /// Its binary, or what is missing.
    pub find: fn() -> Result<PathBuf, NotOpened>,
    /// What must run before the processes, for example the creation of a database. It blocks.
    pub prepare: fn(&Path, &Site) -> Checked,
    /// The processes, in the foreground.
    pub commands: fn(&Path, &Site) -> Vec<Command>,
    /// Whether it accepts requests. It is polled.
    pub ready: for<'a> fn(&'a Site) -> Awaited<'a, bool>,
    /// What must be done when all processes are ready, for example to join them.
    pub join: for<'a> fn(&'a Site) -> Awaited<'a, Checked>,
}

/// Every kind of server.
pub static KINDS: &[&Kind] = &[
    &keystead::KEYSTEAD,
    &keystead::KEYSTEAD_DURABLE,
    &redis::REDIS,
    &redis::REDIS_DURABLE,
    &redis::REDIS_TLS,
    &redis::REDIS_MUTUAL_TLS,
    &redis::VALKEY,
    &redis::VALKEY_DURABLE,
    &redis::REDIS_CLUSTER,
    &redis::REDIS_CLUSTER_DURABLE,
    &postgres::POSTGRES,
    &postgres::POSTGRES_TLS,
    &pgbouncer::PGBOUNCER,
    &pgbouncer::PGBOUNCER_SINGLE,
    &pgbouncer::PGBOUNCER_STATEMENT,
    &dynamodb::DYNAMODB,
    &dynamodb::DYNALITE,
    &denokv::DENOKV,
    &edge::EDGE,
    &edge::EDGE_DATABASES,
    &nats::NATS,
    &nats::NATS_TLS,
    &nats::NATS_SMALL,
    &mariadb::MARIADB,
    &mariadb::MARIADB_TLS,
    &file::FILE,
    &etcd::ETCD,
    &etcd::ETCD_TLS,
    &etcd::ETCD_SMALL,
];

/// Where a server runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its directory.
    pub dir: PathBuf,
    /// Its ports on 127.0.0.1.
    pub ports: Vec<u16>,
}

impl Site {
    /// The first port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.ports.first().copied().unwrap_or(0)
    }

    /// `127.0.0.1:PORT` of each port, with commas between them.
    #[must_use]
    pub fn addresses(&self) -> String {
        let addresses: Vec<String> = self.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        addresses.join(",")
    }
}

/// A kind with nothing to prepare or join.
#[must_use]
pub fn nothing_to_join(_site: &Site) -> Awaited<'_, Checked> {
    Box::pin(async { Ok(()) })
}

/// The first of these binaries: named by the variable `KEYSTEAD_TEST_NAME` with the kind's name in capitals, in `PATH`, in
/// `target/peers` of the repository, or built from it.
///
/// # Errors
/// `Missing`, with how to install it.
pub fn find_binary(kind: &str, names: &[&str], install: &str) -> Result<PathBuf, NotOpened> {
    let variable = format!("KEYSTEAD_TEST_{}", kind.to_ascii_uppercase().replace('-', "_"));
    if let Some(named) = std::env::var_os(&variable) {
        return Ok(PathBuf::from(named));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers");
    folders.extend([peers.join("bin"), peers.clone(), peers.join("../debug"), peers.join("../release")]);
    let places = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    let found = places.into_iter().find(|place| place.is_file());
    found.ok_or_else(|| NotOpened::missing(format_args!("no {} on this machine ({install})", names[0])))
}

/// Ports that were free a moment ago. All are bound before any is released, so they are distinct.
///
/// # Errors
/// When the system has none.
pub fn free_ports(count: usize) -> Checked<Vec<u16>> {
    let mut held = Vec::new();
    while held.len() < 2 * count {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        // The bus of a Redis Cluster node is 10000 ports higher.
        if let Some(bus) = port.checked_add(10_000)
            && let Ok(bus) = TcpListener::bind((Ipv4Addr::LOCALHOST, bus))
        {
            held.extend([(port, listener), (0, bus)]);
        }
    }
    Ok(held.iter().map(|(port, _)| *port).filter(|port| *port > 0).collect())
}

/// Waits until the server is ready, then joins its processes.
async fn until_ready(kind: &Kind, site: &Site) -> Checked {
    let ready = async {
        while !(kind.ready)(site).await {
            tokio::time::sleep(POLL_EVERY).await;
        }
        (kind.join)(site).await
    };
    match tokio::time::timeout(READY_WITHIN, ready).await {
        Ok(joined) => joined,
        Err(_) => Err(Failure::new(format_args!("{} was not ready within {READY_WITHIN:?}", kind.name))),
    }
}

/// Sends `request` to a port of this machine and returns the beginning of the reply, or nothing if it does not reply at once.
pub async fn ask(port: u16, request: &[u8]) -> Vec<u8> {
    let ask = async {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.write_all(request).await?;
        let mut reply = vec![0; 4096];
        let len = stream.read(&mut reply).await?;
        reply.truncate(len);
        Ok::<_, std::io::Error>(reply)
    };
    match tokio::time::timeout(Duration::from_secs(1), ask).await {
        Ok(Ok(reply)) => reply,
        _ => Vec::new(),
    }
}

/// Runs a command to its end.
///
/// # Errors
/// With what it printed, when it does not succeed.
pub fn run(command: &mut Command) -> Checked {
    let output = command.output().map_err(|e| Failure::new(format_args!("{command:?}: {e}")))?;
    if output.status.success() {
        return Ok(());
    }
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Err(Failure::new(format_args!("{command:?}: {}\n{out}{err}", output.status)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_binary_is_reported_with_how_to_install_it() {
        let missing = find_binary("nothing", &["no-such-binary"], "apt install nothing").unwrap_err();
        let NotOpened::Missing(reason) = missing else { panic!("it is not broken") };
        assert_eq!(reason, "no no-such-binary on this machine (apt install nothing)");
    }

    #[test]
    fn ports_are_distinct() {
        let mut ports = free_ports(3).unwrap();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 3);
    }

    #[test]
    fn kinds_have_distinct_names() {
        let names: std::collections::BTreeSet<_> = KINDS.iter().map(|kind| kind.name).collect();
        assert_eq!(names.len(), KINDS.len());
    }
}
