//! Clients of a Redis Cluster, or of a router in front of one, that write with pipelines and know what must be there afterwards. Touches
//! sockets of this machine.
//!
//! Each key belongs to one client, so that the reply to every write is known: `INCR`, and, where the server has it, `SET ... IFEQ` as a
//! compare-and-set. Redirections are followed, unless a router must do that; every other error is counted by its first word, and the write
//! is sent again.

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

/// Who answers the clients.
#[derive(Clone, Debug)]
pub enum Way {
    /// Nodes on this machine, any of the cluster, at these ports. Clients follow their redirections.
    Nodes(Vec<u16>),
    /// A router at this port. A redirection is an error.
    Router(u16),
}

/// Who writes what.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who answers.
    pub way: Way,
    /// Clients, each with a thread.
    pub clients: usize,
    /// Keys of each client.
    pub keys: usize,
    /// Writes that a client sends before it reads their replies.
    pub pipeline: usize,
    /// Keys that share a slot, one behind the other.
    pub per_slot: usize,
    /// Whether every second key is changed by compare-and-set.
    pub swaps: bool,
    /// Pipelines a second of each client. The time of one counts from when it was due, so that a pause of the servers delays all that
    /// were due meanwhile. `None`: the next one follows the last reply.
    pub pace: Option<f64>,
}

impl Options {
    /// The name of a key. All keys of a client are written in their order, again and again.
    #[must_use]
    pub fn name(&self, client: usize, n: usize) -> String {
        match self.per_slot {
            0 | 1 => format!("w:{client}:{n}"),
            many => format!("w:{{{client}:{}}}:{n}", n / many),
        }
    }
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
    /// Writes that were acknowledged in each second of it. The last one may be a part of a second.
    pub by_second: Vec<u64>,
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

    /// Whole seconds in which no write was acknowledged.
    #[must_use]
    pub fn idle_seconds(&self) -> usize {
        let whole = self.lasted.as_secs() as usize;
        (0..whole).filter(|second| self.by_second.get(*second).is_none_or(|writes| *writes == 0)).count()
    }

    /// Adds what a client has seen up to this second of the window.
    fn add(&mut self, other: Window, second: usize) {
        if self.by_second.len() <= second {
            self.by_second.resize(second + 1, 0);
        }
        self.by_second[second] += other.writes;
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
    options: Options,
}

struct Shared {
    stop: AtomicBool,
    /// Since when, and what was seen since then.
    window: Mutex<(Stopwatch, Window)>,
    failed: AtomicUsize,
}

impl Shared {
    fn add(&self, seen: Window) {
        let mut now = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let second = now.0.elapsed().as_secs() as usize;
        now.1.add(seen, second);
    }
}

impl Writers {
    /// Begins to write.
    #[must_use]
    pub fn start(options: Options) -> Writers {
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            window: Mutex::new((Stopwatch::start(), Window::default())),
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
        Writers { shared, clients, options }
    }

    /// What happened since the last mark. The next window begins.
    #[must_use]
    pub fn mark(&mut self) -> Window {
        let mut now = self.shared.window.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, window) = std::mem::replace(&mut *now, (Stopwatch::start(), Window::default()));
        Window { lasted: since.elapsed(), ..window }
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
                let (key, expected) = (self.options.name(number, n), value.to_string());
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
        let (mut next, mut sent, since) = (0, 0u32, Stopwatch::start());
        while !shared.stop.load(Ordering::Relaxed) {
            let batch: Vec<usize> = (0..self.options.pipeline.min(self.options.keys))
                .map(|at| (next + at) % self.options.keys)
                .collect();
            next = (next + batch.len()) % self.options.keys;
            let due = match self.options.pace {
                Some(pace) => Duration::from_secs_f64(f64::from(sent) / pace),
                None => since.elapsed(),
            };
            while let Some(early) = due.checked_sub(since.elapsed()).filter(|early| !early.is_zero()) {
                std::thread::park_timeout(early);
            }
            sent += 1;
            let mut window = Window::default();
            self.write(batch, &mut window)?;
            let took = since.elapsed().saturating_sub(due);
            window.latencies_us.push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
            shared.add(window);
        }
        Ok(())
    }

    /// Writes each of these keys one time.
    fn write(&mut self, mut left: Vec<usize>, window: &mut Window) -> io::Result<()> {
        while !left.is_empty() {
            let mut by_port: BTreeMap<u16, (Vec<usize>, Vec<u8>)> = BTreeMap::new();
            for n in left.drain(..) {
                let port = self.port(&self.name(n));
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

    fn name(&self, n: usize) -> String {
        self.options.name(self.number, n)
    }

    /// Where a key is, as far as the client knows.
    fn port(&self, key: &str) -> u16 {
        match &self.options.way {
            Way::Router(port) => *port,
            Way::Nodes(ports) => {
                self.owners.get(&key::slot(key.as_bytes())).copied().unwrap_or_else(|| ports[0])
            }
        }
    }

    fn is_swap(&self, n: usize) -> bool {
        self.options.swaps && n % 2 == 1
    }

    fn encode(&self, n: usize, bytes: &mut Vec<u8>) {
        let (key, value) = (self.name(n), self.values[n]);
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
            let follows = matches!(self.options.way, Way::Nodes(_));
            return match (first, port.filter(|_| follows)) {
                ("MOVED", Some(port)) => {
                    window.redirections += 1;
                    self.owners.insert(key::slot(self.name(n).as_bytes()), port);
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
            window.wrong.push(format!("{}: {reply} after {}", self.name(n), next - 1));
        }
        self.values[n] = next;
        window.writes += 1;
        Ok(true)
    }

    /// A read that is repeated until it has a value.
    fn ask(&mut self, key: &str, words: &[&str]) -> io::Result<String> {
        let slot = key::slot(key.as_bytes());
        for _ in 0..1000 {
            let port = self.port(key);
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
