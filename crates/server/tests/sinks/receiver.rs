//! A webhook that does what the documentation asks of a receiver: it keeps the last event of each subject, and takes those away that the end
//! of a resynchronisation leaves out.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::{Rows, Target};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// How it replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Replies {
    #[default]
    Accepts,
    /// It takes nothing.
    Away,
    /// It takes the events, and closes the connection instead of saying so. It replies to what has none, as the probe.
    Loses,
}

/// The last event of a subject.
struct Held {
    sequence: u64,
    batch: u64,
    version: u64,
    /// None: it is deleted.
    value: Option<Value>,
}

#[derive(Default)]
struct State {
    replies: Replies,
    held: BTreeMap<String, Held>,
    /// Events about keys that it took, also those that it had.
    events: u64,
    repeated: u64,
    completions: u64,
}

pub(crate) struct Receiver {
    port: u16,
    state: Arc<Mutex<State>>,
}

impl Receiver {
    pub(crate) fn start() -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::<Mutex<State>>::default();
        let shared = Arc::clone(&state);
        // It ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || serve(&mut BufReader::new(stream), &state));
            }
        });
        Receiver { port, state }
    }

    pub(crate) fn set(&self, replies: Replies) {
        self.state.lock().unwrap().replies = replies;
    }

    /// `key|value|version` of what it has.
    pub(crate) fn rows(&self) -> Rows {
        let state = self.state.lock().unwrap();
        let live = |(key, held): (&String, &Held)| Some((key.clone(), held.value.clone()?, held.version));
        state.held.iter().filter_map(live).collect()
    }

    /// Events about keys that it took, and those of them that it had already.
    pub(crate) fn events(&self) -> (u64, u64) {
        let state = self.state.lock().unwrap();
        (state.events, state.repeated)
    }

    pub(crate) fn completions(&self) -> u64 {
        self.state.lock().unwrap().completions
    }
}

impl Target for Receiver {
    fn url(&self) -> String {
        format!("http://{SECRET}@127.0.0.1:{}/hook?deadline=1s", self.port)
    }

    fn sql(&self, statement: &str) -> String {
        panic!("a webhook knows no {statement}")
    }
}

impl State {
    fn take(&mut self, event: &Value) {
        let number = |name: &str| event[name].as_str().and_then(|text| text.parse::<u64>().ok());
        let batch = number("keysteadbatch").unwrap();
        if event["type"] == "dev.keystead.complete" {
            let first: u64 = event["data"]["firstBatch"].as_str().unwrap().parse().unwrap();
            self.completions += 1;
            for held in self.held.values_mut().filter(|held| held.batch < first) {
                held.value = None;
            }
            return;
        }
        self.events += 1;
        let (key, sequence) = (event["subject"].as_str().unwrap().to_owned(), number("sequence").unwrap());
        if let Some(held) = self.held.get_mut(&key)
            && held.sequence >= sequence
        {
            self.repeated += 1;
            held.batch = held.batch.max(batch);
            return;
        }
        let value = event.get("data").cloned();
        assert_eq!(value.is_some(), event["type"] == "dev.keystead.put", "{event}");
        self.held.insert(key, Held { sequence, batch, version: number("keysteadversion").unwrap(), value });
    }
}

fn serve(stream: &mut BufReader<TcpStream>, state: &Mutex<State>) {
    while let Some(body) = body(stream) {
        let events: Vec<Value> = serde_json::from_slice(&body).unwrap();
        let mut state = state.lock().unwrap();
        if state.replies != Replies::Away {
            events.iter().for_each(|event| state.take(event));
        }
        let reply = match state.replies {
            Replies::Away => "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
            Replies::Loses if !events.is_empty() => return,
            Replies::Loses | Replies::Accepts => "HTTP/1.1 204 No Content\r\n\r\n",
        };
        drop(state);
        if stream.get_mut().write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}

/// The body of the next request.
fn body(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut len = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(text) = line.to_lowercase().strip_prefix("content-length:") {
            len = text.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; len];
    stream.read_exact(&mut body).ok()?;
    Some(body)
}
