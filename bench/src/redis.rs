//! A real redis-server for comparison: started on a free port of loopback, stopped by its process id.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

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
        let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
        let dir = tempfile::tempdir().ok()?;
        let mut server = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--dir"])
            .arg(dir.path())
            .args(options)
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        for _ in 0..200 {
            std::thread::sleep(Duration::from_millis(20));
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
                return Some(Redis { server, stream: BufReader::new(stream), port, dir });
            }
        }
        let _ = server.kill();
        None
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

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
