//! The real server, as users start it: on free ports of loopback, stopped by its process id.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running server.
pub(crate) struct Keystead {
    server: Child,
    level: String,
    /// Of the RESP listener.
    pub(crate) port: u16,
    pub(crate) http_port: u16,
    dir: tempfile::TempDir,
}

impl Keystead {
    /// Starts the binary in the folder of this program, which must be built: `cargo build --release`.
    pub(crate) fn start(level: &str) -> Self {
        Keystead::start_with(level, "").expect("the server prints its addresses")
    }

    /// Starts it with these settings in its file. `None` when it rejects them.
    pub(crate) fn start_with(level: &str, settings: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("keystead.toml");
        std::fs::write(&file, settings).unwrap();
        let mut server = command(dir.path(), level, 0, 0)
            .stdout(Stdio::piped())
            .spawn()
            .expect("build the server first: cargo build --release");
        let lines = BufReader::new(server.stdout.take().unwrap()).lines();
        let mut keystead = Keystead { server, level: level.to_owned(), port: 0, http_port: 0, dir };
        for line in lines.map_while(Result::ok) {
            let port_of = |listener: &str| {
                line.trim().strip_prefix(listener)?.trim_end_matches('/').rsplit(':').next()?.parse().ok()
            };
            keystead.http_port = port_of("http").unwrap_or(keystead.http_port);
            keystead.port = port_of("resp").unwrap_or(keystead.port);
            if keystead.port > 0 && keystead.http_port > 0 {
                return Some(keystead);
            }
        }
        None
    }
}

impl Keystead {
    pub(crate) fn pid(&self) -> u32 {
        self.server.id()
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }
}

impl Keystead {
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

    /// Starts it again with the same database, and returns how long `until_ready` took.
    pub(crate) fn restart(&mut self, until_ready: fn(u16, Instant) -> Duration) -> Duration {
        let since = Instant::now();
        let mut command = command(self.dir.path(), &self.level, self.http_port, self.port);
        self.server = command.stdout(Stdio::null()).spawn().unwrap();
        until_ready(self.port, since)
    }
}

impl Drop for Keystead {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn command(dir: &Path, level: &str, http_port: u16, port: u16) -> Command {
    let mut command = Command::new(binary());
    command
        .args(["--http", &format!("127.0.0.1:{http_port}"), "--resp", &format!("127.0.0.1:{port}")])
        .args(["--durability", level, "--data"])
        .arg(dir.join("data"))
        .arg("--config")
        .arg(dir.join("keystead.toml"));
    // The server rejects unknown KEYSTEAD_ variables.
    for name in [
        "KEYSTEAD_ROWS",
        "KEYSTEAD_BIN",
        "KEYSTEAD_VALKEY",
        "KEYSTEAD_KEYS",
        "KEYSTEAD_SECONDS",
        "KEYSTEAD_MINUTES",
    ] {
        command.env_remove(name);
    }
    command
}

pub(crate) fn binary() -> PathBuf {
    std::env::var_os("KEYSTEAD_BIN")
        .map_or_else(|| std::env::current_exe().unwrap().with_file_name("keystead"), PathBuf::from)
}
