//! Clients that write while servers are killed, and know what must be there afterwards.
//!
//! Each key belongs to one client, so it knows the outcome of every write: an acknowledged one is there, and one without a reply is there or
//! not, which the client finds out before it writes to the key again.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use keystead_testkit::rng::Rng;
use keystead_testkit::server::Server;
use serde_json::{Value, json};

use crate::Rows;
use crate::client::Http;

/// How long a client waits before it connects again.
const PAUSE: Duration = Duration::from_millis(5);

/// The value and the version of each key.
type Model = BTreeMap<String, (Value, u64)>;

/// What the clients do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writing {
    pub(crate) clients: u64,
    /// Keys of each client.
    pub(crate) keys: u64,
    pub(crate) seed: u64,
}

struct Shared {
    /// None: it is down. Its port may be that of somebody else then.
    address: Mutex<Option<SocketAddr>>,
    ends: AtomicBool,
    /// Of values, so that those of a key grow.
    numbers: AtomicU64,
    acknowledged: AtomicU64,
    /// Writes whose outcome was not known at first.
    unknown: AtomicU64,
}

pub(crate) struct Writers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Model>>,
}

/// What has become of it.
pub(crate) struct Wrote {
    /// What must be there, in the order of the keys.
    pub(crate) rows: Rows,
    pub(crate) acknowledged: u64,
    pub(crate) unknown: u64,
}

impl Writers {
    pub(crate) fn start(server: &Server, writing: Writing) -> Writers {
        let shared = Arc::new(Shared {
            address: Mutex::new(Some(server.http().unwrap())),
            ends: AtomicBool::new(false),
            numbers: AtomicU64::new(1),
            acknowledged: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
        });
        let threads = (0..writing.clients).map(|client| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.write(client, writing))
        });
        Writers { threads: threads.collect(), shared }
    }

    /// The server is killed while clients write, and started again.
    pub(crate) fn kill(&self, server: &mut Server) {
        self.kill_with(server, || ());
    }

    /// The same, and something else happens while it is down.
    pub(crate) fn kill_with(&self, server: &mut Server, meanwhile: impl FnOnce()) {
        *self.shared.address.lock().unwrap() = None;
        server.kill().unwrap();
        meanwhile();
        server.restart().unwrap();
        *self.shared.address.lock().unwrap() = Some(server.http().unwrap());
    }

    /// Waits until clients have had so many more replies.
    pub(crate) fn progress(&self, more: u64) {
        let until = self.shared.acknowledged.load(Ordering::SeqCst) + more;
        crate::until("clients write", || {
            let is_broken = self.threads.iter().any(JoinHandle::is_finished);
            is_broken || self.shared.acknowledged.load(Ordering::SeqCst) >= until
        });
    }

    /// Ends the clients, each after its write.
    pub(crate) fn stop(self) -> Wrote {
        self.shared.ends.store(true, Ordering::SeqCst);
        let models = self.threads.into_iter().map(|thread| thread.join().unwrap());
        let all: Model = models.flatten().collect();
        Wrote {
            rows: all.into_iter().map(|(key, (value, version))| (key, value, version)).collect(),
            acknowledged: self.shared.acknowledged.load(Ordering::SeqCst),
            unknown: self.shared.unknown.load(Ordering::SeqCst),
        }
    }
}

impl Shared {
    fn connect(&self) -> Http {
        loop {
            let address = *self.address.lock().unwrap();
            match address.map(Http::try_connect) {
                Some(Ok(http)) => return http,
                _ => std::thread::park_timeout(PAUSE),
            }
        }
    }

    fn write(&self, client: u64, writing: Writing) -> Model {
        let mut random = Rng::new(writing.seed ^ ((client + 1) << 32));
        let (mut model, mut http) = (Model::new(), self.connect());
        while !self.ends.load(Ordering::SeqCst) {
            let key = format!("d:{client}-{:03}", random.next_u64() % writing.keys);
            let n = self.numbers.fetch_add(1, Ordering::SeqCst);
            let before = model.get(&key).cloned();
            let after = match &before {
                Some(_) if random.next_u64().is_multiple_of(5) => None,
                before => {
                    let value = json!({ "n": n, "text": "x".repeat((n % 50) as usize) });
                    Some((value, before.as_ref().map_or(1, |(_, version)| version + 1)))
                }
            };
            let now = match attempt(&mut http, &key, after.as_ref()) {
                Some(version) => {
                    self.acknowledged.fetch_add(1, Ordering::SeqCst);
                    if let (Some(version), Some(expected)) =
                        (version, after.as_ref().map(|(_, version)| *version))
                    {
                        assert_eq!(version, expected, "{key}: an acknowledged write is lost");
                    }
                    after
                }
                None => {
                    self.unknown.fetch_add(1, Ordering::SeqCst);
                    let found = self.look(&mut http, &key);
                    assert!(
                        found == before || found == after,
                        "{key}: {found:?}, not {before:?} or {after:?}"
                    );
                    found
                }
            };
            match now {
                Some(now) => drop(model.insert(key, now)),
                None => drop(model.remove(&key)),
            }
        }
        model
    }

    /// What a key is, as soon as a server says so.
    fn look(&self, http: &mut Http, key: &str) -> Option<(Value, u64)> {
        loop {
            *http = self.connect();
            http.send("GET", &format!("/kv/{key}"), &[], b"");
            match http.try_receive("GET") {
                Ok(response) if response.status == 200 => {
                    let document = response.json();
                    return Some((document["value"].clone(), document["version"].as_u64().unwrap()));
                }
                Ok(response) if response.status == 404 => return None,
                _ => std::thread::park_timeout(PAUSE),
            }
        }
    }
}

/// Writes a value or deletes a key. Returns nothing when the outcome is not known; else the version, if there is one.
fn attempt(http: &mut Http, key: &str, value: Option<&(Value, u64)>) -> Option<Option<u64>> {
    let (method, body) = match value {
        Some((value, _)) => ("PUT", value.to_string()),
        None => ("DELETE", String::new()),
    };
    http.send(method, &format!("/kv/{key}"), &[], body.as_bytes());
    let response = http.try_receive(method).ok()?;
    if !(200..300).contains(&response.status) {
        return None;
    }
    Some(value.and_then(|_| response.json()["version"].as_u64()))
}
