//! A real throttlecrab-server for comparison: on free ports of loopback, stopped by its process id.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub(crate) struct Throttlecrab {
    server: Child,
    /// Of its RESP listener.
    pub(crate) port: u16,
    pub(crate) http_port: u16,
}

impl Throttlecrab {
    /// Starts it with this store (`periodic`, `probabilistic`, `adaptive`); it keeps everything in memory. `None` when it is
    /// neither in `PATH` nor named by `THROTTLECRAB_SERVER`.
    pub(crate) fn start(store: &str) -> Option<Self> {
        let binary = std::env::var_os("THROTTLECRAB_SERVER").unwrap_or("throttlecrab-server".into());
        let [port, http_port] = [free_port()?, free_port()?];
        let server = Command::new(binary)
            .args(["--redis", "--redis-host", "127.0.0.1", "--redis-port", &port.to_string()])
            .args(["--http", "--http-host", "127.0.0.1", "--http-port", &http_port.to_string()])
            .args(["--store", store, "--log-level", "error"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let throttlecrab = Throttlecrab { server, port, http_port };
        for _ in 0..200 {
            std::thread::sleep(Duration::from_millis(20));
            if [port, http_port].iter().all(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok()) {
                return Some(throttlecrab);
            }
        }
        None
    }
}

fn free_port() -> Option<u16> {
    Some(TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port())
}

impl Drop for Throttlecrab {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
