//! Clients of a Redis Cluster that write as fast as it answers, with pipelines, and know what must be there afterwards. Touches sockets of this
//! machine.
//!
//! Each key belongs to one client, so that the reply to every write is known: `INCR`, and, where the server has it, `SET ... IFEQ` as a
//! compare-and-set. Redirections are followed; every other error is counted by its first word, and the write is sent again.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use keystead_core::{Stopwatch, key};

/// How long a reply may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a client waits before it sends again what was rejected.
const PAUSE: Duration = Duration::from_millis(2);

/// Who writes what.
#[derive(Clone, Debug)]
pub struct Options {
    /// Ports of nodes on this machine: any of the cluster.
    pub ports: Vec<u16>,
    /// Clients, each with a thread.
    pub clients: usize,
    /// Keys of each client.
    pub keys: usize,
    /// Writes that a client sends before it reads their replies.
    pub pipeline: usize,
    /// Whether every second key is changed by compare-and-set.
    pub swaps: bool,
}

/// What clients have seen since the last mark.
#[derive(Debug, Default)]
pub struct Window {
    /// Writes that were acknowledged.
    pub writes: u64,
    /// Redirections that were followed.
    pub redirections: u64,
    /// Errors, by their first word.
    pub errors: BTreeMap<String, u64>,
    /// Replies that contradict what was acknowledged before: a lost or repeated write.
    pub wrong: Vec<String>,
    /// How long each pipeline took, in microseconds.
    latencies_us: Vec<u32>,
    /// How long the window was.
    pub lasted: Duration,
}

impl Window {
    /// A quantile of the times of pipelines, in milliseconds.
    #[must_use]
    pub fn quantile_ms(&mut self, quantile: f64) -> f64 {
        self.latencies_us.sort_unstable();
        let at = (self.latencies_us.len() as f64 * quantile) as usize;
        let found = self.latencies_us.get(at.min(self.latencies_us.len().saturating_sub(1)));
        f64::from(found.copied().unwrap_or_default()) / 1000.0
    }

    /// Acknowledged writes a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.writes as f64 / self.lasted.as_secs_f64().max(1e-9)
    }

    fn add(&mut self, other: Window) {
        self.writes += other.writes;
        self.redirections += other.redirections;
        for (word, count) in other.errors {
            *self.errors.entry(word).or_default() += count;
        }
        self.wrong.extend(other.wrong);
        self.latencies_us.extend(other.latencies_us);
    }
}

/// Clients that write.
pub struct Writers {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<io::Result<Vec<u64>>>>,
    marked: Stopwatch,
    options: Options,
}

struct Shared {
    stop: AtomicBool,
    window: Mutex<Window>,
    failed: AtomicUsize,
}

impl Writers {
    /// Begins to write.
    #[must_use]
    pub fn start(options: Options) -> Writers {
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            window: Mutex::default(),
            failed: AtomicUsize::new(0),
        });
        let clients = (0..options.clients)
            .map(|number| {
                let (shared, options) = (Arc::clone(&shared), options.clone());
                std::thread::spawn(move || {
                    let mut client = Client::new(number, options);
                    let ended = client.run(&shared);
                    if ended.is_err() {
                        shared.failed.fetch_add(1, Ordering::Relaxed);
                    }
                    ended.map(|()| client.values)
                })
            })
            .collect();
        Writers { shared, clients, marked: Stopwatch::start(), options }
    }

    /// What happened since the last mark. The next window begins.
    #[must_use]
    pub fn mark(&mut self) -> Window {
        let mut window = self.shared.window.lock().unwrap_or_else(PoisonError::into_inner);
        let lasted = self.marked.elapsed();
        self.marked = Stopwatch::start();
        Window { lasted, ..std::mem::take(&mut *window) }
    }

    /// Whether clients have lost a connection.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.shared.failed.load(Ordering::Relaxed)
    }

    /// Stops, reads every key, and returns how many keys there are.
    ///
    /// # Errors
    /// When a client has lost its connection, or a key is not what was acknowledged.
    pub fn stop_and_check(self) -> io::Result<usize> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let mut count = 0;
        for (number, client) in self.clients.into_iter().enumerate() {
            let joined = client.join().unwrap_or_else(|_| Err(io::Error::other("a client has panicked")));
            let values = joined?;
            let mut reader = Client::new(number, self.options.clone());
            for (n, value) in values.iter().enumerate().filter(|(_, value)| **value > 0) {
                count += 1;
                let (key, expected) = (name(number, n), value.to_string());
                let found = reader.ask(&key, &["GET", &key])?;
                if found != expected {
                    return Err(io::Error::other(format!(
                        "{key} is {found}, and {expected} was acknowledged"
                    )));
                }
            }
        }
        Ok(count)
    }
}

fn name(client: usize, n: usize) -> String {
    format!("w:{client}:{n}")
}

struct Client {
    number: usize,
    options: Options,
    owners: HashMap<u16, u16>,
    connections: HashMap<u16, BufReader<TcpStream>>,
    /// The value of each key, as acknowledged.
    values: Vec<u64>,
}

impl Client {
    fn new(number: usize, options: Options) -> Client {
        let values = vec![0; options.keys];
        Client { number, options, owners: HashMap::new(), connections: HashMap::new(), values }
    }

    fn run(&mut self, shared: &Shared) -> io::Result<()> {
        let mut next = 0;
        while !shared.stop.load(Ordering::Relaxed) {
            let batch: Vec<usize> = (0..self.options.pipeline.min(self.options.keys))
                .map(|at| (next + at) % self.options.keys)
                .collect();
            next = (next + batch.len()) % self.options.keys;
            let (mut window, watch) = (Window::default(), Stopwatch::start());
            self.write(batch, &mut window)?;
            window.latencies_us.push(u32::try_from(watch.elapsed().as_micros()).unwrap_or(u32::MAX));
            shared.window.lock().unwrap_or_else(PoisonError::into_inner).add(window);
        }
        Ok(())
    }

