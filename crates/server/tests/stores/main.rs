//! `keystead store verify`, `keystead store bench` and `keystead limit replay --store`, through the real binary on real servers.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on has failed")]

mod bench;
mod replay;
mod verify;

use std::io::Write;
use std::process::{Command, Output, Stdio};

use keystead_testkit::servers::{
    Kind, OwnServer, SharedServer, Site, denokv, dynamodb, etcd, keystead as this, nats, postgres, redis,
};
use keystead_testkit::skip::found;
use tokio::runtime::{Builder, Runtime};

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A store on a server besides Redis and PostgreSQL.
struct OnServer {
    kind: &'static Kind,
    url: fn(&Site) -> String,
    /// Its URL as it is shown.
    shown: fn(&Site) -> String,
}

static OTHERS: [OnServer; 6] = [
    OnServer {
        kind: &redis::REDIS_CLUSTER,
        url: |site| format!("redis+cluster://{}?deadline=40s", site.addresses()),
        shown: |site| format!("redis+cluster://{}", site.addresses()),
    },
    OnServer {
        kind: &this::KEYSTEAD,
        url: |site| format!("upstash+http://{}@127.0.0.1:{}?deadline=40s", this::TOKEN, site.port()),
        shown: |site| format!("127.0.0.1:{}", site.port()),
    },
    OnServer {
        kind: &dynamodb::DYNAMODB,
        url: |site| {
            let endpoint = format!("endpoint=http://127.0.0.1:{}", site.port());
            format!("dynamodb://id:secret@tests?region=eu-west-1&{endpoint}&create=true&deadline=40s")
        },
        shown: |_| "tests".to_owned(),
    },
    OnServer {
        kind: &denokv::DENOKV,
        url: |site| format!("denokv://{}@127.0.0.1:{}?deadline=40s", denokv::TOKEN, site.port()),
        shown: |site| format!("127.0.0.1:{}", site.port()),
    },
    OnServer {
        kind: &nats::NATS,
        url: |site| format!("nats://{}/tests?deadline=40s", site.addresses()),
        shown: |site| format!("nats://{}/tests", site.addresses()),
    },
    OnServer {
        kind: &etcd::ETCD,
        // It syncs every write to disk: slow where others use the disk.
        url: |site| format!("etcd://{}?deadline=60s", site.addresses()),
        shown: |site| format!("etcd://{}", site.addresses()),
    },
];

fn shared(kind: &'static Kind) -> Option<SharedServer> {
    found(kind.name, runtime().block_on(SharedServer::get(kind)))
}

fn own(kind: &'static Kind) -> Option<OwnServer> {
    found(kind.name, runtime().block_on(OwnServer::start(kind)))
}

fn postgres_url(site: &Site, password: &str, parameters: &str) -> String {
    format!("postgres://postgres:{password}@{}/postgres?deadline=30s{parameters}", site.addresses())
}

fn right_postgres_url(site: &Site, parameters: &str) -> String {
    postgres_url(site, postgres::PASSWORD, parameters)
}

/// The binary, without the settings of this environment.
fn keystead(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keystead"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("KEYSTEAD_")) {
        command.env_remove(name);
    }
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// How a command ended: exit code, stdout and stderr.
type Ended = (i32, String, String);

fn ended(output: Output) -> Ended {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Runs the binary to its end, with `input` on its stdin.
fn run(input: &str, arguments: &[&str]) -> Ended {
    let mut child = keystead(arguments).spawn().unwrap();
    let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_owned());
    // On a thread: it prints while it reads. A command that has failed reads nothing.
    std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    ended(child.wait_with_output().unwrap())
}
