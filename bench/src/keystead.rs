//! The real server, as users start it: on free ports of loopback, stopped by its process id.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running server.
pub(crate) struct Keystead {
    server: Child,
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
        let mut server = Command::new(binary())
            .args(["--http", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--durability", level, "--data"])
            .arg(dir.path().join("data"))
            .arg("--config")
            .arg(file)
            // The server rejects unknown KEYSTEAD_ variables.
            .env_remove("KEYSTEAD_ROWS")
            .env_remove("KEYSTEAD_BIN")
            .env_remove("KEYSTEAD_KEYS")
            .env_remove("KEYSTEAD_SECONDS")
            .stdout(Stdio::piped())
            .spawn()
            .expect("build the server first: cargo build --release");
        let lines = BufReader::new(server.stdout.take().unwrap()).lines();
        let mut keystead = Keystead { server, port: 0, http_port: 0, dir };
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

impl Drop for Keystead {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn binary() -> PathBuf {
    std::env::var_os("KEYSTEAD_BIN")
        .map_or_else(|| std::env::current_exe().unwrap().with_file_name("keystead"), PathBuf::from)
}
