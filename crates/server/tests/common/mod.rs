//! Starts the real binary and talks to it. The same shape as the harness in testkit.

#![allow(dead_code, reason = "each test file uses its part of this")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(20);

/// The binary in an empty directory, with nothing set from outside.
pub(crate) fn keystead(dir: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keystead"));
    command.args(arguments).current_dir(dir.path());
    for (name, _) in std::env::vars_os().filter(|(n, _)| n.to_string_lossy().starts_with("KEYSTEAD_")) {
        command.env_remove(name);
    }
    command
}

pub(crate) fn dir() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// A running server. Killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
    stderr: Option<JoinHandle<String>>,
    ready: String,
    _dir: TempDir,
}

impl Server {
    /// Starts a server on a free port of loopback, with these arguments besides.
    pub(crate) fn start(arguments: &[&str]) -> Server {
        let dir = dir();
        let all = [&["--http", "127.0.0.1:0"], arguments].concat();
        let command = keystead(&dir, &all);
        Server::spawn(dir, command)
    }

    pub(crate) fn spawn(dir: TempDir, mut command: Command) -> Server {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut pipe = child.stderr.take().unwrap();
        let stderr = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = pipe.read_to_string(&mut text);
            text
        });
        let mut ready = String::new();
        // The line to try is the block's last.
        while !ready.contains("\n  try ") {
            if stdout.read_line(&mut ready).unwrap() == 0 {
                let _ = child.kill();
                panic!("the server did not start: {ready}{}", stderr.join().unwrap());
            }
        }
        Server {
            child,
            stdout,
            stderr: Some(stderr),
            ready,
            _dir: dir,
        }
    }

    /// The ready block.
    pub(crate) fn ready(&self) -> &str {
        &self.ready
    }

    /// The value of a line of the ready block.
    pub(crate) fn ready_line(&self, name: &str) -> &str {
        let line = self
            .ready
            .lines()
            .find_map(|l| l.strip_prefix("  ")?.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {}", self.ready))
            .trim_start()
    }

    /// HOST:PORT of the HTTP door.
    pub(crate) fn http(&self) -> &str {
        self.ready_line("http").strip_prefix("http://").unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end, and returns the exit status and the whole log.
    pub(crate) fn wait(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        let mut more = String::new();
        self.stdout.read_to_string(&mut more).unwrap();
        assert_eq!(more, "", "a server says nothing on stdout after the ready block");
        (status, self.stderr.take().unwrap().join().unwrap())
    }

    /// Asks it to stop, and waits.
    pub(crate) fn stop(self) -> (ExitStatus, String) {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// A connection of its own.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.http())
    }

    /// One `GET` on a connection of its own.
    pub(crate) fn get(&self, path: &str) -> Response {
        self.request("GET", path, "")
    }

    /// One request on a connection of its own. `headers` are whole lines.
    pub(crate) fn request(&self, method: &str, path: &str, headers: &str) -> Response {
        let mut client = self.connect();
        client.send(&format!("{method} {path} HTTP/1.1\r\nHost: k\r\n{headers}\r\n"));
        client.receive(method)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection that says what it is told to.
pub(crate) struct Client(BufReader<TcpStream>);

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Status line and headers, in lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Client {
    pub(crate) fn connect(address: &str) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client(BufReader::new(stream))
    }

    pub(crate) fn send(&mut self, text: &str) {
        // A server that says no early may close before it has heard everything; what it answered is what
        // counts.
        let _ = self.0.get_mut().write_all(text.as_bytes());
    }

    pub(crate) fn receive(&mut self, method: &str) -> Response {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(self.0.read_line(&mut head).unwrap(), 0, "closed after: {head}");
        }
        let head = head.to_lowercase();
        let length = head
            .lines()
            .find_map(|l| l.strip_prefix("content-length: "))
            .map_or(0, |n| n.parse().unwrap());
        let mut body = vec![0; if method == "HEAD" { 0 } else { length }];
        self.0.read_exact(&mut body).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Response {
            status,
            head,
            body: String::from_utf8(body).unwrap(),
        }
    }

    /// Whether the server has closed the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.0.fill_buf(), Ok([]) | Err(_))
    }
}
