//! Keystead itself, for the stores that speak its REST API.

use std::path::Path;
use std::process::Command;

use super::{Kind, Site, ask, find_binary, nothing_to_join};

/// The token of the server in tests.
pub const TOKEN: &str = "a-token-of-the-tests";

/// A server in memory, with HTTP on its first port and RESP on its second.
pub static KEYSTEAD: Kind = of_shards("keystead", |binary, site| vec![command(binary, site, "1", "memory")]);

/// The same with its journal synced before it replies, so that it can be killed.
pub static KEYSTEAD_DURABLE: Kind =
    of_shards("keystead-durable", |binary, site| vec![command(binary, site, "1", "fsync")]);

/// The same with its keys in four shards.
pub static KEYSTEAD_SHARDS: Kind =
    of_shards("keystead, 4 shards", |binary, site| vec![command(binary, site, "4", "memory")]);

const fn of_shards(name: &'static str, commands: fn(&Path, &Site) -> Vec<Command>) -> Kind {
    Kind {
        name,
        ports: 2,
        find: || find_binary("keystead", &["keystead"], "cargo build -p keystead-server"),
        prepare: |_, _| Ok(()),
        commands,
        ready: |site| {
            Box::pin(async {
                let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
                ask(site.port(), request).await.starts_with(b"HTTP/1.1 200")
            })
        },
        join: nothing_to_join,
    }
}

fn command(binary: &Path, site: &Site, shards: &str, durability: &str) -> Command {
    let address = |port: u16| format!("127.0.0.1:{port}");
    let mut command = Command::new(binary);
    command
        .args(["serve", "--durability", durability, "--shards", shards, "--data"])
        .arg(site.dir.join("data"));
    command.args(["--http", &address(site.ports[0]), "--resp", &address(site.ports[1])]);
    command.env("KEYSTEAD_TOKEN", TOKEN);
    command
}