    /// Writes each of these keys one time.
    fn write(&mut self, mut left: Vec<usize>, window: &mut Window) -> io::Result<()> {
        while !left.is_empty() {
            let mut by_port: BTreeMap<u16, (Vec<usize>, Vec<u8>)> = BTreeMap::new();
            for n in left.drain(..) {
                let slot = key::slot(name(self.number, n).as_bytes());
                let port = self.owners.get(&slot).copied().unwrap_or(self.options.ports[0]);
                let (keys, bytes) = by_port.entry(port).or_default();
                keys.push(n);
                self.encode(n, bytes);
            }
            for (port, (_, bytes)) in &by_port {
                self.connection(*port)?.get_mut().write_all(bytes)?;
            }
            let mut has_errors = false;
            for (port, (keys, _)) in by_port {
                for n in keys {
                    let reply = read_reply(self.connection(port)?)?;
                    if self.take(n, &reply, window, &mut has_errors)? {
                        continue;
                    }
                    left.push(n);
                }
            }
            if has_errors {
                std::thread::park_timeout(PAUSE);
            }
        }
        Ok(())
    }

    fn is_swap(&self, n: usize) -> bool {
        self.options.swaps && n % 2 == 1
    }

    fn encode(&self, n: usize, bytes: &mut Vec<u8>) {
        let (key, value) = (name(self.number, n), self.values[n]);
        let next = (value + 1).to_string();
        match self.is_swap(n) {
            false => encode(&["INCR", &key], bytes),
            true if value == 0 => encode(&["SET", &key, &next, "NX"], bytes),
            true => encode(&["SET", &key, &next, "IFEQ", &value.to_string()], bytes),
        }
    }

    /// Whether a write was acknowledged. If not, it is sent again.
    fn take(
        &mut self,
        n: usize,
        reply: &str,
        window: &mut Window,
        has_errors: &mut bool,
    ) -> io::Result<bool> {
        let next = self.values[n] + 1;
        if let Some(error) = reply.strip_prefix('-') {
            let mut words = error.split(' ');
            let (first, _, address) = (words.next().unwrap_or_default(), words.next(), words.next());
            let port = address.and_then(|address| address.rsplit_once(':')?.1.parse::<u16>().ok());
            return match (first, port) {
                ("MOVED", Some(port)) => {
                    window.redirections += 1;
                    self.owners.insert(key::slot(name(self.number, n).as_bytes()), port);
                    Ok(false)
                }
                ("ASK", Some(port)) => {
                    window.redirections += 1;
                    let mut bytes = Vec::new();
                    encode(&["ASKING"], &mut bytes);
                    self.encode(n, &mut bytes);
                    let connection = self.connection(port)?;
                    connection.get_mut().write_all(&bytes)?;
                    read_reply(connection)?;
                    let reply = read_reply(connection)?;
                    match reply.starts_with("-ASK ") {
                        true => Ok(false),
                        false => self.take(n, &reply, window, has_errors),
                    }
                }
                _ => {
                    *window.errors.entry(first.to_owned()).or_default() += 1;
                    *has_errors = true;
                    Ok(false)
                }
            };
        }
        let expected = if self.is_swap(n) { "+OK".to_owned() } else { format!(":{next}") };
        if reply != expected {
            window.wrong.push(format!("{}: {reply} after {}", name(self.number, n), next - 1));
        }
        self.values[n] = next;
        window.writes += 1;
        Ok(true)
    }

    /// A read that is repeated until it has a value.
    fn ask(&mut self, key: &str, words: &[&str]) -> io::Result<String> {
        let slot = key::slot(key.as_bytes());
        for _ in 0..1000 {
            let port = self.owners.get(&slot).copied().unwrap_or(self.options.ports[0]);
            let mut bytes = Vec::new();
            encode(words, &mut bytes);
            let connection = self.connection(port)?;
            connection.get_mut().write_all(&bytes)?;
            let reply = read_reply(connection)?;
            match reply.strip_prefix("-MOVED ").and_then(|moved| moved.rsplit_once(':')?.1.parse().ok()) {
                Some(port) => drop(self.owners.insert(slot, port)),
                None if reply.starts_with('-') => std::thread::park_timeout(PAUSE),
                None => return Ok(reply),
            }
        }
        Err(io::Error::other(format!("{key} cannot be read")))
    }

    fn connection(&mut self, port: u16) -> io::Result<&mut BufReader<TcpStream>> {
        use std::collections::hash_map::Entry;
        match self.connections.entry(port) {
            Entry::Occupied(open) => Ok(open.into_mut()),
            Entry::Vacant(vacant) => {
                let stream = TcpStream::connect(("127.0.0.1", port))?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                Ok(vacant.insert(BufReader::with_capacity(64 * 1024, stream)))
            }
        }
    }
}

fn encode(words: &[&str], bytes: &mut Vec<u8>) {
    // Writing to a Vec cannot fail.
    let _ = write!(bytes, "*{}\r\n", words.len());
    for word in words {
        let _ = write!(bytes, "${}\r\n{word}\r\n", word.len());
    }
}

/// A reply as its line, or the text of a byte string.
fn read_reply(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let line = line.trim_end();
    match line.strip_prefix('$').and_then(|len| len.parse::<usize>().ok()) {
        None => Ok(line.to_owned()),
        Some(len) => {
            let mut bytes = vec![0; len + 2];
            stream.read_exact(&mut bytes)?;
            bytes.truncate(len);
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        }
    }
}
