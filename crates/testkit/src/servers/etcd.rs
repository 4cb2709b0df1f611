//! etcd: one member.

use std::path::Path;
use std::process::Command;

use super::certificates::{self, CERTIFICATE, KEY};
use super::{Kind, Site, ask, find_binary, nothing_to_join};

const PLAIN: Kind = Kind {
    name: "etcd",
    ports: 2,
    find: || find_binary("etcd", &["etcd"], "apt install etcd-server"),
    prepare: |_, _| Ok(()),
    commands: |binary, site| vec![command(binary, site, "http")],
    ready: |site| Box::pin(is_healthy(site.port())),
    join: nothing_to_join,
};

/// etcd, which listens to clients on its first port and to peers on its second.
pub static ETCD: Kind = PLAIN;

/// The same with TLS for its clients. Whether it is ready can be read on its third port.
pub static ETCD_TLS: Kind = Kind {
    name: "etcd-tls",
    ports: 3,
    find: || {
        certificates::find()?;
        (PLAIN.find)()
    },
    prepare: |_, site| certificates::make(&site.dir),
    commands: |binary, site| {
        let mut command = command(binary, site, "https");
        command.arg("--cert-file").arg(site.dir.join(CERTIFICATE)).arg("--key-file").arg(site.dir.join(KEY));
        command.args(["--listen-metrics-urls", &format!("http://127.0.0.1:{}", site.ports[2])]);
        vec![command]
    },
    ready: |site| Box::pin(is_healthy(site.ports[2])),
    ..PLAIN
};

/// The largest request of [`ETCD_SMALL`], in bytes.
pub const SMALL_BYTES: usize = 64 * 1024;

/// A server that takes smaller requests than it does by default.
pub static ETCD_SMALL: Kind = Kind {
    name: "etcd-small",
    commands: |binary, site| {
        let mut command = command(binary, site, "http");
        command.args(["--max-request-bytes", &SMALL_BYTES.to_string()]);
        vec![command]
    },
    ..PLAIN
};

fn command(binary: &Path, site: &Site, scheme: &str) -> Command {
    let clients = format!("{scheme}://127.0.0.1:{}", site.ports[0]);
    let peers = format!("http://127.0.0.1:{}", site.ports[1]);
    let mut command = Command::new(binary);
    command.args(["--name", "tests", "--data-dir"]).arg(site.dir.join("data"));
    command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
    command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
    command.args(["--initial-cluster", &format!("tests={peers}")]);
    // Logins are as slow as this says; the default is for passwords of value.
    command.args(["--bcrypt-cost", "4"]);
    command
}

async fn is_healthy(port: u16) -> bool {
    let request = b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    String::from_utf8_lossy(&ask(port, request).await).contains("\"health\":\"true\"")
}
