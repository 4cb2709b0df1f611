//! Deno KV: the `denokv` server, on a file.

use std::process::Command;

use super::{Kind, ask, find_binary, nothing_to_join};

/// The access token of the server in tests. A server wants at least twelve characters.
pub const TOKEN: &str = "a-token-of-the-tests";

/// The `denokv` server.
pub static DENOKV: Kind = Kind {
    name: "denokv",
    ports: 1,
    find: || find_binary("denokv", &["denokv"], "cargo install --root target/peers --locked --debug denokv"),
    prepare: |_, _| Ok(()),
    commands: |binary, site| {
        let mut command = Command::new(binary);
        command.arg("--sqlite-path").arg(site.dir.join("data.db"));
        command.args(["serve", "--addr", &format!("127.0.0.1:{}", site.port())]);
        command.env("DENO_KV_ACCESS_TOKEN", TOKEN);
        vec![command]
    },
    ready: |site| {
        Box::pin(async {
            let body = r#"{"supportedVersions":[2]}"#;
            let len = body.len();
            let request = format!(
                "POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {TOKEN}\r\n\
                 content-length: {len}\r\n\r\n{body}"
            );
            ask(site.port(), request.as_bytes()).await.starts_with(b"HTTP/1.1 200")
        })
    },
    join: nothing_to_join,
};
