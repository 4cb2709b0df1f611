//! Two servers with DynamoDB's protocol, both on files: dynoxide, and dynalite as a second opinion.

use std::process::Command;

use super::{Kind, Site, ask, find_binary, nothing_to_join};

/// dynoxide, which returns the item of a failed condition, as DynamoDB does.
pub static DYNAMODB: Kind = Kind {
    name: "dynamodb",
    ports: 1,
    find: || {
        let names = ["dynoxide", "node_modules/@dynoxide/linux-x64/dynoxide"];
        find_binary("dynamodb", &names, "npm install --prefix target/peers @dynoxide/linux-x64")
    },
    prepare: |_, _| Ok(()),
    commands: |binary, site| {
        let mut command = Command::new(binary);
        command.args(["serve", "--host", "127.0.0.1", "--port", &site.port().to_string(), "--db-path"]);
        command.arg(site.dir.join("data.db"));
        vec![command]
    },
    ready: |site| Box::pin(is_ready(site)),
    join: nothing_to_join,
};

/// dynalite, which does not return it, and cannot delete expired items.
pub static DYNALITE: Kind = Kind {
    name: "dynalite",
    ports: 1,
    find: || {
        let names = ["dynalite", "node_modules/.bin/dynalite"];
        find_binary("dynalite", &names, "npm install --prefix target/peers dynalite")
    },
    prepare: |_, _| Ok(()),
    commands: |binary, site| {
        let mut command = Command::new(binary);
        command.args(["--host", "127.0.0.1", "--port", &site.port().to_string(), "--createTableMs", "0"]);
        command.arg("--path").arg(site.dir.join("data"));
        vec![command]
    },
    ready: |site| Box::pin(is_ready(site)),
    join: nothing_to_join,
};

/// It speaks HTTP: a request without a signature is rejected.
async fn is_ready(site: &Site) -> bool {
    let request = b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    ask(site.port(), request).await.starts_with(b"HTTP/1.1 ")
}
