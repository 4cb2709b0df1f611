//! What the harness of testkit does not have: the binary run to its end, raw HTTP, signals, and prepared databases.

#![allow(dead_code, reason = "each test file uses its part of this")]

use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use keystead_core::{Millis, Result, Version};
use keystead_engine::{Engine, Options};
use keystead_model::Bytes;
use keystead_model::keyspace::{Expire, Keyspace};
use keystead_testkit::server::{Launch, Server};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);

const BINARY: &str = env!("CARGO_BIN_EXE_keystead");

pub(crate) fn launch(arguments: &[&str]) -> Launch {
    Launch::new(BINARY).args(arguments)
}

/// Whether this row of the table of differences in docs/edge.md applies: not to the server. The tests of the target `edge`, which run on the
/// worker, have another function of this name.
pub(crate) fn differs(_row: &str) -> bool {
    false
}

/// A server on a free port in an empty directory, with these arguments.
pub(crate) fn start(arguments: &[&str]) -> Server {
    launch(arguments).start().unwrap()
}

/// The same with a database in `data`.
pub(crate) fn start_on(data: &Path, arguments: &[&str]) -> Server {
    launch(arguments).arg("--data").arg(data).start().unwrap()
}

pub(crate) fn dir() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// How a command ended: exit code, stdout and stderr.
pub(crate) type Ended = (i32, String, String);

/// Runs the binary to its end in `dir`, with only `variables` in its environment. Its RESP listener is on a free port unless they or
/// the arguments say otherwise: the default port may be in use.
pub(crate) fn run_in(dir: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
    run_on(Stdio::null(), dir, arguments, variables)
}

/// The same with `input` on its stdin.
pub(crate) fn run_reading(input: &[u8], dir: &Path, arguments: &[&str]) -> Ended {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(input).unwrap();
    file.rewind().unwrap();
    run_on(file.into(), dir, arguments, &[])
}

fn run_on(stdin: Stdio, dir: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
    let mut command = Command::new(BINARY);
    for (name, _) in std::env::vars_os().filter(|(n, _)| n.to_string_lossy().starts_with("KEYSTEAD_")) {
        command.env_remove(name);
    }
    command.env("KEYSTEAD_RESP", "127.0.0.1:0");
    command.args(arguments).current_dir(dir).envs(variables.iter().copied());
    let child = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_child(&child);
    let (end, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || end.send(child.wait_with_output()));
    let Ok(output) = ended.recv_timeout(PATIENCE) else {
        // A server that starts where an error is expected would never end.
        kill_process(pid, Signal::KILL).unwrap();
        panic!("{arguments:?} did not end: {:?}", ended.recv());
    };
    let output = output.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

pub(crate) fn run(arguments: &[&str]) -> Ended {
    run_in(dir().path(), arguments, &[])
}

/// The line of a command that failed as all must: with this exit code, nothing on stdout, one line on stderr.
pub(crate) fn only_line(code: i32, (ended, stdout, stderr): &Ended) -> String {
    assert_eq!((*ended, stdout.as_str()), (code, ""), "{stderr}");
    assert_eq!(stderr.matches('\n').count(), 1, "{stderr}");
    stderr.strip_prefix("keystead: ").unwrap().trim_end().to_owned()
}

/// Sends a signal and waits for nothing.
pub(crate) fn signal(server: &Server, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(server.pid()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Puts keys `k0`, `k1`, ... into the database in `dir`, which is created if it is not there, and closes it.
pub(crate) fn fill(dir: &Path, shards: Option<usize>, keys: usize) {
    let mut options = Options::new(dir).segment_bytes(64 * 1024);
    if let Some(shards) = shards {
        options = options.shards(shards);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let engine = Engine::open(&options).unwrap();
        for n in 0..keys {
            let key = format!("k{n}").into_bytes();
            let name = key.clone();
            let set = move |keyspace: &mut Keyspace, now: Millis| -> Result<Version> {
                keyspace.set_str(&name, Bytes::from(&b"some value"[..]), Expire::Keep, now)
            };
            engine.write(&key, set).await.unwrap();
        }
        engine.close().await.unwrap();
    });
}

/// What `keystead check` says, line by line: the value of a name.
pub(crate) fn report_line(report: &str, name: &str) -> String {
    let line = report.lines().find_map(|line| line.strip_prefix("  ")?.strip_prefix(name)).unwrap();
    line.trim_start().to_owned()
}

/// One `GET` on a connection of its own.
pub(crate) fn get(server: &Server, path: &str) -> Response {
    request(server, "GET", path, "")
}

/// One request on a connection of its own. `headers` are whole lines.
pub(crate) fn request(server: &Server, method: &str, path: &str, headers: &str) -> Response {
    let mut client = Client::connect(server);
    client.send(&format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"));
    client.receive(method)
}

/// A connection that sends raw requests.
pub(crate) struct Client(BufReader<TcpStream>);

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Status line and headers, in lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Client {
    pub(crate) fn connect(server: &Server) -> Client {
        let stream = TcpStream::connect(server.http().unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client(BufReader::new(stream))
    }

    pub(crate) fn send(&mut self, text: &str) {
        // The server may close the connection before it has read everything; only its response matters.
        let _ = self.0.get_mut().write_all(text.as_bytes());
    }

    pub(crate) fn receive(&mut self, method: &str) -> Response {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(self.0.read_line(&mut head).unwrap(), 0, "closed after: {head}");
        }
        let head = head.to_lowercase();
        let length =
            head.lines().find_map(|l| l.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
        let mut body = vec![0; if method == "HEAD" { 0 } else { length }];
        self.0.read_exact(&mut body).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Response { status, head, body: String::from_utf8(body).unwrap() }
    }

    /// Whether the server has closed the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.0.fill_buf(), Ok([]) | Err(_))
    }
}
