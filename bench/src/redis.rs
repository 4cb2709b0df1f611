//! A real redis-server for comparison: started on a free port of loopback, stopped by its process id.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) struct Redis {
    server: Child,
    stream: BufReader<TcpStream>,
    pub(crate) port: u16,
    dir: tempfile::TempDir,
}

impl Redis {
    /// Starts a server without persistence. `None` when redis-server is not installed.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(&["--appendonly", "no"])
    }

    /// Starts a server with these options.
    pub(crate) fn start_with(options: &[&str]) -> Option<Self> {
        Self::start_program("redis-server".as_ref(), options)
    }

    /// Starts Valkey with these options. `None` when it is not installed.
    pub(crate) fn start_valkey(options: &[&str]) -> Option<Self> {
        let program = std::env::var_os("KEYSTEAD_VALKEY").unwrap_or_else(|| "valkey-server".into());
        Self::start_program(&program, options)
    }

    fn start_program(program: &OsStr, options: &[&str]) -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
        let dir = tempfile::tempdir().ok()?;
        let mut server = command(program, dir.path(), port, options).spawn().ok()?;
        for _ in 0..200 {
            std::thread::sleep(Duration::from_millis(20));
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
                return Some(Redis { server, stream: BufReader::new(stream), port, dir });
            }
        }
        let _ = server.kill();
        None
    }

    /// Stops it by a signal, and returns how long that took.
    pub(crate) fn stop(&mut self, signal: fn(&Child)) -> Duration {
        let since = Instant::now();
        signal(&self.server);
        self.server.wait().unwrap();
        since.elapsed()
    }

    pub(crate) fn kill(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }

    /// Starts it again with the same files, and returns how long `until_ready` took.
    pub(crate) fn restart(
        &mut self,
        options: &[&str],
        until_ready: fn(u16, Instant) -> Duration,
    ) -> Duration {
        let since = Instant::now();
        self.server = command("redis-server".as_ref(), self.dir.path(), self.port, options).spawn().unwrap();
        let took = until_ready(self.port, since);
        self.stream = BufReader::new(TcpStream::connect(("127.0.0.1", self.port)).unwrap());
        took
    }

    /// Makes a snapshot of its append-only file, and waits for it.
    pub(crate) fn rewrite(&mut self) {
        self.pipe([vec![b"BGREWRITEAOF".to_vec()]].into_iter());
        loop {
            std::thread::sleep(Duration::from_millis(100));
            self.stream.get_mut().write_all(b"INFO persistence\r\n").unwrap();
            let len: usize = self.line().trim().trim_start_matches('$').parse().unwrap();
            let mut text = vec![0; len + 2];
            self.stream.read_exact(&mut text).unwrap();
            let text = String::from_utf8_lossy(&text);
            if text.contains("aof_rewrite_in_progress:0") && text.contains("aof_rewrite_scheduled:0") {
                return;
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.server.id()
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Sends commands, a thousand at a time, and expects a reply of one line without an error to each.
    pub(crate) fn pipe(&mut self, commands: impl Iterator<Item = Vec<Vec<u8>>>) {
        let mut commands = commands.peekable();
        while commands.peek().is_some() {
            let (mut bytes, mut count) = (Vec::new(), 0);
            for command in commands.by_ref().take(1000) {
                write!(bytes, "*{}\r\n", command.len()).unwrap();
                for part in command {
                    write!(bytes, "${}\r\n", part.len()).unwrap();
                    bytes.extend_from_slice(&part);
                    bytes.extend_from_slice(b"\r\n");
                }
                count += 1;
            }
            self.stream.get_mut().write_all(&bytes).unwrap();
            for _ in 0..count {
                let line = self.line();
                assert!(!line.starts_with('-'), "redis: {line}");
            }
        }
    }

    pub(crate) fn resident_bytes(&mut self) -> usize {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.server.id())).unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line
    }
}

fn command(program: &OsStr, dir: &Path, port: u16, options: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--dir"])
        .arg(dir)
        .args(options)
        .stdout(Stdio::null());
    command
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
